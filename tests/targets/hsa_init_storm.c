// hsa_init_storm: children that call hsa_init and exit, one after the other.
// Without a GPU hsa_init fails at once: windows open as fast as processes can be made.
// hsa_init_storm [-c CHILDREN]
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/targets/hsa_support.h"

int main(int argc, char** argv) {
  uint64_t children = 1000;
  int option;
  while ((option = getopt(argc, argv, "c:")) != -1) {
    if (option != 'c') return 2;
    children = parse_number("-c", optarg);
  }
  // All on one processor.
  cpu_set_t processors;
  CPU_ZERO(&processors);
  CPU_SET(sched_getcpu(), &processors);
  if (sched_setaffinity(0, sizeof(processors), &processors) != 0) {
    die("sched_setaffinity failed");
  }
  for (uint64_t i = 0; i < children; i++) {
    pid_t child = fork();
    if (child < 0) die("fork failed");
    if (child == 0) {
      (void)hsa_init();
      _exit(0);
    }
    int status;
    if (waitpid(child, &status, 0) < 0) die("waitpid failed");
    if (status != 0) die("child %llu: status %d", (unsigned long long)i, status);
  }
  printf("dispatches=0 copies=0 bytes=0 children=%llu result=ok\n",
         (unsigned long long)children);
  return 0;
}
