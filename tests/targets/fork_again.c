// fork_again: uses the GPU, then forks children that inherit the process's memory with
// the runtime: closed, so that they can start it again, or open.
// fork_again [--open] [-c CHILDREN] [-n DISPATCHES OF EACH PROCESS]
//   [--ready FILE --until FILE]: dispatches until the second file exists, then forks
//   [--child-ready FILE --child-until FILE]: the same in a child, which then makes its
//   -n dispatches; a child that has inherited an open runtime only waits
#define _GNU_SOURCE
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/targets/hsa_support.h"

#define BATCH 10
#define MOST_CHILDREN 64

// Returns the number of dispatches until the file `until` exists.
static uint64_t wait_for(const char* ready, const char* until, bool work) {
  uint64_t count = 0;
  if (until == NULL) return 0;
  if (ready != NULL) create_file(ready);
  for (; access(until, F_OK) != 0; usleep(10000)) {
    if (!work) continue;
    run_increments(BATCH);
    count += BATCH;
  }
  return count;
}

static int run_child(bool open, uint64_t dispatches, const char* ready,
                     const char* until) {
  // An inherited runtime that is open cannot be used, though hsa_init succeeds.
  if (hsa_init() != HSA_STATUS_SUCCESS) return 1;
  wait_for(ready, until, !open);
  if (open) return 0;
  run_increments(dispatches);
  return hsa_shut_down() == HSA_STATUS_SUCCESS ? 0 : 2;
}

int main(int argc, char** argv) {
  const char *ready = NULL, *until = NULL, *child_ready = NULL, *child_until = NULL;
  uint64_t children = 1, dispatches = 100;
  bool open = false;
  static const struct option options[] = {{"open", no_argument, NULL, 'o'},
                                          {"ready", required_argument, NULL, 'r'},
                                          {"until", required_argument, NULL, 'u'},
                                          {"child-ready", required_argument, NULL, 'R'},
                                          {"child-until", required_argument, NULL, 'U'},
                                          {NULL, 0, NULL, 0}};
  int option;
  while ((option = getopt_long(argc, argv, "c:n:", options, NULL)) != -1) {
    if (option == 'c') {
      children = parse_number("-c", optarg);
    } else if (option == 'n') {
      dispatches = parse_number("-n", optarg);
    } else if (option == 'o') {
      open = true;
    } else if (option == 'r') {
      ready = optarg;
    } else if (option == 'u') {
      until = optarg;
    } else if (option == 'R') {
      child_ready = optarg;
    } else if (option == 'U') {
      child_until = optarg;
    } else {
      return 2;
    }
  }
  if (children > MOST_CHILDREN) die("-c is %d at most", MOST_CHILDREN);
  check(hsa_init(), "hsa_init");
  run_increments(dispatches);
  const uint64_t before = wait_for(ready, until, true);
  if (!open) check(hsa_shut_down(), "hsa_shut_down");
  for (uint64_t i = 0; i < children; i++) {
    pid_t child = fork();
    if (child < 0) die("fork failed");
    if (child == 0) _exit(run_child(open, dispatches, child_ready, child_until));
    printf("child=%d\n", (int)child);
    fflush(stdout);
  }
  const bool right = children_succeed(children);
  if (!open) check(hsa_init(), "hsa_init");
  run_increments(dispatches);
  check(hsa_shut_down(), "hsa_shut_down");
  printf("before=%llu dispatches=%llu result=%s\n", (unsigned long long)before,
         (unsigned long long)(2 * dispatches), right ? "ok" : "wrong");
  return right ? 0 : 1;
}
