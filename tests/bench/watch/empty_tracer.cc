// bench_empty_tracer [LAUNCHES]: the floor under every hold. A new process enters a
// function with a probe on it, and a tracer that does nothing else is woken by the
// event, seizes the thread, interrupts it, waits for the stop, and lets it go. Prints
// one line of name=value pairs, all measured from the hit.
#include <bpf/libbpf.h>
#include <sched.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "bpf/empty_tracer.skel.h"
#include "tests/bench/watch/empty_tracer.h"

// Where the probe stands.
extern "C" __attribute__((noinline, used)) void bench_probed_function() {
  __asm__ volatile("nop" ::: "memory");
}

namespace {

struct Times {
  std::vector<uint64_t> woken, stopped, released;
};

uint64_t BootNs() {
  timespec now;
  clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u +
         static_cast<uint64_t>(now.tv_nsec);
}

int OnHit(void* context, void* data, size_t size) {
  const uint64_t woken = BootNs();
  hit h;
  if (size < sizeof(h)) return 0;
  memcpy(&h, data, sizeof(h));
  const pid_t tid = static_cast<pid_t>(h.tid);
  int status = 0;
  if (ptrace(PTRACE_SEIZE, tid, nullptr, nullptr) != 0 ||
      ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr) != 0 ||
      waitpid(tid, &status, __WALL) != tid || !WIFSTOPPED(status)) {
    perror("bench_empty_tracer: ptrace");
    exit(1);
  }
  const uint64_t stopped = BootNs();
  ptrace(PTRACE_DETACH, tid, nullptr, nullptr);
  auto* times = static_cast<Times*>(context);
  times->woken.push_back(woken - h.time_ns);
  times->stopped.push_back(stopped - h.time_ns);
  times->released.push_back(BootNs() - h.time_ns);
  return 0;
}

uint64_t Quantile(std::vector<uint64_t>& values, double q) {
  std::sort(values.begin(), values.end());
  const auto at = static_cast<size_t>(q * static_cast<double>(values.size()));
  return values[std::min(values.size() - 1, at)];
}

void Print(const char* name, std::vector<uint64_t>& values) {
  printf("%s_median_ns=%llu %s_p99_ns=%llu ", name,
         static_cast<unsigned long long>(Quantile(values, 0.5)), name,
         static_cast<unsigned long long>(Quantile(values, 0.99)));
}

// A process that has just been started, as those are whose hsa_init is held.
int Launch(ring_buffer* ring) {
  const char* argv[] = {"bench_empty_tracer", "--target", nullptr};
  pid_t pid;
  if (posix_spawn(&pid, "/proc/self/exe", nullptr, nullptr,
                  const_cast<char* const*>(argv), environ) != 0) {
    return -1;
  }
  if (ring_buffer__poll(ring, 10'000) != 1) return -1;
  int status = 0;
  return waitpid(pid, &status, 0) == pid && status == 0 ? 0 : -1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && strcmp(argv[1], "--target") == 0) {
    usleep(5000);  // the tracer sleeps by now
    bench_probed_function();
    return 0;
  }
  const long launches = argc > 1 ? strtol(argv[1], nullptr, 10) : 200;
  if (argc > 2 || launches < 1 || launches > 100'000) {
    fputs("usage: bench_empty_tracer [LAUNCHES]\n", stderr);
    return 2;
  }
  empty_tracer_bpf* skeleton = empty_tracer_bpf__open_and_load();
  if (skeleton == nullptr) {
    perror("bench_empty_tracer: the BPF program cannot be loaded");
    return 1;
  }
  LIBBPF_OPTS(bpf_uprobe_opts, options, .func_name = "bench_probed_function");
  bpf_link* link = bpf_program__attach_uprobe_opts(skeleton->progs.enter, -1,
                                                   "/proc/self/exe", 0, &options);
  Times times;
  ring_buffer* ring =
      ring_buffer__new(bpf_map__fd(skeleton->maps.hits), OnHit, &times, nullptr);
  if (link == nullptr || ring == nullptr) {
    perror("bench_empty_tracer: the probe cannot be attached");
    return 1;
  }
  // As the service's threads wait.
  const sched_param priority = {.sched_priority = 1};
  (void)sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &priority);
  for (long i = 0; i < launches; ++i) {
    if (Launch(ring) != 0) {
      fprintf(stderr, "bench_empty_tracer: launch %ld failed\n", i);
      return 1;
    }
  }
  printf("launches=%zu ", times.woken.size());
  Print("woken", times.woken);
  Print("stopped", times.stopped);
  Print("released", times.released);
  printf("\n");
  bpf_link__destroy(link);
  ring_buffer__free(ring);
  empty_tracer_bpf__destroy(skeleton);
  return 0;
}
