/* bench_spawn_load RATE SECONDS: starts /bin/true RATE times a second (0: as often
 * as possible), one after another, and prints the number, and the time of one start. */
#define _GNU_SOURCE
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void sleep_until(uint64_t when_ns) {
  struct timespec when = {(time_t)(when_ns / 1000000000u),
                          (long)(when_ns % 1000000000u)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL) != 0) {
  }
}

int main(int argc, char** argv) {
  if (argc != 3) {
    fputs("usage: bench_spawn_load RATE SECONDS\n", stderr);
    return 2;
  }
  uint64_t rate = strtoull(argv[1], NULL, 10);
  char* arguments[] = {(char*)"true", NULL};
  char* environment[] = {NULL};
  uint64_t begin = now_ns(), end = begin + strtoull(argv[2], NULL, 10) * 1000000000u;
  uint64_t count = 0, busy = 0;
  while (now_ns() < end) {
    if (rate != 0) sleep_until(begin + count * 1000000000u / rate);
    uint64_t start = now_ns();
    pid_t pid;
    int status;
    int error = posix_spawn(&pid, "/bin/true", NULL, NULL, arguments, environment);
    if (error != 0 || waitpid(pid, &status, 0) != pid || status != 0) {
      fprintf(stderr, "bench_spawn_load: /bin/true failed: %s\n", strerror(error));
      return 1;
    }
    busy += now_ns() - start;
    count++;
  }
  if (count == 0) return 1;
  printf("count=%llu elapsed_ns=%llu each_ns=%llu\n", (unsigned long long)count,
         (unsigned long long)(now_ns() - begin), (unsigned long long)(busy / count));
  return 0;
}
