// hip_launch_rate: measures how many kernels per second HIP launches, from one or
// several threads, each with its own stream. The kernel counts its launches, so that a
// missing one is noticed.
#include <getopt.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "tests/simgpu/standin.h"
#include "tests/targets/hip_support.h"

__global__ void Count(unsigned long long* counter) {
  if (threadIdx.x == 0 && blockIdx.x == 0) atomicAdd(counter, 1ull);
}

// Count on the simulated GPU.
SIMGPU_STANDIN(_Z5CountPy) {
  auto* counter = *static_cast<unsigned long long* const*>(launch->kernarg);
  __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

namespace {

constexpr char kHelp[] =
    "usage: hip_launch_rate [-n LAUNCHES | --seconds S] [-t THREADS] [--sync]\n"
    "  -n N         launches of each thread (default 50000)\n"
    "  --seconds S  launch for this long instead\n"
    "  -t N         threads (default 1)\n"
    "  --sync       wait for every kernel before the next\n";

struct Settings {
  uint64_t launches = 50000;
  uint64_t seconds = 0;
  uint64_t threads = 1;
  bool synchronous = false;
};

using Clock = std::chrono::steady_clock;

struct Result {
  uint64_t launches = 0;
  double seconds = 0;
  bool right = false;
};

Result RunThread(const Settings& settings, std::atomic<uint64_t>& not_ready) {
  hipStream_t stream;
  unsigned long long* counter;
  HIP_CHECK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  HIP_CHECK(hipHostMalloc(&counter, sizeof(*counter)));
  *counter = 0;
  // The first launch loads the code object; it is not measured.
  Count<<<1, 64, 0, stream>>>(counter);
  HIP_CHECK(hipStreamSynchronize(stream));
  not_ready--;
  while (not_ready > 0) std::this_thread::yield();

  Result result;
  const auto start = Clock::now();
  const auto deadline = start + std::chrono::seconds(settings.seconds);
  while (settings.seconds > 0 ? Clock::now() < deadline
                              : result.launches < settings.launches) {
    Count<<<1, 64, 0, stream>>>(counter);
    result.launches++;
    if (settings.synchronous) HIP_CHECK(hipStreamSynchronize(stream));
  }
  HIP_CHECK(hipGetLastError());
  HIP_CHECK(hipStreamSynchronize(stream));
  result.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  result.launches++;
  result.right = *counter == result.launches;
  HIP_CHECK(hipHostFree(counter));
  HIP_CHECK(hipStreamDestroy(stream));
  return result;
}

Settings Parse(int argc, char** argv) {
  Settings settings;
  static const option options[] = {{"seconds", required_argument, nullptr, 's'},
                                   {"sync", no_argument, nullptr, 'y'},
                                   {"help", no_argument, nullptr, 'h'},
                                   {nullptr, 0, nullptr, 0}};
  int parsed;
  while ((parsed = getopt_long(argc, argv, "n:t:h", options, nullptr)) != -1) {
    switch (parsed) {
      case 'n':
        settings.launches = ParseNumber("-n", optarg);
        break;
      case 't':
        settings.threads = ParseNumber("-t", optarg);
        break;
      case 's':
        settings.seconds = ParseNumber("--seconds", optarg);
        break;
      case 'y':
        settings.synchronous = true;
        break;
      case 'h':
        std::fputs(kHelp, stdout);
        std::exit(0);
      default:
        std::exit(2);
    }
  }
  if (settings.threads == 0) {
    std::fputs("-t must not be 0\n", stderr);
    std::exit(2);
  }
  return settings;
}

}  // namespace

int main(int argc, char** argv) {
  const Settings settings = Parse(argc, argv);
  std::vector<Result> results(settings.threads);
  std::vector<std::thread> workers;
  std::atomic<uint64_t> not_ready{settings.threads};
  for (uint64_t i = 0; i < settings.threads; i++) {
    workers.emplace_back([&, i] { results[i] = RunThread(settings, not_ready); });
  }
  uint64_t launches = 0;
  double seconds = 0;
  bool right = true;
  for (uint64_t i = 0; i < settings.threads; i++) {
    workers[i].join();
    launches += results[i].launches;
    seconds = results[i].seconds > seconds ? results[i].seconds : seconds;
    right = right && results[i].right;
  }
  std::printf(
      "dispatches=%llu copies=0 bytes=0 threads=%llu rate=%.0f result=%s\n",
      static_cast<unsigned long long>(launches),
      static_cast<unsigned long long>(settings.threads),
      seconds > 0 ? static_cast<double>(launches - settings.threads) / seconds : 0.0,
      right ? "ok" : "wrong");
  return right ? 0 : 1;
}
