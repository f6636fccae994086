// bench_empty_tracer LAUNCHES LIBRARY FUNCTION COMMAND [ARGUMENT...]: the lower bound
// of every hold. A new process, COMMAND, enters FUNCTION of LIBRARY, which has a probe
// on it. A tracer that does nothing else is woken by the event, seizes the thread,
// interrupts it, waits for the stop, and detaches. Prints one line of name=value pairs,
// all measured from the hit.
#include <bpf/libbpf.h>
#include <fcntl.h>
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

// Starts a new process, and follows it until its end. Measures its first call.
bool Launch(empty_tracer_bpf* skeleton, ring_buffer* ring, char** command) {
  skeleton->bss->armed = 1;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  pid_t pid;
  const int error = posix_spawn(&pid, command[0], &actions, nullptr, command, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0 || ring_buffer__poll(ring, 10'000) < 1) return false;
  int status = 0;
  return waitpid(pid, &status, 0) == pid && status == 0;
}

}  // namespace

int main(int argc, char** argv) {
  const long launches = argc > 1 ? strtol(argv[1], nullptr, 10) : 0;
  if (argc < 5 || launches < 1 || launches > 100'000) {
    fputs("usage: bench_empty_tracer LAUNCHES LIBRARY FUNCTION COMMAND [ARGUMENT...]\n",
          stderr);
    return 2;
  }
  empty_tracer_bpf* skeleton = empty_tracer_bpf__open_and_load();
  if (skeleton == nullptr) {
    perror("bench_empty_tracer: the BPF program cannot be loaded");
    return 1;
  }
  LIBBPF_OPTS(bpf_uprobe_opts, options, .func_name = argv[3]);
  bpf_link* link =
      bpf_program__attach_uprobe_opts(skeleton->progs.enter, -1, argv[2], 0, &options);
  Times times;
  ring_buffer* ring =
      ring_buffer__new(bpf_map__fd(skeleton->maps.hits), OnHit, &times, nullptr);
  if (link == nullptr || ring == nullptr) {
    perror("bench_empty_tracer: the probe cannot be attached");
    return 1;
  }
  // Waits as the service's threads do, with real-time priority.
  const sched_param priority = {.sched_priority = 1};
  (void)sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &priority);
  for (long i = 0; i < launches; ++i) {
    if (!Launch(skeleton, ring, argv + 4)) {
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
