// fork_later: dispatches until it is told, then forks a child that starts the runtime
// it has inherited once more, and goes on dispatching.
// fork_later --ready FILE --until FILE [-n DISPATCHES, before and after the child]
#define _GNU_SOURCE
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/targets/hsa_support.h"

#define BATCH 10

static void create(const char* path) {
  FILE* file = fopen(path, "we");
  if (file == NULL) die("cannot create %s", path);
  fclose(file);
}

int main(int argc, char** argv) {
  const char *ready = NULL, *until = NULL;
  uint64_t dispatches = 100, before = 0;
  static const struct option options[] = {{"ready", required_argument, NULL, 'r'},
                                          {"until", required_argument, NULL, 'u'},
                                          {NULL, 0, NULL, 0}};
  int option;
  while ((option = getopt_long(argc, argv, "n:", options, NULL)) != -1) {
    if (option == 'n') {
      dispatches = parse_number("-n", optarg);
    } else if (option == 'r') {
      ready = optarg;
    } else if (option == 'u') {
      until = optarg;
    } else {
      return 2;
    }
  }
  if (ready == NULL || until == NULL) die("--ready and --until are needed");
  check(hsa_init(), "hsa_init");
  run_increments(dispatches);
  create(ready);
  for (; access(until, F_OK) != 0; before += BATCH) {
    run_increments(BATCH);
    usleep(10000);
  }
  pid_t child = fork();
  if (child < 0) die("fork failed");
  // What it has inherited cannot be used, but it is open.
  if (child == 0) _exit(hsa_init() == HSA_STATUS_SUCCESS ? 0 : 1);
  int status;
  if (waitpid(child, &status, 0) != child) die("waitpid failed");
  bool right = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  run_increments(dispatches);
  check(hsa_shut_down(), "hsa_shut_down");
  printf("before=%llu after=%llu child=%d result=%s\n", (unsigned long long)before,
         (unsigned long long)dispatches, (int)child, right ? "ok" : "wrong");
  return right ? 0 : 1;
}
