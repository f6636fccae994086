// hip_markers: steps of copies and a kernel, each in a range of roctx, with a marker
// halfway; prints the numbers of its calls at the end. roctx is loaded at run time;
// without it there are no ranges or markers.
#include <dlfcn.h>
#include <getopt.h>
#include <unistd.h>

#include <string>

#include "tests/simgpu/standin.h"
#include "tests/targets/hip_support.h"

__global__ void Negate(float* values, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) values[i] = -values[i];
}

// Negate on the simulated GPU.
struct NegateArguments {
  float* values;
  int count;
};
SIMGPU_STANDIN(_Z6NegatePfi) {
  const auto* arguments = static_cast<const NegateArguments*>(launch->kernarg);
  for (int i = 0; i < arguments->count; i++) {
    arguments->values[i] = -arguments->values[i];
  }
}

namespace {

constexpr char kHelp[] =
    "usage: hip_markers [-n STEPS] [-s MSEC] [-u FILE]\n"
    "  -n N  steps (default 10)\n"
    "  -s N  milliseconds between steps (default 0)\n"
    "  -u F  steps until this file exists, and then as many as -n says\n";
constexpr int kElements = 1024;
// Longer than the record of a call can hold.
constexpr char kLongMessage[] =
    "halfway through all of the steps, and much longer than anybody should write";

struct Roctx {
  void (*mark)(const char*) = nullptr;
  int (*push)(const char*) = nullptr;
  int (*pop)() = nullptr;
  uint64_t (*start)(const char*) = nullptr;
  void (*stop)(uint64_t) = nullptr;
};

template <typename Function>
void Find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
}

bool Load(Roctx* roctx) {
  void* library = dlopen("libroctx64.so.4", RTLD_LAZY);
  if (library == nullptr) return false;
  Find(library, "roctxMarkA", &roctx->mark);
  Find(library, "roctxRangePushA", &roctx->push);
  Find(library, "roctxRangePop", &roctx->pop);
  Find(library, "roctxRangeStartA", &roctx->start);
  Find(library, "roctxRangeStop", &roctx->stop);
  return roctx->mark && roctx->push && roctx->pop && roctx->start && roctx->stop;
}

// One step: copies to the device, negates, and copies back.
bool Step(float* device, int step) {
  float values[kElements];
  for (int i = 0; i < kElements; i++) values[i] = static_cast<float>(i + step);
  HIP_CHECK(hipMemcpy(device, values, sizeof(values), hipMemcpyHostToDevice));
  Negate<<<(kElements + 255) / 256, 256>>>(device, kElements);
  HIP_CHECK(hipGetLastError());
  HIP_CHECK(hipMemcpy(values, device, sizeof(values), hipMemcpyDeviceToHost));
  for (int i = 0; i < kElements; i++) {
    if (values[i] != -static_cast<float>(i + step)) return false;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t steps = 10, sleep_msec = 0;
  const char* until = nullptr;
  int option;
  while ((option = getopt(argc, argv, "n:s:u:h")) != -1) {
    if (option == 'n') {
      steps = ParseNumber("-n", optarg);
    } else if (option == 's') {
      sleep_msec = ParseNumber("-s", optarg);
    } else if (option == 'u') {
      until = optarg;
    } else {
      std::fputs(kHelp, option == 'h' ? stdout : stderr);
      return option == 'h' ? 0 : 2;
    }
  }
  int devices = 0;
  HIP_CHECK(hipGetDeviceCount(&devices));  // HIP initialises HSA here
  Roctx roctx;
  const bool markers = Load(&roctx);
  float* device;
  HIP_CHECK(hipMalloc(&device, kElements * sizeof(float)));
  const uint64_t all = markers ? roctx.start("all steps") : 0;
  bool right = true;
  bool waits = until != nullptr;
  for (uint64_t i = 0; waits || i < steps; i++) {
    if (waits && access(until, F_OK) == 0) {
      waits = false;
      steps += i;
    }
    if (sleep_msec != 0) usleep(static_cast<useconds_t>(sleep_msec * 1000));
    const std::string name = "step " + std::to_string(i);
    if (markers) roctx.push(name.c_str());
    right = Step(device, static_cast<int>(i)) && right;
    if (markers && i == steps / 2) roctx.mark(kLongMessage);
    if (markers) roctx.pop();
  }
  if (markers) roctx.stop(all);
  HIP_CHECK(hipFree(device));
  std::printf("steps=%llu launches=%llu copies=%llu markers=%d result=%s\n",
              static_cast<unsigned long long>(steps),
              static_cast<unsigned long long>(steps),
              static_cast<unsigned long long>(2 * steps), markers ? 1 : 0,
              right ? "ok" : "wrong");
  return right ? 0 : 1;
}
