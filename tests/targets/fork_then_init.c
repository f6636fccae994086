// fork_then_init: the parent never touches the GPU; its children do.
// fork_then_init [-c CHILDREN] [-n DISPATCHES PER CHILD]
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/targets/hsa_support.h"

int main(int argc, char** argv) {
  uint64_t children = 4, dispatches = 100;
  int option;
  while ((option = getopt(argc, argv, "c:n:")) != -1) {
    if (option == 'c') {
      children = parse_number("-c", optarg);
    } else if (option == 'n') {
      dispatches = parse_number("-n", optarg);
    } else {
      return 2;
    }
  }
  for (uint64_t i = 0; i < children; i++) {
    pid_t child = fork();
    if (child < 0) die("fork failed");
    if (child == 0) {
      check(hsa_init(), "hsa_init");
      run_increments(dispatches);
      check(hsa_shut_down(), "hsa_shut_down");
      exit(0);
    }
  }
  const bool right = children_succeed(children);
  printf("dispatches=%llu copies=0 bytes=0 children=%llu result=%s\n",
         (unsigned long long)(children * dispatches), (unsigned long long)children,
         right ? "ok" : "wrong");
  return right ? 0 : 1;
}
