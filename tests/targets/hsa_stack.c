// hsa_stack: measures how much stack calls of the runtime need. Each call is made by a
// signal handler on a signal stack of its own, which is filled with a pattern first.
// hsa_stack [-r ROUNDS] [-b BYTES] [--until FILE] [--ready FILE]
//
// Prints one line for each call, "CALL=BYTES" (the most in any round, from the
// handler's frame on), and a last one with the work of the program.
// -b: the size of the stack for hsa_init, which is between two inaccessible pages,
// instead of the usual size.
// --until: opens the runtime on the ordinary stack, creates the file of --ready, and
// waits for FILE. The first call on a signal stack is then one that loads kernels.
#define _GNU_SOURCE
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/targets/hsa_support.h"

#define STACK_BYTES (256u << 10)
#define PAGE 4096u
#define PAINT 0xa5

static struct machine machine;
static struct kernel increment;
static hsa_executable_t executable;
static hsa_queue_t* queue;
static hsa_signal_t done;
static void* arguments;
static uint64_t* counter;
static uint64_t* other;
static uint64_t dispatches;
static uint64_t copies;

// --- The calls. Preparations and checks are outside, on the ordinary stack. ---

static hsa_status_t status;
static uint64_t next_packet;

static void call_init(void) {
  status = hsa_init();
}
static void call_queue_create(void) {
  status = hsa_queue_create(machine.gpu, 64, HSA_QUEUE_TYPE_MULTI, NULL, NULL,
                            UINT32_MAX, UINT32_MAX, &queue);
}
static void call_load(void) {
  executable = load_kernels(&machine);
}
static void call_executable_destroy(void) {
  status = hsa_executable_destroy(executable);
}
static void call_ring(void) {
  hsa_signal_store_screlease(queue->doorbell_signal, (hsa_signal_value_t)next_packet);
}
static void call_copy(void) {
  status = hsa_amd_memory_async_copy(other, machine.cpu, counter, machine.cpu,
                                     sizeof(*counter), 0, NULL, done);
}
static void call_memory_copy(void) {
  status = hsa_memory_copy(other, counter, sizeof(*counter));
}
static void call_queue_destroy(void) {
  status = hsa_queue_destroy(queue);
}
static void call_shut_down(void) {
  status = hsa_shut_down();
}

enum call {
  INIT,
  LOAD,
  QUEUE_CREATE,
  RING,
  COPY,
  MEMORY_COPY,
  QUEUE_DESTROY,
  EXECUTABLE_DESTROY,
  SHUT_DOWN,
  CALLS
};

static const struct {
  const char* name;
  void (*function)(void);
} calls[CALLS] = {
    [INIT] = {"hsa_init", call_init},
    [LOAD] = {"load_kernels", call_load},
    [QUEUE_CREATE] = {"hsa_queue_create", call_queue_create},
    [RING] = {"hsa_signal_store_screlease", call_ring},
    [COPY] = {"hsa_amd_memory_async_copy", call_copy},
    [MEMORY_COPY] = {"hsa_memory_copy", call_memory_copy},
    [QUEUE_DESTROY] = {"hsa_queue_destroy", call_queue_destroy},
    [EXECUTABLE_DESTROY] = {"hsa_executable_destroy", call_executable_destroy},
    [SHUT_DOWN] = {"hsa_shut_down", call_shut_down},
};
static size_t most[CALLS];

// --- The stack ---

static void (*volatile to_call)(void);
static unsigned char* volatile top;

// The memory above its frame is the kernel's signal frame.
static void handler(int number) {
  (void)number;
  top = __builtin_frame_address(0);
  to_call();
}

static void make_on_stack(enum call call, size_t bytes) {
  const size_t pages = (bytes + PAGE - 1) / PAGE * PAGE;
  unsigned char* mapping =
      mmap(NULL, pages + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED ||
      mprotect(mapping + PAGE, pages, PROT_READ | PROT_WRITE) != 0) {
    die("no memory for a stack");
  }
  // A call that needs more reaches the inaccessible page.
  stack_t stack = {.ss_sp = mapping + PAGE, .ss_size = bytes}, before;
  memset(stack.ss_sp, PAINT, bytes);
  if (sigaltstack(&stack, &before) != 0) die("sigaltstack");
  to_call = calls[call].function;
  status = HSA_STATUS_SUCCESS;
  raise(SIGUSR1);
  check(status, calls[call].name);
  if (sigaltstack(&before, NULL) != 0) die("sigaltstack");
  const unsigned char* touched = stack.ss_sp;
  while (touched < top && *touched == PAINT) ++touched;
  const size_t used = (size_t)(top - touched);
  if (used > most[call]) most[call] = used;
  munmap(mapping, pages + 2 * PAGE);
}

static void make(enum call call) {
  make_on_stack(call, STACK_BYTES);
}

// --- Rounds ---

static void dispatch_once(void) {
  hsa_signal_store_relaxed(done, 1);
  next_packet = hsa_queue_add_write_index_scacq_screl(queue, 1);
  write_dispatch(queue, next_packet, &increment, arguments, 64, done);
  make(RING);
  wait_for_zero(done);
  ++dispatches;
}

static void prepare(void) {
  find_machine(&machine);
  done = create_signal(0);
  arguments = allocate(&machine, machine.kernarg, 256);
  counter = allocate(&machine, machine.host, sizeof(*counter));
  other = allocate(&machine, machine.host, sizeof(*other));
  *counter = 0;
  ((uint64_t**)arguments)[0] = counter;
}

static void use_queue(uint64_t rounds) {
  for (uint64_t round = 0; round < rounds; ++round) {
    make(LOAD);
    increment = find_kernel(&machine, executable, "increment");
    make(QUEUE_CREATE);
    // More than once: a dispatch may find state that an earlier one has left.
    for (int i = 0; i < 100; ++i) dispatch_once();
    hsa_signal_store_relaxed(done, 1);
    make(COPY);
    wait_for_zero(done);
    make(MEMORY_COPY);
    copies += 2;
    make(QUEUE_DESTROY);
    make(EXECUTABLE_DESTROY);
  }
}

int main(int argc, char** argv) {
  static const struct option options[] = {{"until", required_argument, NULL, 'u'},
                                          {"ready", required_argument, NULL, 'R'},
                                          {NULL, 0, NULL, 0}};
  uint64_t rounds = 3, init_bytes = STACK_BYTES;
  const char *until = NULL, *ready = NULL;
  int option;
  while ((option = getopt_long(argc, argv, "r:b:", options, NULL)) != -1) {
    if (option == 'r') {
      rounds = parse_number("-r", optarg);
    } else if (option == 'b') {
      init_bytes = parse_number("-b", optarg);
    } else if (option == 'u') {
      until = optarg;
    } else if (option == 'R') {
      ready = optarg;
    } else {
      return 2;
    }
  }
  struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
  sigaction(SIGUSR1, &action, NULL);
  if (until == NULL) {
    make_on_stack(INIT, init_bytes);
    prepare();
  } else {
    check(hsa_init(), "hsa_init");
    prepare();
    if (ready != NULL) create_file(ready);
    struct stat file;
    while (stat(until, &file) != 0) pause_msec(5);
  }
  use_queue(rounds);
  if (*counter != dispatches) die("a wrong result");
  make(SHUT_DOWN);
  for (int call = 0; call < CALLS; ++call) {
    if (most[call] != 0) printf("%s=%zu\n", calls[call].name, most[call]);
  }
  printf("dispatches=%llu copies=%llu bytes=%llu result=ok\n",
         (unsigned long long)dispatches, (unsigned long long)copies,
         (unsigned long long)(copies * sizeof(*counter)));
  return 0;
}
