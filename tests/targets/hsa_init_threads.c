// hsa_init_threads: several threads call hsa_init at the same instant, dispatch, and
// shut down. hsa_init_threads [-t THREADS] [-n DISPATCHES] [-r ROUNDS] [-w MSEC]:
// each thread makes DISPATCHES in each round, on a queue of its own; the
// threads wait MSEC before hsa_init
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/targets/hsa_support.h"

struct shared {
  pthread_barrier_t start;
  uint64_t dispatches;
  uint64_t rounds;
  uint64_t wait_msec;
};

static void* run(void* argument) {
  struct shared* shared = argument;
  pause_msec(shared->wait_msec);
  pthread_barrier_wait(&shared->start);
  check(hsa_init(), "hsa_init");
  for (uint64_t i = 0; i < shared->rounds; i++) run_increments(shared->dispatches);
  check(hsa_shut_down(), "hsa_shut_down");
  return NULL;
}

int main(int argc, char** argv) {
  struct shared shared = {.dispatches = 10, .rounds = 1};
  unsigned threads = 8;
  int option;
  while ((option = getopt(argc, argv, "t:n:r:w:")) != -1) {
    if (option == 't') {
      threads = (unsigned)parse_number("-t", optarg);
    } else if (option == 'n') {
      shared.dispatches = parse_number("-n", optarg);
    } else if (option == 'r') {
      shared.rounds = parse_number("-r", optarg);
    } else if (option == 'w') {
      shared.wait_msec = parse_number("-w", optarg);
    } else {
      return 2;
    }
  }
  if (threads == 0 || threads > 1024) die("-t: want 1 to 1024");
  pthread_t* ids = calloc(threads, sizeof(*ids));
  if (ids == NULL) die("out of memory");
  pthread_barrier_init(&shared.start, NULL, threads);
  for (unsigned i = 0; i < threads; i++) {
    if (pthread_create(&ids[i], NULL, run, &shared) != 0) die("pthread_create failed");
  }
  for (unsigned i = 0; i < threads; i++) pthread_join(ids[i], NULL);
  pthread_barrier_destroy(&shared.start);
  free(ids);
  printf("dispatches=%llu copies=0 bytes=0 threads=%u result=ok\n",
         (unsigned long long)(threads * shared.rounds * shared.dispatches), threads);
  return 0;
}
