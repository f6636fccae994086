/* The minimum time for entering a running thread: seize, interrupt, wait, detach by a
 * tracer that does nothing else. Each round stops the thread TID, or without TID one of
 * the threads of the process. Between two rounds the thread works for 5 ms: a thread
 * that is stopped all the time would only be found in its stop or behind it.
 *
 *   bench_stop_floor PID ROUNDS [TID]
 *
 * Prints rounds=N stopped_median_ns=N stopped_p99_ns=N whole_median_ns=N: from the stop
 * to the detach, and from the interrupt to the detach. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_THREADS 256
#define MAX_ROUNDS 10000
#define PAUSE_USEC 5000

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_BOOTTIME, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int compare(const void* a, const void* b) {
  const uint64_t x = *(const uint64_t*)a, y = *(const uint64_t*)b;
  return x < y ? -1 : x > y;
}

static int read_threads(const char* pid, pid_t* tids) {
  char path[64];
  snprintf(path, sizeof(path), "/proc/%s/task", pid);
  DIR* directory = opendir(path);
  if (directory == NULL) return 0;
  int count = 0;
  struct dirent* entry;
  while (count < MAX_THREADS && (entry = readdir(directory)) != NULL) {
    if (entry->d_name[0] != '.') tids[count++] = atoi(entry->d_name);
  }
  closedir(directory);
  return count;
}

int main(int argc, char** argv) {
  static uint64_t stopped[MAX_ROUNDS], whole[MAX_ROUNDS];
  pid_t tids[MAX_THREADS];
  if (argc != 3 && argc != 4) return 2;
  int rounds = atoi(argv[2]);
  if (rounds < 1 || rounds > MAX_ROUNDS) return 2;
  int threads = 1;
  if (argc == 4) {
    tids[0] = atoi(argv[3]);
  } else {
    threads = read_threads(argv[1], tids);
  }
  if (threads == 0) {
    fprintf(stderr, "no threads of process %s\n", argv[1]);
    return 1;
  }
  /* The same priority as the service's threads, if that is permitted. */
  const struct sched_param priority = {.sched_priority = 1};
  (void)sched_setscheduler(0, SCHED_FIFO, &priority);
  int done = 0;
  for (int i = 0; i < rounds; i++) {
    const pid_t tid = tids[i % threads];
    usleep(PAUSE_USEC);
    if (ptrace(PTRACE_SEIZE, tid, NULL, NULL) != 0) {
      if (errno == ESRCH) continue;
      perror("PTRACE_SEIZE");
      return 1;
    }
    const uint64_t begin = now_ns();
    ptrace(PTRACE_INTERRUPT, tid, NULL, NULL);
    int status;
    if (waitpid(tid, &status, __WALL) != tid || !WIFSTOPPED(status)) continue;
    const uint64_t stop = now_ns();
    ptrace(PTRACE_DETACH, tid, NULL, NULL);
    const uint64_t end = now_ns();
    stopped[done] = end - stop;
    whole[done++] = end - begin;
  }
  if (done == 0) return 1;
  qsort(stopped, (size_t)done, sizeof(stopped[0]), compare);
  qsort(whole, (size_t)done, sizeof(whole[0]), compare);
  printf("rounds=%d stopped_median_ns=%lu stopped_p99_ns=%lu whole_median_ns=%lu\n",
         done, stopped[done / 2], stopped[done * 99 / 100], whole[done / 2]);
  return 0;
}
