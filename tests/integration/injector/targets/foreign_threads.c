/* A program with a thread that the C library did not make. Usage: foreign_threads MODE
 *
 * Prints "ready window=ADDRESS flag=ADDRESS tid=TID", does what the MODE says until the
 * window's flag is set, prints "intact" if all threads have ended as they should, and
 * exits with 7. Unless stated otherwise the first thread only looks at the flag.
 *   futex, read    a thread with storage of its own is blocked in that call
 *   borrowed       a thread that uses the first thread's storage is blocked in a futex
 *   beside         like futex, and a thread of the C library is blocked in read
 *   under          the first thread is blocked in read, and another one uses its storage
 *   window         a thread with storage of its own is in the window (TID)
 *   window-borrowed  the same with the first thread's storage
 *   futex-registered, under-registered, window-registered  the same, and the thread has
 *                  registered a list of robust mutexes: one in a copy of the first
 *                  thread's control block, or, in mode under, the first thread's own
 *   window-moved   the first thread is in the window, with another fs base
 *   dispatch       the first thread is in the window, and its system calls are sent to
 *                  it as signals, for which it has no handler
 *   dispatch-off   the same, but at that time its selector lets them through
 *   dispatch-read  the first thread is blocked in read with such a dispatch */
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "say.h"

#define EXIT_INTACT 7
#define STACK_BYTES (256 << 10)
#define STORAGE_WORDS 512
#define STRUCT_BYTES 2048 /* the beginning of glibc's struct pthread */

static uint64_t storage[STORAGE_WORDS]; /* the foreign thread's fs points to it */
static atomic_int word = 1;
static atomic_int ended;
static int ends[2]; /* of a pipe */
static atomic_int kept_fs = 1;
static struct robust_list_head* list; /* registered by the foreign thread */
static volatile char selector;        /* 0 lets system calls through, 1 does not */

/* Makes a system call without touching errno, as the foreign thread must. */
static long call(long number, long a, long b, long c, long d) {
  long result = number;
  register long r10 __asm__("r10") = d;
  __asm__ volatile("syscall"
                   : "+a"(result)
                   : "D"(a), "S"(b), "d"(c), "r"(r10)
                   : "rcx", "r11", "memory");
  return result;
}

static void enter_window(void) {
  ((void (*)(void))window_address())();
}

static int is(const char* name, const char* wanted) {
  return strcmp(name, wanted) == 0;
}

static int foreign(void* argument) {
  const char* name = argument;
  char byte;
  uint64_t fs_before = 0, fs_after = 0;
  call(SYS_arch_prctl, ARCH_GET_FS, (long)&fs_before, 0, 0);
  if (list != NULL) call(SYS_set_robust_list, (long)list, sizeof(*list), 0, 0);
  if (strncmp(name, "window", 6) == 0) {
    enter_window();
  } else if (is(name, "read")) {
    call(SYS_read, ends[0], (long)&byte, 1, 0);
  } else if (is(name, "under")) {
    volatile int* flag = window_flag_address();
    while (*flag == 0) call(SYS_sched_yield, 0, 0, 0, 0);
    call(SYS_write, ends[1], (long)"x", 1, 0);
  } else {
    while (atomic_load(&word) == 1) call(SYS_futex, (long)&word, FUTEX_WAIT, 1, 0);
  }
  call(SYS_arch_prctl, ARCH_GET_FS, (long)&fs_after, 0, 0);
  atomic_store(&kept_fs, fs_before == fs_after);
  atomic_fetch_add(&ended, 1);
  call(SYS_exit, 0, 0, 0, 0);
  return 0;
}

/* Chooses the list as a runtime that starts its threads from a template would. */
static void choose_list(int own_storage) {
  uint64_t fs = 0;
  size_t bytes = 0;
  call(SYS_arch_prctl, ARCH_GET_FS, (long)&fs, 0, 0);
  syscall(SYS_get_robust_list, 0, &list, &bytes);
  if (!own_storage || fs == 0) return;
  memcpy(storage, (void*)fs, STRUCT_BYTES);
  storage[2] = (uintptr_t)storage;
  list = (struct robust_list_head*)((char*)storage + ((uintptr_t)list - fs));
  list->list.next = &list->list;
}

static pid_t start_foreign(const char* name, int own_storage) {
  char* stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  int flags =
      CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
  if (own_storage) flags |= CLONE_SETTLS;
  storage[0] = (uintptr_t)storage; /* as the ABI requires */
  return clone(foreign, stack + STACK_BYTES, flags, (void*)name, NULL, storage, NULL);
}

static void* read_one(void* argument) {
  char byte;
  if (read(ends[0], &byte, 1) != 1) _exit(95);
  return argument;
}

static void wait_for_flag(void) {
  volatile int* flag = window_flag_address();
  while (*flag == 0) sched_yield();
}

static void release(void) {
  atomic_store(&word, 0);
  call(SYS_futex, (long)&word, FUTEX_WAKE, 1, 0);
  if (write(ends[1], "x", 1) != 1) _exit(95);
}

static int finish(int intact) {
  if (intact) say("intact\n");
  return intact ? EXIT_INTACT : 1;
}

static void dispatch(int on) {
#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#endif
  if (prctl(PR_SET_SYSCALL_USER_DISPATCH, on, 0, 0, on ? &selector : NULL) != 0) {
    say("no dispatch\n");
    _exit(1);
  }
}

static atomic_int unblocker_runs;

static void* unblock(void* argument) {
  atomic_store(&unblocker_runs, 1);
  wait_for_flag();
  selector = 0;
  release();
  return argument;
}

static int run_dispatch(const char* name) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, unblock, NULL) != 0) return 97;
  /* Until it has told the kernel of its list, it is not known as the C library's. */
  while (atomic_load(&unblocker_runs) == 0) sched_yield();
  dispatch(1);
  say_ready((pid_t)syscall(SYS_gettid));
  if (is(name, "dispatch-read")) {
    read_one(NULL);
  } else {
    selector = is(name, "dispatch") ? 1 : 0;
    enter_window();
    selector = 0;
  }
  dispatch(0);
  pthread_join(thread, NULL);
  return finish(1);
}

static int run_moved(void) {
  /* Uses a copy of the storage: the program must find its stack canary there. */
  uint64_t fs = 0;
  call(SYS_arch_prctl, ARCH_GET_FS, (long)&fs, 0, 0);
  if (fs == 0) return 1;
  say_ready((pid_t)syscall(SYS_gettid));
  memcpy(storage, (void*)fs, 704);
  storage[0] = storage[2] = (uintptr_t)storage;
  call(SYS_arch_prctl, ARCH_SET_FS, (long)storage, 0, 0);
  enter_window();
  uint64_t after = 0;
  call(SYS_arch_prctl, ARCH_GET_FS, (long)&after, 0, 0);
  call(SYS_arch_prctl, ARCH_SET_FS, (long)fs, 0, 0);
  return finish(after == (uintptr_t)storage);
}

int main(int argc, char** argv) {
  char* name = argc > 1 ? argv[1] : "futex";
  char* registered = strstr(name, "-registered");
  if (registered != NULL) *registered = 0;
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
  if (pipe(ends) != 0) return 96;
  pid_t tid = (pid_t)syscall(SYS_gettid);
  if (strncmp(name, "dispatch", 8) == 0) return run_dispatch(name);
  if (is(name, "window-moved")) return run_moved();
  pthread_t thread = 0;
  if (is(name, "beside") && pthread_create(&thread, NULL, read_one, NULL) != 0)
    return 97;
  const int borrowed =
      is(name, "borrowed") || is(name, "under") || is(name, "window-borrowed");
  if (registered != NULL) choose_list(!borrowed);
  const pid_t other = start_foreign(name, !borrowed);
  if (other < 0) return 94;
  say_ready(strncmp(name, "window", 6) == 0 ? other : tid);
  if (is(name, "under")) {
    read_one(NULL);
  } else {
    wait_for_flag();
    release();
  }
  while (atomic_load(&ended) == 0) sched_yield();
  if (is(name, "beside")) pthread_join(thread, NULL);
  return finish(atomic_load(&kept_fs));
}
