// hip_late: a HIP program that a profiler attaches to while it runs. Until then, its
// threads launch Before; after that, each launches After a known number of times, on
// the streams that it has used from the start.
#include <dlfcn.h>
#include <getopt.h>
#include <link.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <thread>
#include <vector>

#include "tests/simgpu/standin.h"
#include "tests/targets/hip_support.h"

__global__ void Before(unsigned long long* counter) {
  if (threadIdx.x == 0 && blockIdx.x == 0) atomicAdd(counter, 1ull);
}
__global__ void After(unsigned long long* counter) {
  if (threadIdx.x == 0 && blockIdx.x == 0) atomicAdd(counter, 1ull);
}

namespace {

void CountOne(const simgpu_launch* launch) {
  auto* counter = *static_cast<unsigned long long* const*>(launch->kernarg);
  __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

}  // namespace

// The kernels on the simulated GPU.
SIMGPU_STANDIN(_Z6BeforePy) {
  CountOne(launch);
}
SIMGPU_STANDIN(_Z5AfterPy) {
  CountOne(launch);
}

namespace {

constexpr char kHelp[] =
    "usage: hip_late [-m LAUNCHES] [-t THREADS] [-s STREAMS] [--until FILE | --load]\n"
    "  -m N          launches of After by each thread (default 1000)\n"
    "  -t N          threads (default 1)\n"
    "  -s N          streams, which the threads share (default: one each)\n"
    "  -d N          device (default 0)\n"
    "  --new         half of After goes to streams created after the change\n"
    "  --beside FILE loads this copy of the HSA runtime as well, and does not use it\n"
    "  --idle        launches nothing while it waits for the change\n"
    "  --listing F   its first thread lists the libraries until there is a file F:\n"
    "                nothing can be loaded meanwhile\n"
    "  --urgent      handles SIGURG, and prints how often\n"
    "  --until FILE  the change comes when there is such a file\n"
    "  --ready FILE  creates FILE when every thread has launched Before\n"
    "  --load        the change: calls collector_test_load, which is preloaded\n";

struct Settings {
  uint64_t after = 1000, threads = 1, streams = 0, device = 0;
  const char* until = nullptr;
  const char* ready = nullptr;
  const char* beside = nullptr;
  const char* listing = nullptr;
  bool load = false, fresh = false, idle = false, urgent = false;
};

Settings settings;
std::atomic<uint64_t> warm_threads;
std::atomic<bool> changed;
std::atomic<int> urgent_signals;

struct Worker {
  hipStream_t stream;
  unsigned long long* counter;
  uint64_t before = 0, after = 0;
  bool right = false;
};

void Launch(Worker* worker, hipStream_t stream, bool after) {
  if (after) {
    After<<<1, 64, 0, stream>>>(worker->counter);
    ++worker->after;
  } else {
    Before<<<1, 64, 0, stream>>>(worker->counter);
    ++worker->before;
  }
  if ((worker->before + worker->after) % 64 == 0) {
    HIP_CHECK(hipStreamSynchronize(stream));
  }
}

void RunThread(Worker* worker) {
  HIP_CHECK(hipSetDevice(static_cast<int>(settings.device)));
  HIP_CHECK(hipHostMalloc(&worker->counter, sizeof(*worker->counter)));
  *worker->counter = 0;
  for (int i = 0; i < 100; ++i) Launch(worker, worker->stream, /*after=*/false);
  HIP_CHECK(hipStreamSynchronize(worker->stream));
  ++warm_threads;
  while (!changed) {
    if (settings.idle) {
      usleep(1000);
    } else {
      Launch(worker, worker->stream, /*after=*/false);
    }
  }
  hipStream_t fresh = worker->stream;
  if (settings.fresh) {
    HIP_CHECK(hipStreamSynchronize(worker->stream));
    HIP_CHECK(hipStreamCreateWithFlags(&fresh, hipStreamNonBlocking));
  }
  for (uint64_t i = 0; i < settings.after; ++i) {
    Launch(worker, i % 2 == 0 ? worker->stream : fresh, /*after=*/true);
    if (settings.fresh) HIP_CHECK(hipDeviceSynchronize());
  }
  HIP_CHECK(hipStreamSynchronize(worker->stream));
  HIP_CHECK(hipStreamSynchronize(fresh));
  if (settings.fresh) HIP_CHECK(hipStreamDestroy(fresh));
  worker->right = *worker->counter == worker->before + worker->after;
}

void Load() {
  void (*load)();
  *reinterpret_cast<void**>(&load) = dlsym(RTLD_DEFAULT, "collector_test_load");
  if (load != nullptr) load();
}

// Waits for the change, while the threads launch.
void WaitForChange() {
  while (warm_threads < settings.threads) usleep(1000);
  if (settings.ready != nullptr) {
    FILE* file = std::fopen(settings.ready, "w");
    if (file != nullptr) std::fclose(file);
  }
  if (settings.load) Load();
  if (settings.listing != nullptr) {
    dl_iterate_phdr(
        [](dl_phdr_info*, size_t, void*) {
          while (access(settings.listing, F_OK) != 0) usleep(1000);
          return 1;
        },
        nullptr);
  }
  while (settings.until != nullptr && access(settings.until, F_OK) != 0) usleep(1000);
  changed = true;
}

void Parse(int argc, char** argv) {
  static const option options[] = {{"until", required_argument, nullptr, 'u'},
                                   {"ready", required_argument, nullptr, 'r'},
                                   {"beside", required_argument, nullptr, 'b'},
                                   {"listing", required_argument, nullptr, 'k'},
                                   {"load", no_argument, nullptr, 'l'},
                                   {"new", no_argument, nullptr, 'f'},
                                   {"idle", no_argument, nullptr, 'i'},
                                   {"urgent", no_argument, nullptr, 'g'},
                                   {"help", no_argument, nullptr, 'h'},
                                   {nullptr, 0, nullptr, 0}};
  int parsed;
  while ((parsed = getopt_long(argc, argv, "m:t:s:d:h", options, nullptr)) != -1) {
    switch (parsed) {
      case 'm':
        settings.after = ParseNumber("-m", optarg);
        break;
      case 't':
        settings.threads = ParseNumber("-t", optarg);
        break;
      case 's':
        settings.streams = ParseNumber("-s", optarg);
        break;
      case 'd':
        settings.device = ParseNumber("-d", optarg);
        break;
      case 'u':
        settings.until = optarg;
        break;
      case 'r':
        settings.ready = optarg;
        break;
      case 'b':
        settings.beside = optarg;
        break;
      case 'k':
        settings.listing = optarg;
        break;
      case 'l':
        settings.load = true;
        break;
      case 'f':
        settings.fresh = true;
        break;
      case 'i':
        settings.idle = true;
        break;
      case 'g':
        settings.urgent = true;
        break;
      case 'h':
        std::fputs(kHelp, stdout);
        std::exit(0);
      default:
        std::exit(2);
    }
  }
  if (settings.streams == 0) settings.streams = settings.threads;
}

}  // namespace

int main(int argc, char** argv) {
  Parse(argc, argv);
  if (settings.urgent) std::signal(SIGURG, [](int) { ++urgent_signals; });
  if (settings.beside != nullptr &&
      dlopen(settings.beside, RTLD_NOW | RTLD_LOCAL) == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 2;
  }
  HIP_CHECK(hipSetDevice(static_cast<int>(settings.device)));
  std::vector<hipStream_t> streams(settings.streams);
  for (hipStream_t& stream : streams) {
    HIP_CHECK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  }
  std::vector<Worker> workers(settings.threads);
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < settings.threads; ++i) {
    workers[i].stream = streams[i % settings.streams];
    threads.emplace_back(RunThread, &workers[i]);
  }
  WaitForChange();
  uint64_t before = 0, after = 0;
  bool right = true;
  for (uint64_t i = 0; i < settings.threads; ++i) {
    threads[i].join();
    before += workers[i].before;
    after += workers[i].after;
    right = right && workers[i].right;
    HIP_CHECK(hipHostFree(workers[i].counter));
  }
  for (hipStream_t stream : streams) HIP_CHECK(hipStreamDestroy(stream));
  if (settings.urgent) std::printf("urgent=%d\n", urgent_signals.load());
  std::printf("before=%llu after=%llu result=%s\n",
              static_cast<unsigned long long>(before),
              static_cast<unsigned long long>(after), right ? "ok" : "wrong");
  return right ? 0 : 1;
}
