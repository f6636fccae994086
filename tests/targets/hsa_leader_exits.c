// hsa_leader_exits: the first thread exits, and another one uses HSA.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/targets/hsa_support.h"

static char first_thread_state(void) {
  char path[64], state = '?';
  snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", getpid(), getpid());
  FILE* file = fopen(path, "r");
  if (file == NULL) return '?';
  if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1) state = '?';
  fclose(file);
  return state;
}

static void* run(void* unused) {
  (void)unused;
  while (first_thread_state() != 'Z') pause_msec(1);
  check(hsa_init(), "hsa_init");
  run_increments(10);
  check(hsa_shut_down(), "hsa_shut_down");
  printf("dispatches=10 copies=0 bytes=0 result=ok\n");
  exit(0);
}

int main(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, run, NULL) != 0) die("pthread_create failed");
  pthread_exit(NULL);
}
