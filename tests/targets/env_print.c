// env_print: prints, for each of the named variables (default HSA_TOOLS_LIB),
// NAME=value or "NAME unset". Uses no GPU.
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
  if (argc == 1) print("HSA_TOOLS_LIB");
  for (int i = 1; i < argc; i++) print(argv[i]);
  return 0;
}
