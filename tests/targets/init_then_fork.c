// init_then_fork: forks after the GPU was used; the child ends in one of several ways
// without using the GPU, and the parent continues as if nothing had happened.
// init_then_fork [-n DISPATCHES, before and after each] [--child exit|_exit|exec|gpu]
//   exec: the child runs true(1); gpu: it runs hsa_exit_early, a GPU program of its own
#define _GNU_SOURCE
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/targets/hsa_support.h"

static void run_child(const char* how) {
  if (strcmp(how, "exit") == 0) exit(0);
  if (strcmp(how, "_exit") == 0) _exit(0);
  if (strcmp(how, "exec") == 0) execlp("true", "true", (char*)NULL);
  if (strcmp(how, "gpu") == 0) {
    char path[PATH_MAX];
    path_beside_program("hsa_exit_early", path, sizeof(path));
    execl(path, path, (char*)NULL);
  }
  _exit(99);
}

int main(int argc, char** argv) {
  uint64_t dispatches = 100;
  const char* how = "exit";
  static const struct option options[] = {{"child", required_argument, NULL, 'c'},
                                          {NULL, 0, NULL, 0}};
  int option;
  while ((option = getopt_long(argc, argv, "n:", options, NULL)) != -1) {
    if (option == 'n') {
      dispatches = parse_number("-n", optarg);
    } else if (option == 'c') {
      how = optarg;
    } else {
      return 2;
    }
  }
  check(hsa_init(), "hsa_init");
  run_increments(dispatches);
  pid_t child = fork();
  if (child < 0) die("fork failed");
  if (child == 0) run_child(how);
  run_increments(dispatches);  // possibly while the child runs
  int status;
  if (waitpid(child, &status, 0) != child) die("waitpid failed");
  bool right = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  run_increments(dispatches);
  check(hsa_shut_down(), "hsa_shut_down");
  printf("dispatches=%llu copies=0 bytes=0 child=%s result=%s\n",
         (unsigned long long)(3 * dispatches), how, right ? "ok" : "wrong");
  return right ? 0 : 1;
}
