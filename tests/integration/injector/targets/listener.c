/* A program with a thread that waits for attachers, like one that was started with
 * ROCP_TOOL_ATTACH=1. Usage: listener MODE
 *
 * Prints "ready window=ADDRESS flag=ADDRESS tid=TID" of that thread, whose machine
 * state is known, waits until the flag is set, and checks the state: prints "intact"
 * and exits with 7, or says what changed and exits with 1.
 *
 * Modes: plain; busy (two more threads allocate and open libraries); small-stack (the
 * thread has 64 KiB); timed (the wait has a time limit that is far away); exit (the
 * process ends 20 ms after it is ready). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "known_state.h"

#define EXIT_INTACT 7

void listener_wait(void);
extern volatile int listener_flag, listener_wakes;
extern const struct timespec* listener_timeout;
int rocprofiler_register_detach(void);

static atomic_int stop_workers;
static atomic_int ready;

static void* listen(void* unused) {
  const int kind = vector_kind();
  sigset_t all, after;
  pthread_setname_np(pthread_self(), "rocp-bg-attach");
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, NULL);
  pthread_sigmask(SIG_SETMASK, NULL, &all);
  window_function = listener_wait;
  prepare_state();
  say("ready window=%lx flag=%lx tid=%d\n", (unsigned long)listener_wait,
      (unsigned long)&listener_flag, (int)syscall(SYS_gettid));
  atomic_store(&ready, 1);
  errno = EXDEV;
  enter_window(kind);
  expect(errno == EXDEV, "errno");
  pthread_sigmask(SIG_SETMASK, NULL, &after);
  expect(memcmp(&all, &after, sizeof(uint64_t)) == 0, "signal mask");
  check_state(kind);
  expect(listener_wakes == 1, "how often the wait ended");
  return unused;
}

static void* work(void* unused) {
  while (!atomic_load(&stop_workers)) {
    void* library = dlopen("libm.so.6", RTLD_NOW);
    if (library != NULL) dlclose(library);
    free(malloc(100000));
  }
  return unused;
}

int main(int argc, char** argv) {
  const char* mode = argc > 1 ? argv[1] : "plain";
  pthread_attr_t attributes;
  pthread_t listener, workers[2];
  /* Makes the linker keep the library as a dependency. */
  if (getenv("NEVER") != NULL) rocprofiler_register_detach();
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
  pthread_attr_init(&attributes);
  if (strcmp(mode, "small-stack") == 0) {
    pthread_attr_setstacksize(&attributes, 64 * 1024);
  }
  static struct timespec far_away;
  clock_gettime(CLOCK_MONOTONIC, &far_away);
  far_away.tv_sec += 1000;
  if (strcmp(mode, "timed") == 0) listener_timeout = &far_away;
  if (pthread_create(&listener, &attributes, listen, NULL) != 0) return 97;
  if (strcmp(mode, "exit") == 0) {
    while (atomic_load(&ready) == 0) usleep(100);
    usleep(20000);
    _exit(EXIT_INTACT);
  }
  const int busy = strcmp(mode, "busy") == 0;
  for (int i = 0; busy && i < 2; ++i) pthread_create(&workers[i], NULL, work, NULL);
  while (listener_flag == 0) usleep(1000);
  syscall(SYS_futex, &listener_flag, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
  pthread_join(listener, NULL);
  atomic_store(&stop_workers, 1);
  for (int i = 0; busy && i < 2; ++i) pthread_join(workers[i], NULL);
  if (atomic_load(&failures) != 0) return 1;
  say("intact\n");
  return EXIT_INTACT;
}
