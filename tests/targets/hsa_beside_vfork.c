// hsa_beside_vfork [MSEC]: a thread calls vfork, and its child takes MSEC (default
// 1500) to exit: until then that thread is in a sleep that only a fatal signal ends.
// The main thread uses HSA meanwhile.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/targets/hsa_support.h"

static void* wait_for_child(void* argument) {
  const uint64_t msec = *(const uint64_t*)argument;
  const pid_t child = vfork();
  if (child == 0) {
    pause_msec(msec);
    _exit(0);
  }
  int status = -1;
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
    die("the child of vfork did not exit with 0");
  }
  return NULL;
}

int main(int argc, char** argv) {
  uint64_t msec = argc > 1 ? parse_number("MSEC", argv[1]) : 1500;
  pause_msec(200);  // time for a tracer to seize our threads
  pthread_t thread;
  if (pthread_create(&thread, NULL, wait_for_child, &msec) != 0)
    die("pthread_create failed");
  pause_msec(50);
  check(hsa_init(), "hsa_init");
  run_increments(10);
  pthread_join(thread, NULL);
  check(hsa_shut_down(), "hsa_shut_down");
  printf("dispatches=10 copies=0 bytes=0 result=ok\n");
  return 0;
}
