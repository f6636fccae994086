/* A program to attach to. Usage: target MODE…
 *
 * Prints "ready window=ADDRESS flag=ADDRESS tid=TID", calls hsa_init of the test
 * library with a known machine state, and checks everything after it: prints "intact"
 * and exits with 7, or says what changed and exits with 1.
 *
 * Modes: plain; thread (a second thread enters); small-stack (its stack has 64 KiB);
 * deep=BYTES (that much of the first thread's stack is used first); busy (six more
 * threads allocate, open libraries and raise signals); timer (SIGALRM every 100 us;
 * adds up the values of SIGRTMIN, and prints "sum=SUM"); strict (seccomp);
 * sleep (waits in nanosleep instead of the window); vfork (waits in vfork). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "known_state.h"

#define EXIT_INTACT 7

static atomic_int stop_workers;
static atomic_ulong alarms;
static atomic_ulong realtime_sum;

/* Passes the window with all the state around it that a thread has. */
static void pass_window(void) {
  const int kind = vector_kind();
  sigset_t before, after;
  sigemptyset(&before);
  sigaddset(&before, SIGUSR2);
  sigaddset(&before, SIGWINCH);
  /* A signal that the stub itself does not block. */
  sigaddset(&before, SIGABRT);
  pthread_sigmask(SIG_BLOCK, &before, NULL);
  pthread_sigmask(SIG_SETMASK, NULL, &before);
  /* Both stay pending throughout. Unblocked, either ends the process. */
  raise(SIGUSR2);
  raise(SIGABRT);
  window_function = (void (*)(void))window_address();
  prepare_state();
  say_ready((pid_t)syscall(SYS_gettid));
  errno = EXDEV;
  enter_window(kind);
  int error = errno;
  const char* text = dlerror();
  sigset_t pending;
  sigpending(&pending);
  pthread_sigmask(SIG_SETMASK, NULL, &after);
  expect(error == EXDEV, "errno");
  expect(text == NULL, "dlerror");
  /* The kernel knows 64 signals, sigset_t has room for 1024. */
  expect(memcmp(&before, &after, sizeof(uint64_t)) == 0, "signal mask");
  expect(sigismember(&pending, SIGUSR2), "pending signal");
  expect(sigismember(&pending, SIGABRT), "pending SIGABRT");
  check_state(kind);
}

static void* pass_window_thread(void* unused) {
  pass_window();
  return unused;
}

static void pass_window_in_thread(size_t stack_bytes) {
  pthread_attr_t attributes;
  pthread_t thread;
  pthread_attr_init(&attributes);
  if (stack_bytes != 0) pthread_attr_setstacksize(&attributes, stack_bytes);
  if (pthread_create(&thread, &attributes, pass_window_thread, NULL) != 0) _exit(97);
  pthread_join(thread, NULL);
}

static void pass_window_deep(size_t bytes) {
  volatile char* used = __builtin_alloca(bytes);
  for (size_t i = 0; i < bytes; i += 1024) used[i] = 1;
  used[0] = 1;
  pass_window();
  expect(used[0] == 1, "stack above");
}

static void* work(void* unused) {
  while (!atomic_load(&stop_workers)) {
    for (size_t size = 16; size < 300000; size *= 3) {
      char* block = malloc(size);
      memset(block, 5, size);
      free(block);
    }
    void* library = dlopen("libm.so.6", RTLD_NOW);
    if (library != NULL) dlclose(library);
    pthread_kill(pthread_self(), SIGALRM);
  }
  return unused;
}

static void on_alarm(int signal_number) {
  (void)signal_number;
  atomic_fetch_add(&alarms, 1);
}

static void on_realtime(int signal_number, siginfo_t* info, void* context) {
  (void)signal_number;
  (void)context;
  atomic_fetch_add(&realtime_sum, (unsigned long)info->si_value.sival_int);
}

static void set_handlers(void) {
  struct sigaction action = {0};
  action.sa_handler = on_alarm;
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, NULL);
  action.sa_handler = NULL;
  action.sa_sigaction = on_realtime;
  action.sa_flags = SA_RESTART | SA_SIGINFO;
  sigaction(SIGRTMIN, &action, NULL);
}

static void pass_window_busy(void) {
  pthread_t threads[6];
  set_handlers();
  for (int i = 0; i < 6; ++i) pthread_create(&threads[i], NULL, work, NULL);
  pass_window();
  atomic_store(&stop_workers, 1);
  for (int i = 0; i < 6; ++i) pthread_join(threads[i], NULL);
}

static void pass_window_timer(void) {
  set_handlers();
  struct itimerval timer = {{0, 100}, {0, 100}};
  setitimer(ITIMER_REAL, &timer, NULL);
  pass_window();
  memset(&timer, 0, sizeof(timer));
  setitimer(ITIMER_REAL, &timer, NULL);
  expect(atomic_load(&alarms) > 0, "timer signals");
  say("sum=%lu\n", atomic_load(&realtime_sum));
}

static void pass_window_strict(void) {
  window_function = (void (*)(void))window_address();
  prepare_state();
  say_ready((pid_t)syscall(SYS_gettid));
  prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
  enter_window(vector_kind());
  check_state(vector_kind());
  if (atomic_load(&failures) == 0) say("intact\n");
  syscall(SYS_exit, EXIT_INTACT); /* exit_group is not allowed any more */
}

static void sleep_instead(void) {
  struct timespec begin, end, nap = {0, 300000000};
  clock_gettime(CLOCK_MONOTONIC, &begin);
  say_ready((pid_t)syscall(SYS_gettid));
  expect(nanosleep(&nap, NULL) == 0, "nanosleep");
  clock_gettime(CLOCK_MONOTONIC, &end);
  int64_t slept =
      (end.tv_sec - begin.tv_sec) * 1000000000LL + end.tv_nsec - begin.tv_nsec;
  expect(slept >= 300000000, "time slept");
}

static void vfork_instead(void) {
  say_ready((pid_t)syscall(SYS_gettid));
  pid_t child = vfork();
  if (child == 0) {
    struct timespec nap = {0, 600000000};
    syscall(SYS_nanosleep, &nap, NULL);
    _exit(0);
  }
  expect(child > 0, "vfork");
}

int main(int argc, char** argv) {
  const char* mode = argc > 1 ? argv[1] : "plain";
  /* With Yama only ancestors may trace; the tests also trace from other processes. */
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
  if (strcmp(mode, "plain") == 0) {
    use_alignment_check = 1;
    pass_window();
  } else if (strcmp(mode, "thread") == 0) {
    pass_window_in_thread(0);
  } else if (strcmp(mode, "small-stack") == 0) {
    pass_window_in_thread(64 * 1024);
  } else if (strncmp(mode, "deep=", 5) == 0) {
    pass_window_deep(strtoul(mode + 5, NULL, 10));
  } else if (strcmp(mode, "busy") == 0) {
    pass_window_busy();
  } else if (strcmp(mode, "timer") == 0) {
    pass_window_timer();
  } else if (strcmp(mode, "strict") == 0) {
    pass_window_strict();
  } else if (strcmp(mode, "sleep") == 0) {
    sleep_instead();
  } else if (strcmp(mode, "vfork") == 0) {
    vfork_instead();
  } else {
    return 2;
  }
  if (atomic_load(&failures) != 0) return 1;
  say("intact\n");
  return EXIT_INTACT;
}
