// The agents of the simulated GPU's topology, known before HSA is.
#ifndef ROCATTACH_TESTS_SIMROCM_SDK_AGENTS_H_
#define ROCATTACH_TESTS_SIMROCM_SDK_AGENTS_H_

#include <hsa/hsa_api_trace.h>

#include <vector>

#include "userspace/collector/sdk/abi.h"

namespace simrocm::sdk {

// Read from the driver's topology, once. Empty if there is no topology or SIMROCM_NO_TOPOLOGY=1.
const std::vector<const rocattach_sdk_agent*>& Agents();

// nullptr if there is none.
const rocattach_sdk_agent* FindAgent(rocattach_sdk_agent_id id);

// Relates HSA's agents to ours. Aborts the process, as upstream does, if the topology
// has none while HSA has some.
void MapHsaAgents(const CoreApiTable& core);
// nullptr if HSA does not know it.
const rocattach_sdk_agent* AgentOf(hsa_agent_t agent);

}  // namespace simrocm::sdk

#endif  // ROCATTACH_TESTS_SIMROCM_SDK_AGENTS_H_
