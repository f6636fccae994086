// bench_armed_load PROCESSES PER_SECOND SECONDS COLLECTOR: many processes that a
// service has attached to, which together report PER_SECOND dispatches a second. That
// is more than two processors could launch, even on a simulated GPU, so the processes
// write records of dispatches that never took place, with the collector's own rings and
// dictionary. COLLECTOR is the file that the service has its targets load.
//
// The stub calls dlopen with that path. The loader compares it with the names of the
// files it has loaded, and this program has given itself that name: so the stub gets
// the function below. The runtime is one whose hsa_init does nothing.
//
// Prints `armed=PROCESSES` when all of them are armed, waits for a line of standard
// input, runs, and prints how many dispatches it has written.
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

#include "userspace/collector/common/dictionary.h"
#include "userspace/collector/common/ring.h"

extern "C" int hsa_init(void);

namespace {

using namespace rocattach::collector;

constexpr uint32_t kKernels = 12;
constexpr uint64_t kRoundNs = 50'000'000;  // between two writes of a process

struct Shared {
  std::atomic<bool> go;
  std::atomic<uint64_t> pushed, dropped;
};

Shared* shared = nullptr;
const char* collector = nullptr;
Memory memory;
RingSet rings;
Dictionary dictionary;
bool armed = false;

[[noreturn]] void Fail(const char* what) {
  fprintf(stderr, "bench_armed_load: %s: %s\n", what, strerror(errno));
  _exit(1);
}

uint64_t Now() {
  timespec now;
  clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<uint64_t>(now.tv_nsec);
}

void DescribeGpu() {
  rocattach_agent_entry agent = {};
  agent.type = 2;
  agent.compute_units = 104;
  agent.simds_per_cu = 4;
  agent.wavefront_size = 64;
  agent.pci_bdf = 0x300;
  strncpy(agent.uuid, "GPU-00000000000000a0", sizeof(agent.uuid) - 1);
  constexpr char kName[] = "gfx90a\0";
  dictionary.Append(ROCATTACH_ENTRY_AGENT, &agent, kName, sizeof(kName) - 1);
  rocattach_queue_entry queue = {};
  queue.agent_id = 1;
  queue.packets = 4096;
  dictionary.Append(ROCATTACH_ENTRY_QUEUE, &queue, nullptr, 0);
  for (uint32_t i = 0; i < kKernels; ++i) {
    rocattach_kernel_entry kernel = {};
    kernel.agent_id = 1;
    char name[64];
    snprintf(name, sizeof(name), "_Z9kernel_%02uPKfPfi", i);
    dictionary.Append(ROCATTACH_ENTRY_KERNEL, &kernel, name,
                      static_cast<uint32_t>(strlen(name)));
  }
}

// Writes `count` dispatches, one after the other, the last of which ended just now.
void Push(uint64_t count, uint64_t* correlation) {
  const uint64_t now = Now();
  RingHandle ring = rings.Mine();
  for (uint64_t i = 0; i < count; ++i) {
    rocattach_dispatch record = {};
    record.kind = ROCATTACH_RECORD_DISPATCH;
    record.agent_id = record.queue_id = 1;
    record.kernel_id = 1 + static_cast<uint32_t>(*correlation % kKernels);
    record.tid = static_cast<uint32_t>(getpid());
    record.correlation_id = ++*correlation;
    record.start_ns = now - (count - i) * 10'000 + *correlation * 7919 % 500;
    record.end_ns = record.start_ns + 5000 + *correlation * 104'729 % 900;
    record.enqueue_ns = record.start_ns - 4000;
    record.grid_x = 1 << 20;
    record.grid_y = record.grid_z = 1;
    record.workgroup_x = 256;
    record.workgroup_y = record.workgroup_z = 1;
    // In the order of capture: seen before it is published.
    ring.Count(&rocattach_ring::dispatches_seen, uint64_t{1});
    ring.PushDispatch(record, nullptr);
  }
}

[[noreturn]] void RunProcess(double per_second, double seconds, int armed_pipe) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (hsa_init() != 0 || !armed) {
    fprintf(stderr, "bench_armed_load: not attached\n");
    _exit(1);
  }
  if (write(armed_pipe, "x", 1) != 1) Fail("write");
  while (!shared->go) usleep(20'000);
  uint64_t correlation = 0, pushed = 0;
  // The processes should not all write at the same instant.
  usleep(static_cast<useconds_t>(getpid()) * 7919u % (kRoundNs / 1000));
  const uint64_t begin = Now(), end = begin + static_cast<uint64_t>(seconds * 1e9);
  for (uint64_t now = begin; now < end; now = Now()) {
    const auto due =
        static_cast<uint64_t>(per_second * static_cast<double>(now - begin) / 1e9);
    Push(due - pushed, &correlation);
    pushed = due;
    usleep(kRoundNs / 1000);
  }
  shared->pushed += pushed;
  shared->dropped += rings.Dropped();
  rings.UpdateTotals();
  _exit(0);
}

}  // namespace

// Called by the stub.
extern "C" __attribute__((visibility("default"))) int rocattach_collector_start(
    const rocattach_collector_config* config) {
  if (memory.Create(*config) != 0 || rings.Init(&memory) != 0) Fail("no memory");
  dictionary.Init(&memory);
  DescribeGpu();
  // Loads the real collector by another name than this program's.
  char path[4096];
  snprintf(path, sizeof(path), "/proc/self/root%s", collector);
  void* real = dlopen(path, RTLD_NOW);
  if (real == nullptr) Fail(dlerror());
  auto* ready = reinterpret_cast<void (*)(const void*, uint64_t, uint64_t)>(
      dlsym(real, ROCATTACH_COLLECTOR_READY));
  if (ready == nullptr) Fail(dlerror());
  StoreRelease(&memory.control()->backend,
               static_cast<uint32_t>(ROCATTACH_BACKEND_HSA_TOOLS));
  memory.control()->armed_ns = Now();
  memory.SetState(ROCATTACH_STATE_ARMED);
  ready(memory.base(), memory.geometry().total_bytes, config->window_id);
  armed = true;
  return 0;
}

int main(int argc, char** argv) {
  const int processes = argc == 5 ? atoi(argv[1]) : 0;
  if (processes < 1 || processes > 10'000) {
    fputs("usage: bench_armed_load PROCESSES PER_SECOND SECONDS COLLECTOR\n", stderr);
    return 2;
  }
  const double per_second = atof(argv[2]) / processes, seconds = atof(argv[3]);
  collector = argv[4];
  static_cast<link_map*>(dlopen(nullptr, RTLD_NOW))->l_name = argv[4];
  shared = static_cast<Shared*>(mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE,
                                     MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  int pipe_ends[2];
  if (shared == MAP_FAILED || pipe(pipe_ends) != 0) Fail("mmap, pipe");
  for (int i = 0; i < processes; ++i) {
    const pid_t child = fork();
    if (child < 0) Fail("fork");
    if (child == 0) RunProcess(per_second, seconds, pipe_ends[1]);
    // One process at a time: the service holds each of them for a moment.
    pollfd report = {pipe_ends[0], POLLIN, 0};
    char byte;
    if (poll(&report, 1, 30'000) != 1 || read(pipe_ends[0], &byte, 1) != 1) {
      Fail("a process is not attached");
    }
  }
  printf("armed=%d\n", processes);
  fflush(stdout);
  char line[8];
  if (fgets(line, sizeof(line), stdin) == nullptr) return 1;
  shared->go = true;
  int failed = 0, status;
  while (wait(&status) > 0) failed += status != 0;
  printf("processes=%d failed=%d pushed=%llu dropped=%llu\n", processes, failed,
         static_cast<unsigned long long>(shared->pushed),
         static_cast<unsigned long long>(shared->dropped));
  return failed != 0;
}
