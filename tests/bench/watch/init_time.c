/* bench_init_time: how long hsa_init takes, as its caller sees it.
 *   bench_init_time               first init, counted second one, init after shut-down
 *   bench_init_time --linger MS   init, then sleep, so that its memory can be examined
 *   bench_init_time --gaps MS     no init: read the clock without a pause, and report
 *                                 the gaps of at least 0.2 ms, in which it stood still
 * Prints one line of name=value pairs. */
#include <hsa/hsa.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void check(hsa_status_t status, const char* call) {
  if (status == HSA_STATUS_SUCCESS) return;
  fprintf(stderr, "bench_init_time: %s failed: %#x\n", call, (unsigned)status);
  exit(1);
}

static uint64_t timed_init(void) {
  uint64_t begin = now_ns();
  check(hsa_init(), "hsa_init");
  return now_ns() - begin;
}

static void print_gaps(uint64_t milliseconds) {
  uint64_t before = now_ns(), end = before + milliseconds * 1000000u;
  uint64_t longest = 0, sum = 0;
  while (before < end) {
    uint64_t now = now_ns(), gap = now - before;
    if (gap >= 200000) sum += gap;
    if (gap > longest) longest = gap;
    before = now;
  }
  printf("longest_ns=%llu sum_ns=%llu\n", (unsigned long long)longest,
         (unsigned long long)sum);
}

int main(int argc, char** argv) {
  uint64_t milliseconds = argc == 3 ? strtoull(argv[2], NULL, 10) : 0;
  if (argc == 3 && strcmp(argv[1], "--gaps") == 0) {
    print_gaps(milliseconds);
    return 0;
  }
  if (argc == 3 && strcmp(argv[1], "--linger") == 0) {
    check(hsa_init(), "hsa_init");
    puts("ready=1");
    fflush(stdout);
    usleep((useconds_t)milliseconds * 1000);
    return 0;
  }
  if (argc != 1) {
    fputs("usage: bench_init_time [--linger MS | --gaps MS]\n", stderr);
    return 2;
  }
  uint64_t first = timed_init();
  uint64_t counted = timed_init();
  check(hsa_shut_down(), "hsa_shut_down");
  check(hsa_shut_down(), "hsa_shut_down");
  uint64_t again = timed_init();
  printf("first_ns=%llu counted_ns=%llu again_ns=%llu\n", (unsigned long long)first,
         (unsigned long long)counted, (unsigned long long)again);
  return 0;
}
