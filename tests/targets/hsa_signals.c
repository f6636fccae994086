// hsa_signals [MSEC]: has the HSA runtime mapped without starting it, and sends itself
// signals for MSEC (default 1500). Prints the longest time that one took to arrive.
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "tests/targets/hsa_support.h"

static volatile sig_atomic_t arrived;

static void note(int number) {
  (void)number;
  arrived = 1;
}

static uint64_t now_msec(void) {
  struct timespec now;
  clock_gettime(CLOCK_BOOTTIME, &now);
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

int main(int argc, char** argv) {
  const uint64_t msec = argc > 1 ? parse_number("MSEC", argv[1]) : 1500;
  // Keeps the runtime linked.
  const char* text;
  hsa_status_string(HSA_STATUS_SUCCESS, &text);
  signal(SIGUSR1, note);
  uint64_t longest = 0, count = 0;
  for (const uint64_t end = now_msec() + msec; now_msec() < end; count++) {
    const uint64_t sent = now_msec();
    arrived = 0;
    kill(getpid(), SIGUSR1);
    while (!arrived) {
    }
    const uint64_t took = now_msec() - sent;
    if (took > longest) longest = took;
    pause_msec(1);
  }
  printf("signals=%llu longest_msec=%llu result=ok\n", (unsigned long long)count,
         (unsigned long long)longest);
  return 0;
}
