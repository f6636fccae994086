// What simgpu-run and simrocm-run share: programs that change the environment and run a
// command in it. Include with _GNU_SOURCE.
#ifndef ROCATTACH_TESTS_SIMGPU_LAUNCHER_H_
#define ROCATTACH_TESTS_SIMGPU_LAUNCHER_H_

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Ends the program as a shell does for a command that cannot be run.
static inline _Noreturn void launcher_fail(const char* what, const char* name) {
  fprintf(stderr, "%s: %s %s: %s\n", program_invocation_short_name, what, name,
          strerror(errno));
  exit(127);
}

// The directory that this program lies in.
static inline void launcher_directory(char directory[PATH_MAX]) {
  ssize_t length = readlink("/proc/self/exe", directory, PATH_MAX - 1);
  if (length < 0) launcher_fail("cannot read", "/proc/self/exe");
  directory[length] = '\0';
  *strrchr(directory, '/') = '\0';
}

// Puts `value` before what the variable holds, with ':' between.
static inline void launcher_prepend(const char* name, const char* value) {
  const char* before = getenv(name);
  char* joined = NULL;
  int written = before != NULL && *before != '\0'
                    ? asprintf(&joined, "%s:%s", value, before)
                    : asprintf(&joined, "%s", value);
  if (written < 0) launcher_fail("cannot set", name);
  setenv(name, joined, 1);
  free(joined);
}

// Puts a library before those that LD_PRELOAD names. That is cut at blanks, which
// LD_LIBRARY_PATH is not.
static inline void launcher_preload(const char* path) {
  const char* slash = strrchr(path, '/');
  if (slash == NULL || strchr(path, ' ') == NULL) {
    launcher_prepend("LD_PRELOAD", path);
    return;
  }
  char* folder = strndup(path, (size_t)(slash - path));
  if (folder == NULL) launcher_fail("cannot set", "LD_PRELOAD");
  launcher_prepend("LD_LIBRARY_PATH", folder);
  launcher_prepend("LD_PRELOAD", slash + 1);
  free(folder);
}

#endif  // ROCATTACH_TESTS_SIMGPU_LAUNCHER_H_
