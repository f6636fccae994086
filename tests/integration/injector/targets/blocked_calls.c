/* A program whose first thread is blocked in a system call. Usage: blocked_calls CALL
 *
 * Prints "ready window=ADDRESS flag=ADDRESS tid=TID" and makes the call with a pattern
 * in the vector registers. A second thread, which itself never blocks, ends the call
 * once the window's flag is set; calls with a timeout may also end by it. The CALL
 * "fork" is the C library's fork(), which waits for malloc's arenas. Prints
 * "CALL result=N early=0|1" (early: before its timeout, and not ended by the second
 * thread), "intact" if the registers were kept, and exits with 7. The handlers
 * of SIGUSR1, with SA_RESTART, and of SIGUSR2, without it, print "handled"; SIGHUP is
 * blocked. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "say.h"

#define EXIT_INTACT 7
#define VECTORS 16
#define TIMEOUT_NSEC 1500000000L

static int ends[2];    /* of a pipe */
static int sockets[2]; /* connected */
static int listener;
static struct sockaddr_un_name {
  sa_family_t family;
  char name[40];
} address = {AF_UNIX, ""};
static atomic_int word = 1;
static pthread_t first_thread;
static pid_t first_tid;
static pid_t child;
static atomic_int released;
static atomic_int waits;  /* true once the second thread waits, signals blocked */
static atomic_int* arena; /* the lock of the second thread's arena, if it holds it */

/* Makes a call with known vector registers; *kept is false if one has changed. */
static long call(long number, long a, long b, long c, long d, long e, long f,
                 int* kept) {
  static uint8_t before[VECTORS][16] __attribute__((aligned(16)));
  static uint8_t after[VECTORS][16] __attribute__((aligned(16)));
  for (int i = 0; i < VECTORS; ++i) memset(before[i], 17 * i + 3, 16);
  long result = number;
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  __asm__ volatile(
      ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
      "movaps 16*\\n(%[before]), %%xmm\\n\n.endr\n"
      "syscall\n"
      ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
      "movaps %%xmm\\n, 16*\\n(%[after])\n.endr\n"
      : "+a"(result)
      : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8),
        "r"(r9), [before] "b"(before), [after] "r"(after)
      : "rcx", "r11", "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6",
        "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
  *kept = memcmp(before, after, sizeof(before)) == 0;
  return result;
}

static void on_signal(int number) {
  (void)number;
  if (write(STDOUT_FILENO, "handled\n", 8) != 8) _exit(92);
}

/* Locks the calling thread's arena as malloc does, with the value for waiters. */
static void lock_arena(void) {
  /* glibc's malloc/arena.c: the arena of any thread but the first is in a heap of 64
   * MiB, aligned to its size, which begins with the arena's address. The lock is the
   * arena's first member. */
  const uintptr_t heap_bytes = 64 << 20;
  void* volatile some = malloc(100);
  arena = *(atomic_int**)((uintptr_t)some & ~(heap_bytes - 1));
  if ((((uintptr_t)arena ^ (uintptr_t)some) & ~(heap_bytes - 1)) != 0) _exit(91);
  atomic_store(arena, 2);
}

/* Ends every wait that the first thread may be in. */
static void release(void) {
  atomic_store(&released, 1);
  atomic_store(&word, 0);
  syscall(SYS_futex, &word, FUTEX_WAKE, 1, NULL, NULL, 0);
  if (write(ends[1], "x", 1) != 1) _exit(95);
  if (send(sockets[1], "x", 1, 0) != 1) _exit(95);
  if (listener >= 0) {
    int client = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connect(client, (void*)&address, sizeof(address)) != 0) _exit(94);
  }
  if (child > 0) kill(child, SIGKILL);
  if (arena != NULL) {
    atomic_store(arena, 0);
    syscall(SYS_futex, arena, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
  }
}

static long fork_and_wait(int* kept) {
  *kept = 1;
  const pid_t forked = fork();
  if (forked == 0) _exit(0);
  return waitpid(forked, NULL, 0) == forked ? 0 : -1;
}

static void* wait_for_flag(void* argument) {
  const char* name = argument;
  volatile int* flag = window_flag_address();
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, NULL);
  if (strcmp(name, "fork") == 0) lock_arena();
  atomic_store(&waits, 1);
  while (*flag == 0) sched_yield();
  release();
  if (strcmp(name, "pause") == 0) pthread_kill(first_thread, SIGUSR1);
  return NULL;
}

static int64_t now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void listen_somewhere(void) {
  /* In the abstract namespace: the first byte of the name is 0. */
  memcpy(address.name + 1, &first_tid, sizeof(first_tid));
  memcpy(address.name + 8, "rocattach-test", 14);
  listener = socket(AF_UNIX, SOCK_STREAM, 0);
  if (bind(listener, (void*)&address, sizeof(address)) != 0) _exit(93);
  if (listen(listener, 1) != 0) _exit(93);
}

static long make_call(const char* name, int* kept) {
  static char buffer[16];
  static struct iovec part = {buffer, 1};
  static struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  static siginfo_t info;
  struct timespec nap = {TIMEOUT_NSEC / 1000000000, TIMEOUT_NSEC % 1000000000};
  struct timespec absolute;
  clock_gettime(CLOCK_MONOTONIC, &absolute);
  absolute.tv_sec += 1;
  struct timeval seconds = {60, 0};
  struct pollfd polled = {ends[0], POLLIN, 0};
  fd_set set;
  FD_ZERO(&set);
  FD_SET(ends[0], &set);
#define IS(text) (strcmp(name, text) == 0)
#define CALL(number, a, b, c, d, e) \
  call(number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), 0, kept)
  if (IS("read")) return CALL(SYS_read, ends[0], buffer, 1, 0, 0);
  if (IS("readv")) return CALL(SYS_readv, ends[0], &part, 1, 0, 0);
  if (IS("poll")) return CALL(SYS_poll, &polled, 1, -1, 0, 0);
  if (IS("poll-timeout")) return CALL(SYS_poll, NULL, 0, TIMEOUT_NSEC / 1000000, 0, 0);
  if (IS("ppoll")) return CALL(SYS_ppoll, &polled, 1, NULL, NULL, 0);
  if (IS("ppoll-timeout")) return CALL(SYS_ppoll, NULL, 0, &nap, NULL, 0);
  if (IS("select")) return CALL(SYS_select, ends[0] + 1, &set, NULL, NULL, &seconds);
  if (IS("pselect")) return CALL(SYS_pselect6, ends[0] + 1, &set, NULL, NULL, NULL);
  if (IS("futex")) return CALL(SYS_futex, &word, FUTEX_WAIT, 1, NULL, NULL);
  if (IS("futex-timeout")) return CALL(SYS_futex, &ends, FUTEX_WAIT, ends[0], &nap, 0);
  if (IS("nanosleep")) return CALL(SYS_nanosleep, &nap, NULL, 0, 0, 0);
  if (IS("clock_nanosleep"))
    return CALL(SYS_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, &absolute, 0, 0);
  if (IS("wait4")) return CALL(SYS_wait4, child, NULL, 0, NULL, 0) == child ? 0 : -1;
  if (IS("waitid")) return CALL(SYS_waitid, P_PID, child, &info, WEXITED, NULL);
  if (IS("pause")) return CALL(SYS_pause, 0, 0, 0, 0, 0);
  if (IS("accept")) return CALL(SYS_accept, listener, NULL, NULL, 0, 0) > 0 ? 0 : -1;
  if (IS("recvfrom")) return CALL(SYS_recvfrom, sockets[0], buffer, 1, 0, 0);
  if (IS("recvmsg")) return CALL(SYS_recvmsg, sockets[0], &message, 0, 0, 0);
  if (IS("fork")) return fork_and_wait(kept);
  if (IS("epoll_wait")) {
    struct epoll_event event = {.events = EPOLLIN};
    int instance = epoll_create1(0);
    epoll_ctl(instance, EPOLL_CTL_ADD, ends[0], &event);
    return CALL(SYS_epoll_wait, instance, &event, 1, -1, 0);
  }
  _exit(2);
}

int main(int argc, char** argv) {
  const char* name = argc > 1 ? argv[1] : "read";
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
  first_tid = (pid_t)syscall(SYS_gettid);
  first_thread = pthread_self();
  listener = -1;
  if (pipe(ends) != 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0) return 96;
  if (strcmp(name, "accept") == 0) listen_somewhere();
  if (strncmp(name, "wait", 4) == 0) {
    child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (;;) pause();
    }
  }
  struct sigaction action = {0};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR1, &action, NULL);
  action.sa_flags = 0;
  sigaction(SIGUSR2, &action, NULL);
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &blocked, NULL);
  pthread_t thread;
  if (pthread_create(&thread, NULL, wait_for_flag, (void*)name) != 0) return 97;
  while (atomic_load(&waits) == 0) sched_yield();
  say_ready(first_tid);
  int kept = 0;
  const int64_t begin = now_ns();
  const long result = make_call(name, &kept);
  const int was_released = atomic_load(&released);
  const int64_t limit =
      strcmp(name, "clock_nanosleep") == 0 ? 1000000000 : TIMEOUT_NSEC;
  const int early = !was_released && now_ns() - begin < limit;
  say("%s result=%ld early=%d\n", name, result, early);
  pthread_join(thread, NULL);
  if (!kept) say("changed: vector registers\n");
  if (kept) say("intact\n");
  return kept ? EXIT_INTACT : 1;
}
