// env_print: prints, for each of the named variables (default: those by which tools are
// loaded into the runtime), NAME=value or "NAME unset". Uses no GPU.
#include <stdio.h>
#include <stdlib.h>

static void print(const char* name) {
  const char* value = getenv(name);
  if (value != NULL) {
    printf("%s=%s\n", name, value);
  } else {
    printf("%s unset\n", name);
  }
}

int main(int argc, char** argv) {
  static const char* const tools[] = {
      "HSA_TOOLS_LIB", "ROCP_TOOL_LIBRARIES", "ROCPROFILER_REGISTER_LIBRARY",
      "ROCPROFILER_REGISTER_FORCE_LOAD", "HSA_TOOLS_ROCPROFILER_V1_TOOLS"};
  for (unsigned i = 0; argc == 1 && i < sizeof(tools) / sizeof(*tools); i++) {
    print(tools[i]);
  }
  for (int i = 1; i < argc; i++) print(argv[i]);
  return 0;
}
