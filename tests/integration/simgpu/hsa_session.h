// One hsa_init … hsa_shut_down on a simulated machine with given options, for one test.
#ifndef ROCATTACH_TESTS_INTEGRATION_SIMGPU_HSA_SESSION_H_
#define ROCATTACH_TESTS_INTEGRATION_SIMGPU_HSA_SESSION_H_

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/targets/hsa_support.h"

namespace rocattach {

using Environment = std::map<std::string, std::string>;

class HsaSession {
 public:
  // Sets `environment` (SIMGPU_* and HSA_*) for as long as the session lasts.
  explicit HsaSession(Environment environment = {});
  ~HsaSession();
  HsaSession(const HsaSession&) = delete;
  HsaSession& operator=(const HsaSession&) = delete;

  const machine& gpu() const { return machine_; }
  kernel Kernel(const char* name);
  template <typename T>
  T* Allocate(hsa_amd_memory_pool_t pool, size_t count) {
    allocations_.push_back(allocate(&machine_, pool, count * sizeof(T)));
    return static_cast<T*>(allocations_.back());
  }
  // The counter that the kernel "increment" adds to, and the kernel's argument block.
  uint64_t* counter() const { return counter_; }
  void* increment_arguments() const { return increment_arguments_; }

 private:
  Environment environment_;
  machine machine_;
  hsa_executable_t executable_;
  std::vector<void*> allocations_;
  uint64_t* counter_;
  uint64_t** increment_arguments_;
};

// The system clock as HSA reads it, in nanoseconds.
uint64_t SystemTimestamp();

// Returns all GPU agents.
std::vector<hsa_agent_t> GpuAgents();

}  // namespace rocattach

#endif  // ROCATTACH_TESTS_INTEGRATION_SIMGPU_HSA_SESSION_H_
