// busy_pool: a program that keeps a GPU busy on one thread and starts workers on another,
// as model servers do: every second worker is forked and continues, the others run a
// program of their own.
// busy_pool --ready FILE --until FILE [-w WORKERS] [-n DISPATCHES OF A SPAWNED WORKER]
//   starts its workers when the file of --until exists
#define _GNU_SOURCE
#include <getopt.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/targets/hsa_support.h"

static atomic_bool over;
static uint64_t made;

static void* work(void* unused) {
  (void)unused;
  while (!atomic_load(&over)) {
    run_increments(10);
    made += 10;
  }
  return NULL;
}

// The runtime that it has inherited is open, and cannot be used.
static int run_forked(void) {
  return hsa_init() == HSA_STATUS_SUCCESS ? 0 : 1;
}

static void run_spawned(const char* path, uint64_t dispatches) {
  char number[24];
  snprintf(number, sizeof(number), "%llu", (unsigned long long)dispatches);
  execl(path, path, "-n", number, (char*)NULL);
  _exit(99);
}

int main(int argc, char** argv) {
  const char *ready = NULL, *until = NULL;
  uint64_t workers = 8, dispatches = 20;
  static const struct option options[] = {{"ready", required_argument, NULL, 'r'},
                                          {"until", required_argument, NULL, 'u'},
                                          {NULL, 0, NULL, 0}};
  int option;
  while ((option = getopt_long(argc, argv, "w:n:", options, NULL)) != -1) {
    if (option == 'w') {
      workers = parse_number("-w", optarg);
    } else if (option == 'n') {
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
  char path[PATH_MAX];
  path_beside_program("hsa_dispatch", path, sizeof(path));
  check(hsa_init(), "hsa_init");
  pthread_t thread;
  if (pthread_create(&thread, NULL, work, NULL) != 0) die("pthread_create failed");
  create_file(ready);
  while (access(until, F_OK) != 0) usleep(10000);
  for (uint64_t i = 0; i < workers; i++) {
    const pid_t child = fork();
    if (child < 0) die("fork failed");
    if (child == 0 && i % 2 == 0) _exit(run_forked());
    if (child == 0) run_spawned(path, dispatches);
    printf("%s=%d\n", i % 2 == 0 ? "forked" : "spawned", (int)child);
    fflush(stdout);
  }
  const bool right = children_succeed(workers);
  atomic_store(&over, true);
  pthread_join(thread, NULL);
  check(hsa_shut_down(), "hsa_shut_down");
  printf("made=%llu result=%s\n", (unsigned long long)made, right ? "ok" : "wrong");
  return right ? 0 : 1;
}
