// Dictionary ids of the machine's agents, for both backends.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_COMMON_AGENT_IDS_H_
#define ROCATTACH_USERSPACE_COLLECTOR_COMMON_AGENT_IDS_H_

#include <stdint.h>

namespace rocattach::collector {

// Keyed by the kernel driver's node number. Filled while the runtime starts and
// constant while it is open; ids are kept for the life of the process, so that an agent
// keeps its id when the runtime starts again, or when rocprofiler-sdk lists it as well.
class AgentIds {
 public:
  // Eight GPUs of eight partitions each, and the CPUs.
  static constexpr uint32_t kMax = 128;

  // Returns 0 if the agent is not in the dictionary.
  uint16_t Find(uint32_t node_id) const {
    for (uint32_t i = 0; i < count_; ++i) {
      if (nodes_[i] == node_id + 1) return static_cast<uint16_t>(i + 1);
    }
    return 0;
  }

  // Stores the agent's id, which must be the dictionary's next one for agents.
  void Add(uint32_t node_id, uint16_t id) {
    if (count_ < kMax && id == count_ + 1) nodes_[count_++] = node_id + 1;
  }

 private:
  uint32_t nodes_[kMax] = {};  // node number + 1 of dictionary id i + 1
  uint32_t count_ = 0;
};

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_COMMON_AGENT_IDS_H_
