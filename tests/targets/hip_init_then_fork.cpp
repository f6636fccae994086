// hip_init_then_fork: forks after HIP was used. The child ends through exit(), with all
// of HIP's and the runtime's destructors, or through exec; the parent goes on
// launching. hip_init_then_fork [exit|exec]
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

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

int main(int argc, char** argv) {
  constexpr unsigned kLaunches = 100;
  unsigned long long* counter;
  HIP_CHECK(hipHostMalloc(&counter, sizeof(*counter)));
  *counter = 0;
  for (unsigned i = 0; i < kLaunches; i++) Count<<<1, 64>>>(counter);
  HIP_CHECK(hipDeviceSynchronize());
  pid_t child = fork();
  if (child < 0) return 1;
  if (child == 0) {
    if (argc > 1 && std::strcmp(argv[1], "exec") == 0) {
      execlp("true", "true", static_cast<char*>(nullptr));
      _exit(99);
    }
    std::exit(0);
  }
  for (unsigned i = 0; i < kLaunches; i++) Count<<<1, 64>>>(counter);
  HIP_CHECK(hipDeviceSynchronize());
  int status = 0;
  bool right = waitpid(child, &status, 0) == child && WIFEXITED(status) &&
               WEXITSTATUS(status) == 0 && *counter == 2 * kLaunches;
  std::printf("dispatches=%u copies=0 bytes=0 result=%s\n", 2 * kLaunches,
              right ? "ok" : "wrong");
  return right ? 0 : 1;
}
