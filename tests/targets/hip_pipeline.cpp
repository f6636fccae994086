// hip_pipeline: batches flow through several streams. Each batch goes to the device, is
// scaled on one stream, shifted on the next (ordered by an event), summed, copied on
// the device, and copied back; all results are checked.
#include <getopt.h>
#include <unistd.h>

#include <memory>
#include <thread>
#include <vector>

#include "tests/simgpu/standin.h"
#include "tests/targets/hip_support.h"

__global__ void Scale(float* data, float factor, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) data[i] *= factor;
}

__global__ void Shift(float* data, float offset, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) data[i] += offset;
}

// Adds all elements to *sum, which must be 0. Runs as one block of 256; all sums are
// small whole numbers, so the order of additions does not matter.
__global__ void Sum(const float* data, float* sum, int count) {
  __shared__ float partial[256];
  float own = 0;
  for (int i = threadIdx.x; i < count; i += 256) own += data[i];
  partial[threadIdx.x] = own;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int i = 0; i < 256; i++) *sum += partial[i];
}

// The kernels on the simulated GPU.
struct ScaleArguments {
  float* data;
  float factor;
  int count;
};
SIMGPU_STANDIN(_Z5ScalePffi) {
  const auto* a = static_cast<const ScaleArguments*>(launch->kernarg);
  for (int i = 0; i < a->count; i++) a->data[i] *= a->factor;
}
SIMGPU_STANDIN(_Z5ShiftPffi) {
  const auto* a = static_cast<const ScaleArguments*>(launch->kernarg);
  for (int i = 0; i < a->count; i++) a->data[i] += a->factor;
}
struct SumArguments {
  const float* data;
  float* sum;
  int count;
};
SIMGPU_STANDIN(_Z3SumPKfPfi) {
  const auto* a = static_cast<const SumArguments*>(launch->kernarg);
  float sum = 0;
  for (int i = 0; i < a->count; i++) sum += a->data[i];
  *a->sum += sum;
}

namespace {

constexpr char kHelp[] =
    "usage: hip_pipeline [-n BATCHES] [-t THREADS] [--streams N] [--elements N]\n"
    "                    [--until FILE]\n"
    "  -n N          batches of each thread at least (default 20); a batch is three\n"
    "                kernels\n"
    "  -t N          threads (default 1)\n"
    "  --streams N   streams of each thread (default 3)\n"
    "  --elements N  elements of a batch (default 16384)\n"
    "  --until FILE  goes on until there is such a file\n";

struct Settings {
  uint64_t batches = 20;
  uint64_t threads = 1;
  uint64_t streams = 3;
  uint64_t elements = 16384;
  const char* until = nullptr;
};

struct Tally {
  uint64_t dispatches = 0;          // this program's own kernels
  uint64_t runtime_dispatches = 0;  // HIP's: one for each fill and each device copy
  uint64_t copies = 0;              // between host and device
  uint64_t bytes = 0;               // of these copies
  bool right = true;
};

// The resources of one stream.
struct Slot {
  hipStream_t stream;
  hipEvent_t scaled;
  hipEvent_t begin, end;
  float* host_in;
  float* host_out;
  float* host_sum;
  float* device;
  float* device_copy;
  float* device_sum;
  uint64_t batch;
  bool in_flight = false;
};

class Pipeline {
 public:
  explicit Pipeline(const Settings& settings)
      : count_(static_cast<int>(settings.elements)),
        bytes_(settings.elements * sizeof(float)),
        until_(settings.until),
        slots_(settings.streams) {
    for (Slot& slot : slots_) {
      HIP_CHECK(hipStreamCreateWithFlags(&slot.stream, hipStreamNonBlocking));
      HIP_CHECK(hipEventCreateWithFlags(&slot.scaled, hipEventDisableTiming));
      HIP_CHECK(hipEventCreate(&slot.begin));
      HIP_CHECK(hipEventCreate(&slot.end));
      HIP_CHECK(hipHostMalloc(&slot.host_in, bytes_));
      HIP_CHECK(hipHostMalloc(&slot.host_out, bytes_));
      HIP_CHECK(hipHostMalloc(&slot.host_sum, sizeof(float)));
      HIP_CHECK(hipMalloc(&slot.device, bytes_));
      HIP_CHECK(hipMalloc(&slot.device_copy, bytes_));
      HIP_CHECK(hipMalloc(&slot.device_sum, sizeof(float)));
    }
  }

  ~Pipeline() {
    for (Slot& slot : slots_) {
      HIP_CHECK(hipFree(slot.device_sum));
      HIP_CHECK(hipFree(slot.device_copy));
      HIP_CHECK(hipFree(slot.device));
      HIP_CHECK(hipHostFree(slot.host_sum));
      HIP_CHECK(hipHostFree(slot.host_out));
      HIP_CHECK(hipHostFree(slot.host_in));
      HIP_CHECK(hipEventDestroy(slot.end));
      HIP_CHECK(hipEventDestroy(slot.begin));
      HIP_CHECK(hipEventDestroy(slot.scaled));
      HIP_CHECK(hipStreamDestroy(slot.stream));
    }
  }

  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  Tally Run(uint64_t batches) {
    for (uint64_t batch = 0; batch < batches || GoesOn(); batch++) {
      Slot& slot = slots_[batch % slots_.size()];
      Finish(slot);
      Submit(slot, slots_[(batch + 1) % slots_.size()].stream, batch);
    }
    for (Slot& slot : slots_) Finish(slot);
    return tally_;
  }

 private:
  bool GoesOn() const { return until_ != nullptr && access(until_, F_OK) != 0; }

  static float Element(uint64_t batch, int i) {
    return static_cast<float>((batch + static_cast<uint64_t>(i)) % 5);
  }

  void Submit(Slot& slot, hipStream_t next, uint64_t batch) {
    const int blocks = (count_ + 255) / 256;
    for (int i = 0; i < count_; i++) slot.host_in[i] = Element(batch, i);
    HIP_CHECK(hipEventRecord(slot.begin, slot.stream));
    HIP_CHECK(hipMemcpyAsync(slot.device, slot.host_in, bytes_, hipMemcpyHostToDevice,
                             slot.stream));
    Scale<<<blocks, 256, 0, slot.stream>>>(slot.device, 2.0f, count_);
    HIP_CHECK(hipEventRecord(slot.scaled, slot.stream));
    // The second half runs on another stream, after the first.
    HIP_CHECK(hipStreamWaitEvent(next, slot.scaled, 0));
    Shift<<<blocks, 256, 0, next>>>(slot.device, 1.0f, count_);
    HIP_CHECK(hipMemsetAsync(slot.device_sum, 0, sizeof(float), next));
    Sum<<<1, 256, 0, next>>>(slot.device, slot.device_sum, count_);
    HIP_CHECK(hipMemcpyAsync(slot.device_copy, slot.device, bytes_,
                             hipMemcpyDeviceToDevice, next));
    HIP_CHECK(hipMemcpyAsync(slot.host_out, slot.device_copy, bytes_,
                             hipMemcpyDeviceToHost, next));
    HIP_CHECK(hipMemcpyAsync(slot.host_sum, slot.device_sum, sizeof(float),
                             hipMemcpyDeviceToHost, next));
    HIP_CHECK(hipEventRecord(slot.end, next));
    HIP_CHECK(hipGetLastError());
    slot.batch = batch;
    slot.in_flight = true;
    tally_.dispatches += 3;
    tally_.runtime_dispatches += 2;
    tally_.copies += 3;
    tally_.bytes += 2 * bytes_ + sizeof(float);
  }

  void Finish(Slot& slot) {
    if (!slot.in_flight) return;
    HIP_CHECK(hipEventSynchronize(slot.end));
    float elapsed = -1.0f;
    HIP_CHECK(hipEventElapsedTime(&elapsed, slot.begin, slot.end));
    bool right = elapsed >= 0.0f;
    float sum = 0.0f;
    for (int i = 0; i < count_; i++) {
      float expected = Element(slot.batch, i) * 2.0f + 1.0f;
      right = right && slot.host_out[i] == expected;
      sum += expected;
    }
    tally_.right = tally_.right && right && *slot.host_sum == sum;
    slot.in_flight = false;
  }

  int count_;
  size_t bytes_;
  const char* until_;
  std::vector<Slot> slots_;
  Tally tally_;
};

Settings Parse(int argc, char** argv) {
  Settings settings;
  static const option options[] = {{"streams", required_argument, nullptr, 's'},
                                   {"elements", required_argument, nullptr, 'e'},
                                   {"until", required_argument, nullptr, 'u'},
                                   {"help", no_argument, nullptr, 'h'},
                                   {nullptr, 0, nullptr, 0}};
  int parsed;
  while ((parsed = getopt_long(argc, argv, "n:t:h", options, nullptr)) != -1) {
    switch (parsed) {
      case 'n':
        settings.batches = ParseNumber("-n", optarg);
        break;
      case 't':
        settings.threads = ParseNumber("-t", optarg);
        break;
      case 's':
        settings.streams = ParseNumber("--streams", optarg);
        break;
      case 'e':
        settings.elements = ParseNumber("--elements", optarg);
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
  // Sums stay below 2^24, where a float still counts exactly.
  if (settings.threads == 0 || settings.streams == 0 || settings.elements == 0 ||
      settings.elements > 1000000) {
    std::fputs("-t, --streams, --elements: not 0; --elements at most 1000000\n",
               stderr);
    std::exit(2);
  }
  return settings;
}

}  // namespace

int main(int argc, char** argv) {
  const Settings settings = Parse(argc, argv);
  std::vector<Tally> tallies(settings.threads);
  std::vector<std::thread> workers;
  for (uint64_t i = 0; i < settings.threads; i++) {
    workers.emplace_back([&settings, &tallies, i] {
      tallies[i] = Pipeline(settings).Run(settings.batches);
    });
  }
  Tally total;
  for (uint64_t i = 0; i < settings.threads; i++) {
    workers[i].join();
    total.dispatches += tallies[i].dispatches;
    total.runtime_dispatches += tallies[i].runtime_dispatches;
    total.copies += tallies[i].copies;
    total.bytes += tallies[i].bytes;
    total.right = total.right && tallies[i].right;
  }
  std::printf(
      "dispatches=%llu copies=%llu bytes=%llu runtime_dispatches=%llu result=%s\n",
      static_cast<unsigned long long>(total.dispatches),
      static_cast<unsigned long long>(total.copies),
      static_cast<unsigned long long>(total.bytes),
      static_cast<unsigned long long>(total.runtime_dispatches),
      total.right ? "ok" : "wrong");
  return total.right ? 0 : 1;
}
