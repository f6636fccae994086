// A second library with the name of rocprofiler-register.
__attribute__((visibility("default"))) int rocprofiler_register_attach(
    const char* environment, const char* tool) {
  (void)environment, (void)tool;
  return 9;
}
