// A tool of the HSA runtime (HSA_TOOLS_LIB) that only logs that it was called.
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static void put(const char* line) {
  const char* path = getenv("SIMROCM_TOOL_OUTPUT");
  FILE* file = path != NULL ? fopen(path, "a") : NULL;
  if (file == NULL) return;
  fputs(line, file);
  fclose(file);
}

__attribute__((visibility("default"))) bool OnLoad(void* table, uint64_t version,
                                                   uint64_t failed,
                                                   const char* const* names) {
  (void)names;
  char line[64];
  snprintf(line, sizeof(line), "on_load table=%d version=%lu failed=%lu\n",
           table != NULL, version, failed);
  put(line);
  return true;
}

__attribute__((visibility("default"))) void OnUnload(void) {
  put("on_unload x=1\n");
}
