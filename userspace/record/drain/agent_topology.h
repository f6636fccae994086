// Properties of the agents of processes, from the kernel driver's topology.
#ifndef ROCATTACH_USERSPACE_RECORD_DRAIN_AGENT_TOPOLOGY_H_
#define ROCATTACH_USERSPACE_RECORD_DRAIN_AGENT_TOPOLOGY_H_

#include <cstdint>
#include <map>
#include <string>

#include "schemas/records.pb.h"

namespace rocattach {

// Reads each node once: a node keeps its properties as long as the driver is loaded.
// Not thread-safe.
class AgentTopology {
 public:
  // `directory`: normally /sys/class/kfd/kfd/topology.
  explicit AgentTopology(std::string directory) : directory_(std::move(directory)) {}

  // Adds the properties and the model name of the agent's node. Leaves the agent as it
  // is if the node cannot be read or is another device: the runtime of the process may
  // number its nodes differently.
  void Describe(v1::Agent* agent);

 private:
  const v1::Agent& Read(uint32_t node);

  const std::string directory_;
  std::map<uint32_t, v1::Agent> nodes_;  // properties and model name only
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_DRAIN_AGENT_TOPOLOGY_H_
