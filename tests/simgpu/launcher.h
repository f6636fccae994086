// Common code of simgpu-run and simrocm-run, programs that change the environment and
// run a command in it. Include with _GNU_SOURCE.
#ifndef ROCATTACH_TESTS_SIMGPU_LAUNCHER_H_
#define ROCATTACH_TESTS_SIMGPU_LAUNCHER_H_

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdbool.h>
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

// Returns the directory of this program.
static inline void launcher_directory(char directory[PATH_MAX]) {
  ssize_t length = readlink("/proc/self/exe", directory, PATH_MAX - 1);
  if (length < 0) launcher_fail("cannot read", "/proc/self/exe");
  directory[length] = '\0';
  *strrchr(directory, '/') = '\0';
}

// Sets a variable to the one that is not empty, or to both values with ':' between.
static inline void launcher_join(const char* name, const char* first,
                                 const char* second) {
  const bool both =
      first != NULL && *first != '\0' && second != NULL && *second != '\0';
  char* joined = NULL;
  int written = asprintf(&joined, "%s%s%s", first != NULL ? first : "", both ? ":" : "",
                         second != NULL ? second : "");
  if (written < 0) launcher_fail("cannot set", name);
  setenv(name, joined, 1);
  free(joined);
}

// Puts `value` before or after the present value of the variable.
static inline void launcher_prepend(const char* name, const char* value) {
  launcher_join(name, value, getenv(name));
}
static inline void launcher_append(const char* name, const char* value) {
  launcher_join(name, getenv(name), value);
}

// Puts the library of the simulated GPU's driver after the libraries in LD_PRELOAD: a
// sanitizer's library there must be the first.
static inline void launcher_preload_driver(const char* folder) {
  static const char name[] = "libsimgpu.so";
  char* path = NULL;
  if (asprintf(&path, "%s/%s", folder, name) < 0) {
    launcher_fail("cannot set", "LD_PRELOAD");
  }
  if (access(path, R_OK) != 0) launcher_fail("cannot read", path);
  // See below for blanks in paths.
  const bool blanks = strchr(path, ' ') != NULL;
  if (blanks) launcher_prepend("LD_LIBRARY_PATH", folder);
  launcher_append("LD_PRELOAD", blanks ? name : path);
  free(path);
  // A sanitizer in the program itself also wants to be first; this turns that off.
  launcher_append("ASAN_OPTIONS", "verify_asan_link_order=0");
}

// Puts a library before those in LD_PRELOAD. That variable is split at blanks;
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

#define LAUNCHER_MOST_OPTIONS 32

// An option of a launcher. A list of options ends with one that has no name.
struct launcher_option {
  const char* name;  // without dashes
  bool flag;         // it takes no argument
  // The environment variable to set to its argument, or to 1 for a flag; NULL: none.
  const char* variable;
  // The pointer that is set to its argument, or to `flag_value` for a flag; NULL: none.
  const char** value;
  const char* flag_value;
};

// Carries out the options. Returns the index of the command in `argv`. Ends the program
// with status 0 after --help, with 2 for unknown options or without a command.
static inline int launcher_parse(int argc, char** argv,
                                 const struct launcher_option* options,
                                 const char* help) {
  enum { kHelp = 'h', kFirst = 256 };
  struct option known[LAUNCHER_MOST_OPTIONS + 2] = {{"help", no_argument, NULL, kHelp}};
  for (int i = 0; options[i].name != NULL && i < LAUNCHER_MOST_OPTIONS; i++) {
    const int takes = options[i].flag ? no_argument : required_argument;
    known[i + 1] = (struct option){options[i].name, takes, NULL, kFirst + i};
  }
  int number;
  // "+": stop at the command, whose own options are not for the launcher.
  while ((number = getopt_long(argc, argv, "+h", known, NULL)) != -1) {
    if (number == kHelp) {
      fputs(help, stdout);
      exit(0);
    }
    if (number < kFirst) {
      fprintf(stderr, "Try %s --help.\n", program_invocation_short_name);
      exit(2);
    }
    const struct launcher_option* option = &options[number - kFirst];
    if (option->variable != NULL) {
      setenv(option->variable, option->flag ? "1" : optarg, 1);
    }
    if (option->value != NULL) {
      *option->value = option->flag ? option->flag_value : optarg;
    }
  }
  if (optind < argc) return optind;
  fprintf(stderr, "%s: no command\nTry %s --help.\n", program_invocation_short_name,
          program_invocation_short_name);
  exit(2);
}

// Makes SIMGPU_ROOT the root, for a command with other libraries than this machine's.
// Files of the build that the command needs are mounted there, at the same path.
static inline void launcher_enter_root(void) {
  const char* root = getenv("SIMGPU_ROOT");
  if (root == NULL || *root == '\0') return;
  char here[PATH_MAX];
  if (getcwd(here, sizeof(here)) == NULL || chroot(root) != 0) {
    launcher_fail("cannot enter", root);
  }
  if (chdir(here) != 0 && chdir("/") != 0) launcher_fail("cannot enter", here);
  unsetenv("SIMGPU_ROOT");
}

// Executes the command in place of this program.
static inline _Noreturn void launcher_run(char** command) {
  launcher_enter_root();
  execvp(command[0], command);
  launcher_fail("cannot run", command[0]);
}

#endif  // ROCATTACH_TESTS_SIMGPU_LAUNCHER_H_
