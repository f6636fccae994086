/* A library that can be loaded but has no rocattach_collector_start. */
int rocattach_test_something_else(void);
int rocattach_test_something_else(void) {
  return 1;
}
