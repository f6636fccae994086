int rocprofiler_register_library_api_table(void);
int rocprofiler_register_library_api_table(void) {
  return 0;
}
