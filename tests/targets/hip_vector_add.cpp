// hip_vector_add: adds two vectors, again and again, from one or several threads, each
// with its own stream and buffers, and checks every element at the end.
#include <getopt.h>

#include <thread>
#include <vector>

#include "tests/simgpu/standin.h"
#include "tests/targets/hip_support.h"

__global__ void VectorAdd(const float* a, const float* b, float* c, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) c[i] = a[i] + b[i];
}

// VectorAdd on the simulated GPU.
struct VectorAddArguments {
  const float* a;
  const float* b;
  float* c;
  int count;
};
SIMGPU_STANDIN(_Z9VectorAddPKfS0_Pfi) {
  const auto* arguments = static_cast<const VectorAddArguments*>(launch->kernarg);
  for (int i = 0; i < arguments->count; i++) {
    arguments->c[i] = arguments->a[i] + arguments->b[i];
  }
}

namespace {

constexpr char kHelp[] =
    "usage: hip_vector_add [-n LAUNCHES] [-t THREADS] [-s ELEMENTS]\n"
    "  -n N  launches, shared by the threads (default 100)\n"
    "  -t N  threads (default 1)\n"
    "  -s N  elements of each vector (default 4096)\n";

struct Tally {
  uint64_t dispatches = 0;
  uint64_t copies = 0;
  uint64_t bytes = 0;
  bool right = true;
};

Tally RunThread(uint64_t launches, int elements) {
  Tally tally;
  const size_t bytes = elements * sizeof(float);
  std::vector<float> a(elements), b(elements), c(elements, -1.0f);
  for (int i = 0; i < elements; i++) {
    a[i] = static_cast<float>(i);
    b[i] = static_cast<float>(2 * i);
  }
  hipStream_t stream;
  HIP_CHECK(hipStreamCreate(&stream));
  float *device_a, *device_b, *device_c;
  HIP_CHECK(hipMalloc(&device_a, bytes));
  HIP_CHECK(hipMalloc(&device_b, bytes));
  HIP_CHECK(hipMalloc(&device_c, bytes));
  HIP_CHECK(hipMemcpyAsync(device_a, a.data(), bytes, hipMemcpyHostToDevice, stream));
  HIP_CHECK(hipMemcpyAsync(device_b, b.data(), bytes, hipMemcpyHostToDevice, stream));
  for (uint64_t i = 0; i < launches; i++) {
    VectorAdd<<<(elements + 255) / 256, 256, 0, stream>>>(device_a, device_b, device_c,
                                                          elements);
    tally.dispatches++;
  }
  HIP_CHECK(hipGetLastError());
  HIP_CHECK(hipMemcpyAsync(c.data(), device_c, bytes, hipMemcpyDeviceToHost, stream));
  HIP_CHECK(hipStreamSynchronize(stream));
  tally.copies = 3;
  tally.bytes = 3 * bytes;
  for (int i = 0; i < elements; i++) tally.right = tally.right && c[i] == a[i] + b[i];
  if (launches == 0) tally.right = true;
  HIP_CHECK(hipFree(device_a));
  HIP_CHECK(hipFree(device_b));
  HIP_CHECK(hipFree(device_c));
  HIP_CHECK(hipStreamDestroy(stream));
  return tally;
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t launches = 100, threads = 1, elements = 4096;
  int option;
  while ((option = getopt(argc, argv, "n:t:s:h")) != -1) {
    switch (option) {
      case 'n':
        launches = ParseNumber("-n", optarg);
        break;
      case 't':
        threads = ParseNumber("-t", optarg);
        break;
      case 's':
        elements = ParseNumber("-s", optarg);
        break;
      case 'h':
        std::fputs(kHelp, stdout);
        return 0;
      default:
        return 2;
    }
  }
  if (threads == 0 || elements == 0 || elements > (1u << 28)) {
    std::fputs("-t and -s must not be 0, -s at most 2^28\n", stderr);
    return 2;
  }
  std::vector<Tally> tallies(threads);
  std::vector<std::thread> workers;
  for (uint64_t i = 0; i < threads; i++) {
    uint64_t share = launches / threads + (i < launches % threads ? 1 : 0);
    workers.emplace_back([&tallies, i, share, elements] {
      tallies[i] = RunThread(share, static_cast<int>(elements));
    });
  }
  Tally total;
  for (uint64_t i = 0; i < threads; i++) {
    workers[i].join();
    total.dispatches += tallies[i].dispatches;
    total.copies += tallies[i].copies;
    total.bytes += tallies[i].bytes;
    total.right = total.right && tallies[i].right;
  }
  std::printf("dispatches=%llu copies=%llu bytes=%llu result=%s\n",
              static_cast<unsigned long long>(total.dispatches),
              static_cast<unsigned long long>(total.copies),
              static_cast<unsigned long long>(total.bytes),
              total.right ? "ok" : "wrong");
  return total.right ? 0 : 1;
}
