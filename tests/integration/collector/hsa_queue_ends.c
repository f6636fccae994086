/* hsa_queue_ends: destroys a queue that still holds work.
 * hsa_queue_ends busy: exits while four threads keep dispatching. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/targets/hsa_support.h"

enum { BEFORE = 10, BEHIND = 5, THREADS = 4 };

struct work {
  struct machine machine;
  struct kernel kernel;
  void* arguments;
};

static void prepare(struct work* work) {
  check(hsa_init(), "hsa_init");
  find_machine(&work->machine);
  hsa_executable_t executable = load_kernels(&work->machine);
  work->kernel = find_kernel(&work->machine, executable, "increment");
  uint64_t* counter = allocate(&work->machine, work->machine.host, sizeof(*counter));
  uint64_t** arguments = allocate(&work->machine, work->machine.kernarg, 256);
  *arguments = counter;
  work->arguments = arguments;
}

/* Submits a barrier-AND packet that waits for `gate`. */
static void wait_behind(hsa_queue_t* queue, hsa_signal_t gate) {
  uint64_t index = hsa_queue_add_write_index_screlease(queue, 1);
  hsa_barrier_and_packet_t* packet =
      (hsa_barrier_and_packet_t*)queue->base_address + index % queue->size;
  memset((char*)packet + sizeof(packet->header), 0,
         sizeof(*packet) - sizeof(packet->header));
  packet->dep_signal[0] = gate;
  uint16_t header = HSA_PACKET_TYPE_BARRIER_AND << HSA_PACKET_HEADER_TYPE |
                    1 << HSA_PACKET_HEADER_BARRIER;
  __atomic_store_n(&packet->header, header, __ATOMIC_RELEASE);
  hsa_signal_store_screlease(queue->doorbell_signal, (hsa_signal_value_t)index);
}

static int destroy_with_work(void) {
  struct work work;
  prepare(&work);
  hsa_queue_t* queue = create_queue(&work.machine, 256, false);
  const hsa_signal_t none = {0};
  hsa_signal_t done = create_signal(1);
  for (int i = 0; i < BEFORE; i++) {
    dispatch(queue, &work.kernel, work.arguments, 256, i + 1 == BEFORE ? done : none);
  }
  wait_for_zero(done);
  wait_behind(queue, create_signal(1));
  for (int i = 0; i < BEHIND; i++) {
    dispatch(queue, &work.kernel, work.arguments, 256, none);
  }
  check(hsa_queue_destroy(queue), "hsa_queue_destroy");
  printf("dispatches=%d unfinished=%d result=ok\n", BEFORE + BEHIND, BEHIND);
  return 0;
}

static void* dispatch_for_ever(void* argument) {
  struct work* work = argument;
  hsa_queue_t* queue = create_queue(&work->machine, 256, false);
  const hsa_signal_t none = {0};
  for (;;) dispatch(queue, &work->kernel, work->arguments, 256, none);
  return NULL;
}

/* Registered before the runtime is opened, so it runs after all handlers registered
 * later, and before the runtime's own static objects are destroyed. */
static void end_at_once(void) {
  usleep(20000);
  _exit(0);
}

static int exit_while_busy(void) {
  static struct work work;
  atexit(end_at_once);
  prepare(&work);
  for (int i = 0; i < THREADS; i++) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, dispatch_for_ever, &work) != 0) {
      die("pthread_create");
    }
  }
  usleep(100000); /* the time to become busy */
  return 0;
}

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "busy") == 0) return exit_while_busy();
  return destroy_with_work();
}
