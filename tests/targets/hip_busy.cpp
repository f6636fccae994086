// hip_busy: keeps streams busy with kernels and copies from several threads, for as
// long as requested. The kernels count; copied data is copied back and compared.
#include <getopt.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
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

constexpr size_t kBytes = 4096;
constexpr uint64_t kLaunchesPerCopy = 50;

constexpr char kHelp[] =
    "usage: hip_busy [-n LAUNCHES] [-t THREADS] [--until FILE]\n"
    "  -n N          launches of each thread at least (default 1000); after 50 of "
    "them\n"
    "                comes a copy there and one back\n"
    "  -t N          threads, each with a stream (default 2)\n"
    "  --until FILE  goes on until there is such a file\n";

struct Settings {
  uint64_t launches = 1000, threads = 2;
  const char* until = nullptr;
};

struct Tally {
  uint64_t launches = 0, copies = 0;
  double seconds = 0;
  bool right = true;
};

bool IsOver(const Settings& settings, uint64_t launches) {
  if (launches < settings.launches) return false;
  return settings.until == nullptr || access(settings.until, F_OK) == 0;
}

Tally RunThread(const Settings& settings) {
  Tally tally;
  hipStream_t stream;
  unsigned long long* counter;
  unsigned char *there, *back, *device;
  HIP_CHECK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  HIP_CHECK(hipHostMalloc(&counter, sizeof(*counter)));
  HIP_CHECK(hipHostMalloc(&there, kBytes));
  HIP_CHECK(hipHostMalloc(&back, kBytes));
  HIP_CHECK(hipMalloc(&device, kBytes));
  *counter = 0;
  const auto start = std::chrono::steady_clock::now();
  while (!IsOver(settings, tally.launches)) {
    for (uint64_t i = 0; i < kLaunchesPerCopy; i++) {
      Count<<<1, 64, 0, stream>>>(counter);
      tally.launches++;
    }
    std::memset(there, static_cast<int>(tally.copies + 1), kBytes);
    std::memset(back, 0, kBytes);
    HIP_CHECK(hipMemcpyAsync(device, there, kBytes, hipMemcpyHostToDevice, stream));
    HIP_CHECK(hipMemcpyAsync(back, device, kBytes, hipMemcpyDeviceToHost, stream));
    HIP_CHECK(hipStreamSynchronize(stream));
    tally.copies += 2;
    tally.right = tally.right && std::memcmp(there, back, kBytes) == 0 &&
                  *counter == tally.launches;
  }
  tally.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  HIP_CHECK(hipFree(device));
  HIP_CHECK(hipHostFree(back));
  HIP_CHECK(hipHostFree(there));
  HIP_CHECK(hipHostFree(counter));
  HIP_CHECK(hipStreamDestroy(stream));
  return tally;
}

Settings Parse(int argc, char** argv) {
  Settings settings;
  static const option options[] = {{"until", required_argument, nullptr, 'u'},
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
      case 'u':
        settings.until = optarg;
        break;
      case 'h':
        std::fputs(kHelp, stdout);
        std::exit(0);
      default:
        std::exit(2);
    }
  }
  return settings;
}

}  // namespace

int main(int argc, char** argv) {
  const Settings settings = Parse(argc, argv);
  std::vector<Tally> tallies(settings.threads);
  std::vector<std::thread> threads;
  for (Tally& tally : tallies) {
    threads.emplace_back([&] { tally = RunThread(settings); });
  }
  Tally all;
  for (uint64_t i = 0; i < settings.threads; i++) {
    threads[i].join();
    all.launches += tallies[i].launches;
    all.copies += tallies[i].copies;
    all.right = all.right && tallies[i].right;
    all.seconds = tallies[i].seconds > all.seconds ? tallies[i].seconds : all.seconds;
  }
  std::printf("dispatches=%llu copies=%llu bytes=%llu rate=%.0f result=%s\n",
              static_cast<unsigned long long>(all.launches),
              static_cast<unsigned long long>(all.copies),
              static_cast<unsigned long long>(all.copies * kBytes),
              static_cast<double>(all.launches) / all.seconds,
              all.right ? "ok" : "wrong");
  return all.right ? 0 : 1;
}
