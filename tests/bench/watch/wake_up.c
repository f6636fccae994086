/* bench_wake_up [ROUNDS]: the time from an event until a thread runs that sleeps for
 * it on another, idle processor. Every service that reacts to events elsewhere has
 * this delay first. Prints one line of name=value pairs. */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define MOST_ROUNDS 10000

static int events;
static uint64_t rung_ns;
static uint64_t took_ns[MOST_ROUNDS];

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void stay_on(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  (void)sched_setaffinity(0, sizeof(set), &set);
}

/* Waits as the service's threads do: with real-time priority if that is permitted. */
static void* sleeper(void* argument) {
  const long rounds = *(const long*)argument;
  struct sched_param param = {.sched_priority = 1};
  (void)pthread_setschedparam(pthread_self(), SCHED_FIFO, &param);
  stay_on(1);
  for (long i = 0; i < rounds; i++) {
    struct pollfd fd = {events, POLLIN, 0};
    (void)poll(&fd, 1, -1);
    took_ns[i] = now_ns() - __atomic_load_n(&rung_ns, __ATOMIC_ACQUIRE);
    uint64_t count;
    if (read(events, &count, sizeof(count)) != sizeof(count)) exit(1);
  }
  return NULL;
}

static int by_size(const void* a, const void* b) {
  const uint64_t x = *(const uint64_t*)a, y = *(const uint64_t*)b;
  return x < y ? -1 : x > y;
}

int main(int argc, char** argv) {
  long rounds = argc > 1 ? strtol(argv[1], NULL, 10) : 200;
  if (argc > 2 || rounds < 1 || rounds > MOST_ROUNDS) {
    fputs("usage: bench_wake_up [ROUNDS]\n", stderr);
    return 2;
  }
  if (sysconf(_SC_NPROCESSORS_ONLN) < 2) {
    puts("rounds=0");
    return 0;
  }
  events = eventfd(0, EFD_CLOEXEC);
  pthread_t thread;
  if (events < 0 || pthread_create(&thread, NULL, sleeper, &rounds) != 0) {
    perror("bench_wake_up");
    return 1;
  }
  stay_on(0);
  for (long i = 0; i < rounds; i++) {
    usleep(10000);
    const uint64_t one = 1;
    __atomic_store_n(&rung_ns, now_ns(), __ATOMIC_RELEASE);
    if (write(events, &one, sizeof(one)) != sizeof(one)) return 1;
  }
  pthread_join(thread, NULL);
  qsort(took_ns, (size_t)rounds, sizeof(took_ns[0]), by_size);
  printf("rounds=%ld median_ns=%llu p99_ns=%llu\n", rounds,
         (unsigned long long)took_ns[rounds / 2],
         (unsigned long long)took_ns[rounds * 99 / 100]);
  return 0;
}
