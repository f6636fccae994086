// bench_fleet_server NODES PROCESSES GPUS [SECONDS]: the metrics of many machines from
// one process. Each machine has meters and an endpoint of its own, as a service has, at
// 127.1.x.y:9410, and gets made-up processes that look like distributed training: ranks
// of jobs that run the same kernels on all GPUs. Before each scrape they run some more.
// Prints `ready=1`, and ends after SECONDS or with standard input.
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "userspace/base/clock.h"
#include "userspace/telemetry/gpu_use_totals.h"
#include "userspace/telemetry/metrics_endpoint.h"
#include "userspace/telemetry/node_meters.h"

namespace rocattach {
namespace {

constexpr uint32_t kKernels = 40;  // kernels of each process
constexpr size_t kBatch = 64;      // dispatches between two scrapes

// As long as names of machine-learning frameworks: some 180 characters.
std::string KernelName(uint64_t job, uint32_t kernel) {
  const std::string type = absl::StrCat("Tile", 128 << kernel % 2, "x", job % 7, "K",
                                        kernel, "BlockScheduled");
  const std::string function =
      absl::StrCat("fused_elementwise_", kernel, "_with_layout_and_epilogue");
  return absl::StrCat("_ZN8training7kernels", function.size(), function, "I",
                      type.size(), type, "N3c108BFloat16EfLi", kernel,
                      "ELi512ELb1ELb0EEEvPKT0_PKT1_PfiiiNS_12LaunchLayoutIXT2_EEE");
}

// One machine. Two instances with the same number are identical.
class SimulatedNode : public MetricsSource {
 public:
  SimulatedNode(uint32_t number, uint32_t processes, uint32_t gpus)
      : number_(number), meters_(NodeMetersOptions()) {
    for (uint32_t i = 0; i < gpus; ++i) {
      TargetGpu gpu;
      gpu.agent_id = i + 1;
      gpu.key = absl::StrFormat("GPU-%08x%08x", number, i);
      gpu.uuid = gpu.key;
      gpu.pci = absl::StrFormat("0000:%02x:00.0", 16 * i + 3);
      gpu.architecture = "gfx942";
      gpu.product_name = "AMD Instinct MI300X";
      gpus_.push_back(std::move(gpu));
    }
    for (uint32_t i = 0; i < processes; ++i) AddProcess(i);
  }

  absl::StatusOr<NodeSnapshot> CaptureSnapshot(MetricsConsumer consumer) override {
    absl::MutexLock lock(&mutex_);
    for (Process& process : processes_) Run(&process);
    UpdateUse();
    NodeSnapshot snapshot = meters_.CaptureSnapshot(consumer);
    use_.AddTo(&snapshot, BootNs());
    return snapshot;
  }
  absl::Status CheckAlive() override { return absl::OkStatus(); }
  absl::Status CheckReady() override { return absl::OkStatus(); }

 private:
  struct Process {
    std::shared_ptr<TargetMeter> meter;
    ProcessId id;
    WorkloadIdentity workload;
    uint32_t agent = 0;
    uint64_t random = 0, rounds = 0;
  };

  // Half of the processes belong to one job.
  void AddProcess(uint32_t index) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const uint64_t job = number_ / 4 * 2 + index % 2;
    auto names = std::make_shared<TargetNames>();
    for (uint32_t kernel = 1; kernel <= kKernels; ++kernel) {
      names->AddKernel(kernel, KernelName(job, kernel));
    }
    v1::Process message;
    message.set_pid(100'000 + index);
    message.set_comm("python3");
    message.set_uid(1000 + static_cast<uint32_t>(job % 100));
    message.set_start_ns(1'000'000'000ull * (index + 1));
    Process process;
    process.id =
        ProcessId::StartedAt(static_cast<pid_t>(message.pid()), message.start_ns());
    message.set_start_ticks(process.id.start_ticks);
    process.workload.executable = "/opt/conda/bin/python3.11";
    process.workload.container_id = absl::StrFormat("%064x", number_ * 64ull + index);
    process.workload.container = "trainer";
    process.workload.pod =
        absl::StrCat("training-job-", job, "-worker-", number_ % 4, "-", index);
    process.workload.pod_uid = absl::StrFormat("0f3c1a2b-1234-4abc-%04x-%08x%04x",
                                               number_ % 65536, job, index);
    process.workload.kube_namespace = absl::StrCat("team-", job % 40);
    process.workload.node = absl::StrCat("node-", number_);
    meters_.SetWorkload(process.id, process.workload);
    process.meter = meters_.Open(message, std::move(names));
    process.agent = 1 + index % static_cast<uint32_t>(gpus_.size());
    process.random = number_ * 1000ull + index + 1;
    TargetStanding standing;
    standing.gpus = gpus_;
    process.meter->Update(standing);
    processes_.push_back(std::move(process));
  }

  // Runs some kernels, a few of them far more often than the others, and two copies.
  void Run(Process* process) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto next = [process] {
      process->random = process->random * 6364136223846793005u + 1442695040888963407u;
      return process->random >> 33;
    };
    std::vector<rocattach_dispatch> dispatches(kBatch);
    uint64_t now = 1'000'000'000 + process->rounds++ * 10'000'000;
    for (rocattach_dispatch& dispatch : dispatches) {
      dispatch.agent_id = process->agent;
      dispatch.kernel_id = 1 + static_cast<uint32_t>((next() % kKernels) *
                                                     (next() % kKernels) / kKernels);
      dispatch.start_ns = now;
      dispatch.end_ns = now + 2000 + next() % 200'000;
      now = dispatch.end_ns + next() % 5000;
    }
    process->meter->AddDispatches(dispatches);
    rocattach_copy copies[2] = {};
    for (uint16_t i = 0; i < 2; ++i) {
      copies[i].direction = static_cast<uint16_t>(ROCATTACH_COPY_HOST_TO_DEVICE + i);
      copies[i].bytes = 1 << 20;
      copies[i].start_ns = now;
      copies[i].end_ns = now + 50'000;
    }
    process->meter->AddCopies(copies);
  }

  // The use of the GPUs as the driver reports it.
  void UpdateUse() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    GpuUsage usage;
    for (const TargetGpu& gpu : gpus_) {
      GpuDevice device;
      device.key = device.uuid = gpu.key;
      device.pci = gpu.pci;
      device.architecture = gpu.architecture;
      device.model = gpu.product_name;
      device.vram_total_bytes = 192ull << 30;
      device.vram_used_bytes = 100ull << 30;
      usage.devices.push_back(std::move(device));
    }
    std::map<ProcessId, WorkloadIdentity> workloads;
    for (const Process& process : processes_) {
      GpuProcess user;
      user.id = process.id;
      user.comm = "python3";
      ProcessGpuUse& use = user.gpus[gpus_[process.agent - 1].key];
      use.kfd_vram_bytes = (40ull << 30) + process.random % (1 << 30);
      use.sdma_us = 1000 * process.rounds;
      use.cu_occupancy = process.random % 304;
      usage.processes.push_back(std::move(user));
      workloads[process.id] = process.workload;
    }
    use_.Update(std::move(usage), workloads, BootNs());
  }

  const uint32_t number_;
  absl::Mutex mutex_;
  std::vector<TargetGpu> gpus_;
  NodeMeters meters_ ABSL_GUARDED_BY(mutex_);
  GpuUseTotals use_ ABSL_GUARDED_BY(mutex_);
  std::vector<Process> processes_ ABSL_GUARDED_BY(mutex_);
};

int Serve(uint32_t nodes, uint32_t processes, uint32_t gpus, int milliseconds) {
  std::vector<std::unique_ptr<SimulatedNode>> sources;
  std::vector<std::unique_ptr<MetricsEndpoint>> endpoints;
  for (uint32_t i = 0; i < nodes; ++i) {
    sources.push_back(std::make_unique<SimulatedNode>(i, processes, gpus));
    const auto address =
        ParseListenAddress(absl::StrCat("127.1.", i / 250, ".", i % 250 + 1, ":9410"));
    auto endpoint = address.ok()
                        ? MetricsEndpoint::Start(*address, sources.back().get())
                        : address.status();
    if (!endpoint.ok()) {
      fprintf(stderr, "bench_fleet_server: node %u: %s\n", i,
              std::string(endpoint.status().message()).c_str());
      return 1;
    }
    endpoints.push_back(*std::move(endpoint));
  }
  printf("ready=1 nodes=%u\n", nodes);
  fflush(stdout);
  pollfd input = {STDIN_FILENO, POLLIN, 0};
  poll(&input, 1, milliseconds);
  return 0;
}

}  // namespace
}  // namespace rocattach

int main(int argc, char** argv) {
  uint32_t numbers[4] = {0, 0, 0, 3600};
  for (int i = 1; i < argc && i <= 4; ++i) {
    numbers[i - 1] = static_cast<uint32_t>(strtoul(argv[i], nullptr, 10));
  }
  const auto [nodes, processes, gpus, seconds] = numbers;
  if (argc < 4 || argc > 5 || nodes < 1 || nodes > 60'000 || processes < 1 ||
      processes > 1000 || gpus < 1 || gpus > 64 || seconds > 1'000'000) {
    fputs("usage: bench_fleet_server NODES PROCESSES GPUS [SECONDS]\n", stderr);
    return 2;
  }
  // Each node needs some descriptors, and so does each scraper's connection.
  rlimit files = {};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  return rocattach::Serve(nodes, processes, gpus, static_cast<int>(seconds * 1000));
}
