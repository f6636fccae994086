// The agents of the simulated GPU's topology, known before HSA is loaded.
#ifndef ROCATTACH_TESTS_SIMROCM_SDK_AGENTS_H_
#define ROCATTACH_TESTS_SIMROCM_SDK_AGENTS_H_

#include <hsa/hsa_api_trace.h>

#include <vector>

#include "userspace/collector/sdk/abi.h"

namespace simrocm::sdk {

// Read once from the driver's topology. Empty without one or if SIMROCM_NO_TOPOLOGY=1.
const std::vector<const rocattach_sdk_agent*>& Agents();

// nullptr if there is none.
const rocattach_sdk_agent* FindAgent(rocattach_sdk_agent_id id);

// Maps HSA's agents to ours. Aborts the process, as upstream does, if the topology has
// none but HSA has some.
void MapHsaAgents(const CoreApiTable& core);
// The agent that HSA's `agent` is mapped to; nullptr if there is none.
const rocattach_sdk_agent* AgentOf(hsa_agent_t agent);

}  // namespace simrocm::sdk

#endif  // ROCATTACH_TESTS_SIMROCM_SDK_AGENTS_H_
