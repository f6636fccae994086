/* A program that calls hsa_init where a library must not be loaded, or where there is
 * hardly any stack. Usage: contexts MODE
 *
 * Prints "ready window=ADDRESS flag=ADDRESS tid=TID", calls hsa_init of the test
 * library, prints "intact" and exits with 7, or says what changed and exits with 1.
 *
 * Modes: constructor (of a library; starts a thread that makes the call, and joins it);
 * own-constructor (makes the call itself); holder (another thread keeps the loader's
 * lock until this one is traced, and a little longer); iterate (a callback of
 * dl_iterate_phdr starts such a thread); malloc-signal (a handler that has interrupted
 * malloc); altstack (a handler on a signal stack of 8 KiB); coroutine (8 KiB inside a
 * larger mapping); edge=BYTES (that much stack is left in the mapping); own-malloc
 * (inside malloc; needs own_malloc.c); own-malloc-signal (a handler that interrupted
 * such a malloc); own-malloc-idle (after such calls). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "say.h"

#define EXIT_INTACT 7
#define PATTERN 0xa5
#define SMALL_STACK 8192
/* Bytes of a stack that the stub may use: see injector/stub/stub_frame.h. */
#define STUB_FRAME 320

static int failures;
static atomic_int in_hook;
static pid_t window_tid;

static void expect(int condition, const char* what) {
  if (condition) return;
  ++failures;
  say("changed: %s\n", what);
}

static void this_thread_is_ready(void) {
  window_tid = (pid_t)syscall(SYS_gettid);
  say_ready(window_tid);
}

static void pass_window(void) {
  this_thread_is_ready();
  ((void (*)(void))window_address())();
}

static void* pass_window_thread(void* unused) {
  pass_window();
  return unused;
}

static void start_and_join(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, pass_window_thread, NULL) != 0) _exit(97);
  pthread_join(thread, NULL);
}

/* --- The loader --- */

static void (*hook)(void);

void constructor_hook(void) {
  if (hook != NULL) hook();
}

static void load_with_hook(void (*function)(void)) {
  hook = function;
  expect(dlopen(CONSTRUCTOR_LIBRARY, RTLD_NOW) != NULL, "dlopen");
}

static int is_traced(pid_t tid) {
  char name[64], text[1024];
  snprintf(name, sizeof(name), "/proc/self/task/%d/status", (int)tid);
  int fd = open(name, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  ssize_t bytes = read(fd, text, sizeof(text) - 1);
  close(fd);
  if (bytes <= 0) return 0;
  text[bytes] = '\0';
  const char* line = strstr(text, "TracerPid:\t");
  return line != NULL && line[strlen("TracerPid:\t")] != '0';
}

static void hold_until_traced(void) {
  const struct timespec moment = {0, 100000}, longer = {0, 30000000};
  atomic_store(&in_hook, 1);
  for (int i = 0; i < 10000 && (window_tid == 0 || !is_traced(window_tid)); ++i) {
    nanosleep(&moment, NULL);
  }
  nanosleep(&longer, NULL);
}

static void* hold_thread(void* unused) {
  load_with_hook(hold_until_traced);
  return unused;
}

static void beside_holder(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, hold_thread, NULL) != 0) _exit(97);
  while (!atomic_load(&in_hook)) usleep(100);
  pass_window();
  pthread_join(thread, NULL);
}

static int join_in_callback(struct dl_phdr_info* info, size_t size, void* data) {
  (void)info;
  (void)size;
  (void)data;
  start_and_join();
  return 1;
}

/* --- Signals --- */

static void raise_with(void (*handler)(int, siginfo_t*, void*), int flags) {
  struct sigaction action = {0};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | flags;
  sigaction(SIGALRM, &action, NULL);
}

static void start_timer(long usec) {
  struct itimerval timer = {{0, usec}, {0, usec}};
  setitimer(ITIMER_REAL, &timer, NULL);
}

static atomic_int handled;
static uint64_t malloc_begin, malloc_end;

static void on_alarm(int number, siginfo_t* info, void* context) {
  (void)number;
  (void)info;
  const uint64_t ip = (uint64_t)((ucontext_t*)context)->uc_mcontext.gregs[REG_RIP];
  if (atomic_load(&handled) || ip - malloc_begin > malloc_end - malloc_begin) return;
  atomic_store(&handled, 1);
  start_timer(0);
  pass_window();
}

/* Allocates until a signal interrupts code between malloc_begin and malloc_end. */
static void allocate_until_interrupted(void) {
  raise_with(on_alarm, 0);
  start_timer(100);
  while (!atomic_load(&handled)) {
    void* blocks[64];
    for (size_t i = 0; i < 64; ++i) {
      blocks[i] = malloc(2000 + i * 700);
      if (blocks[i] != NULL) ((volatile char*)blocks[i])[0] = 1;
    }
    for (size_t i = 0; i < 64; ++i) free(blocks[(i * 7) % 64]);
  }
}

static void on_own_stack(int number, siginfo_t* info, void* context) {
  (void)number;
  (void)info;
  (void)context;
  pass_window();
  atomic_store(&handled, 1);
}

/* --- Stacks --- */

static int all_pattern(const unsigned char* begin, const unsigned char* end) {
  for (; begin < end; ++begin) {
    if (*begin != PATTERN) return 0;
  }
  return 1;
}

static unsigned char* pattern_mapping(size_t bytes) {
  unsigned char* mapping =
      mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) _exit(96);
  memset(mapping, PATTERN, bytes);
  return mapping;
}

/* The stack is in the middle of a mapping, the rest of which must not change. */
static void pass_window_on_altstack(void) {
  const size_t around = 64 * 1024;
  size_t bytes = SMALL_STACK, least = getauxval(AT_MINSIGSTKSZ) + 4096;
  if (bytes < least) bytes = least;
  unsigned char* mapping = pattern_mapping(2 * around + bytes);
  stack_t stack = {.ss_sp = mapping + around, .ss_size = bytes};
  expect(sigaltstack(&stack, NULL) == 0, "sigaltstack");
  raise_with(on_own_stack, SA_ONSTACK);
  raise(SIGALRM);
  expect(atomic_load(&handled), "the handler");
  expect(all_pattern(mapping, mapping + around), "below the signal stack");
  expect(all_pattern(mapping + around + bytes, mapping + 2 * around + bytes),
         "above the signal stack");
}

/* Calls the window with the stack pointer at `top` (a multiple of 16). */
static void call_window_at(unsigned char* top) {
  void* window = window_address();
  __asm__ volatile(
      "mov %%rsp, %%rbx\n\t"
      "mov %0, %%rsp\n\t"
      "call *%1\n\t"
      "mov %%rbx, %%rsp"
      :
      : "r"(top), "r"(window)
      : "rbx", "memory", "cc");
}

static void pass_window_on_coroutine(void) {
  const size_t below = 64 * 1024;
  unsigned char* mapping = pattern_mapping(below + SMALL_STACK);
  unsigned char* top = mapping + below + SMALL_STACK;
  this_thread_is_ready();
  call_window_at(top);
  /* Only the return address, and the frame of the stub, may have been written. */
  expect(all_pattern(mapping, top - 8 - STUB_FRAME), "the stack below the call");
}

static void pass_window_at_edge(size_t left) {
  const size_t page = 4096;
  unsigned char* mapping = pattern_mapping(3 * page);
  mprotect(mapping, page, PROT_NONE);
  this_thread_is_ready();
  /* The call itself takes eight bytes. */
  call_window_at(mapping + page + ((left + 8) & ~(size_t)15));
}

/* --- The program's own allocator --- */

static void (*volatile* own_hook)(void);

static void find_own_malloc(void) {
  own_hook = dlsym(RTLD_DEFAULT, "own_malloc_hook");
  if (own_hook == NULL) _exit(95);
}

static void* volatile kept;

static __attribute__((noinline)) void leave_addresses_behind(void) {
  char used[4096];
  memset(used, 1, sizeof(used));
  kept = used;
  for (size_t size = 1; size < 300; size += 7) kept = malloc(size);
  kept = realloc((void*)kept, 5000);
}

static __attribute__((noinline)) void pass_window_over_old_frames(void) {
  volatile char unused[3000];
  unused[0] = 1;
  pass_window();
  expect(unused[0] == 1, "a local variable");
}

static void interrupt_own_malloc(void) {
  /* Under the lock: as if a signal had arrived at this moment. */
  raise(SIGALRM);
}

static void pass_window_beside_own_malloc(const char* mode) {
  find_own_malloc();
  if (strcmp(mode, "own-malloc") == 0) {
    *own_hook = pass_window;
    kept = malloc(100);
  } else if (strcmp(mode, "own-malloc-signal") == 0) {
    raise_with(on_own_stack, 0);
    *own_hook = interrupt_own_malloc;
    kept = malloc(100);
  } else {
    leave_addresses_behind();
    pass_window_over_old_frames();
  }
}

int main(int argc, char** argv) {
  const char* mode = argc > 1 ? argv[1] : "";
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
  if (strcmp(mode, "constructor") == 0) {
    load_with_hook(start_and_join);
  } else if (strcmp(mode, "own-constructor") == 0) {
    load_with_hook(pass_window);
  } else if (strcmp(mode, "holder") == 0) {
    beside_holder();
  } else if (strcmp(mode, "iterate") == 0) {
    dl_iterate_phdr(join_in_callback, NULL);
  } else if (strcmp(mode, "malloc-signal") == 0) {
    /* The functions of malloc.c are adjacent. */
    malloc_begin = (uint64_t)dlsym(RTLD_DEFAULT, "malloc") - 0x4000;
    malloc_end = malloc_begin + 0x6000;
    allocate_until_interrupted();
  } else if (strcmp(mode, "altstack") == 0) {
    pass_window_on_altstack();
  } else if (strcmp(mode, "coroutine") == 0) {
    pass_window_on_coroutine();
  } else if (strncmp(mode, "edge=", 5) == 0) {
    pass_window_at_edge(strtoul(mode + 5, NULL, 10));
  } else if (strncmp(mode, "own-malloc", 10) == 0) {
    pass_window_beside_own_malloc(mode);
  } else {
    return 2;
  }
  if (failures != 0) return 1;
  say("intact\n");
  return EXIT_INTACT;
}
