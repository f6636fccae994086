// hsa_reinit: initialises, dispatches and shuts down, several times in one process.
// hsa_reinit [-r ROUNDS] [-n DISPATCHES PER ROUND] [-w MSEC]: waits MSEC between
// hsa_init and the dispatches of each round
#define _GNU_SOURCE
#include <stdio.h>
#include <unistd.h>

#include "tests/targets/hsa_support.h"

int main(int argc, char** argv) {
  uint64_t rounds = 2, dispatches = 100, wait_msec = 0;
  int option;
  while ((option = getopt(argc, argv, "r:n:w:")) != -1) {
    if (option == 'r') {
      rounds = parse_number("-r", optarg);
    } else if (option == 'n') {
      dispatches = parse_number("-n", optarg);
    } else if (option == 'w') {
      wait_msec = parse_number("-w", optarg);
    } else {
      return 2;
    }
  }
  for (uint64_t round = 0; round < rounds; round++) {
    check(hsa_init(), "hsa_init");
    pause_msec(wait_msec);
    run_increments(dispatches);
    check(hsa_shut_down(), "hsa_shut_down");
  }
  printf("dispatches=%llu copies=0 bytes=0 rounds=%llu result=ok\n",
         (unsigned long long)(rounds * dispatches), (unsigned long long)rounds);
  return 0;
}
