/* A program with a thread in the C library's read(), which may be cancelled there.
 *
 * Prints "ready window=ADDRESS flag=ADDRESS tid=TID" of that thread. Once the window's
 * flag is set, the first thread, which never blocks before, cancels that thread, joins
 * it and opens a library. Prints "intact" if all of that worked; exits with 7. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "say.h"

#define EXIT_INTACT 7

static int ends[2]; /* of a pipe */

static void* wait_in_read(void* is_ready) {
  char byte;
  if (is_ready != NULL) say_ready((pid_t)syscall(SYS_gettid));
  (void)!read(ends[0], &byte, 1);
  return NULL;
}

static int cancel(pthread_t thread) {
  void* result = NULL;
  return pthread_cancel(thread) == 0 && pthread_join(thread, &result) == 0 &&
         result == PTHREAD_CANCELED;
}

int main(void) {
  pthread_t first, thread;
  volatile int* flag = window_flag_address();
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
  if (pipe(ends) != 0) return 96;
  /* The first cancellation of a process loads a library, which takes the loader's
   * lock. */
  if (pthread_create(&first, NULL, wait_in_read, NULL) != 0 || !cancel(first))
    return 95;
  if (pthread_create(&thread, NULL, wait_in_read, ends) != 0) return 97;
  while (*flag == 0) sched_yield();
  if (!cancel(thread)) return 94;
  void* library = dlopen("libm.so.6", RTLD_NOW);
  if (library == NULL || dlclose(library) != 0) return 93;
  say("intact\n");
  return EXIT_INTACT;
}
