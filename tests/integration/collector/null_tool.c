/* A user's HSA tool that prints that it was loaded, and does nothing else. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

__attribute__((visibility("default"))) bool OnLoad(void* table, uint64_t version,
                                                   uint64_t failed_count,
                                                   const char* const* failed) {
  (void)table;
  (void)version;
  (void)failed_count;
  (void)failed;
  fputs("null tool loaded\n", stderr);
  return true;
}
