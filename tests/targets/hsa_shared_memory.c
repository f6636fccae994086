// hsa_shared_memory [-p PROCESSES] [-s MSEC]: processes that share their memory
// (CLONE_VM without CLONE_THREAD), each of which calls hsa_init, dispatches and shuts
// down. They start MSEC after each other; 0, the default: at the same instant. One of
// them is the program's own process.
//
// The C library regards a process that shares its memory as one of its threads. So each
// child runs on behalf of a thread that does nothing but wait for it, with that
// thread's storage, on a stack of its own.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/targets/hsa_support.h"

#define STACK_BYTES (1u << 20)
#define DISPATCHES 10

static struct {
  unsigned processes;
  uint64_t step_msec;
  atomic_uint arrived, done;
} shared;

// Not a barrier of the C library: that works within one process only.
static void wait_for_all(atomic_uint* count) {
  atomic_fetch_add(count, 1);
  while (atomic_load(count) < shared.processes) pause_msec(1);
}

static void use_hsa(unsigned number) {
  wait_for_all(&shared.arrived);
  pause_msec(number * shared.step_msec);
  check(hsa_init(), "hsa_init");
  run_increments(DISPATCHES);
  // The runtime's threads belong to the process that has started them.
  wait_for_all(&shared.done);
}

static int child(void* number) {
  use_hsa((unsigned)(uintptr_t)number);
  _exit(0);
}

static void* run_child(void* number) {
  char* stack = aligned_alloc(64, STACK_BYTES);
  if (stack == NULL) die("out of memory");
  const pid_t pid = clone(child, stack + STACK_BYTES,
                          CLONE_VM | CLONE_FS | CLONE_FILES | SIGCHLD, number);
  if (pid < 0) die("clone failed");
  int status = -1;
  while (syscall(SYS_wait4, pid, &status, 0, NULL) != pid) {
  }
  if (status != 0) die("a process that shares our memory ended with %d", status);
  return NULL;
}

int main(int argc, char** argv) {
  shared.processes = 3;
  int option;
  while ((option = getopt(argc, argv, "p:s:")) != -1) {
    if (option == 'p') {
      shared.processes = (unsigned)parse_number("-p", optarg);
    } else if (option == 's') {
      shared.step_msec = parse_number("-s", optarg);
    } else {
      return 2;
    }
  }
  if (shared.processes == 0 || shared.processes > 64) die("-p: want 1 to 64");
  pthread_t threads[64] = {0};
  for (uintptr_t i = 1; i < shared.processes; i++) {
    if (pthread_create(&threads[i], NULL, run_child, (void*)i) != 0)
      die("pthread_create failed");
  }
  use_hsa(0);
  for (unsigned i = 1; i < shared.processes; i++) pthread_join(threads[i], NULL);
  printf("dispatches=%u copies=0 bytes=0 result=ok\n", DISPATCHES * shared.processes);
  fflush(stdout);
  _exit(0);
}
