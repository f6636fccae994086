#include "tests/integration/simgpu/hsa_session.h"

#include <stdlib.h>

namespace rocattach {

HsaSession::HsaSession(Environment environment) : environment_(std::move(environment)) {
  for (const auto& [name, value] : environment_) setenv(name.c_str(), value.c_str(), 1);
  check(hsa_init(), "hsa_init");
  find_machine(&machine_);
  executable_ = load_kernels(&machine_);
  counter_ = Allocate<uint64_t>(machine_.host, 1);
  *counter_ = 0;
  increment_arguments_ = Allocate<uint64_t*>(machine_.kernarg, 32);
  *increment_arguments_ = counter_;
}

HsaSession::~HsaSession() {
  for (void* memory : allocations_) hsa_amd_memory_pool_free(memory);
  hsa_executable_destroy(executable_);
  hsa_shut_down();
  for (const auto& [name, value] : environment_) unsetenv(name.c_str());
}

kernel HsaSession::Kernel(const char* name) {
  return find_kernel(&machine_, executable_, name);
}

uint64_t SystemTimestamp() {
  uint64_t now = 0;
  check(hsa_system_get_info(HSA_SYSTEM_INFO_TIMESTAMP, &now), "hsa_system_get_info");
  return now;
}

std::vector<hsa_agent_t> GpuAgents() {
  std::vector<hsa_agent_t> agents;
  auto visit = [](hsa_agent_t agent, void* data) {
    hsa_device_type_t type;
    check(hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type),
          "hsa_agent_get_info");
    if (type == HSA_DEVICE_TYPE_GPU) {
      static_cast<std::vector<hsa_agent_t>*>(data)->push_back(agent);
    }
    return HSA_STATUS_SUCCESS;
  };
  check(hsa_iterate_agents(visit, &agents), "hsa_iterate_agents");
  return agents;
}

}  // namespace rocattach
