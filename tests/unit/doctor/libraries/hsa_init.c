/* Stands in for an HSA runtime that registers its tables, as that of ROCm 6.2. */
int rocprofiler_register_library_api_table(void);
int hsa_init(void);
int hsa_init(void) {
  return rocprofiler_register_library_api_table();
}
