// The machine's agents: their handles, dictionary ids and properties.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_HSA_AGENTS_H_
#define ROCATTACH_USERSPACE_COLLECTOR_HSA_AGENTS_H_

#include <stdint.h>

#include "userspace/collector/common/agent_ids.h"
#include "userspace/collector/common/dictionary.h"
#include "userspace/collector/hsa/functions.h"

namespace rocattach::collector {

struct Agent {
  hsa_agent_t handle;
  bool gpu;
  uint16_t id;   // dictionary id
  uint16_t gfx;  // hexadecimal digits of the ISA: 0x906, 0x90a, 0x1100; 0 unknown
};

// Filled while the collector is armed, and constant while the runtime is open.
class Agents {
 public:
  static constexpr uint32_t kMax = AgentIds::kMax;

  // Enumerates the agents into the dictionary. After a second hsa_init, agents that are
  // the same GPU or CPU keep their ids.
  hsa_status_t Load(const HsaFunctions& hsa, Dictionary* dictionary, AgentIds* ids);

  // nullptr if the handle is not an agent's.
  const Agent* Find(hsa_agent_t handle) const {
    for (uint32_t i = 0; i < count_; ++i) {
      if (agents_[i].handle.handle == handle.handle) return &agents_[i];
    }
    return nullptr;
  }
  uint32_t count() const { return count_; }
  const Agent& at(uint32_t index) const { return agents_[index]; }

 private:
  static hsa_status_t Visit(hsa_agent_t agent, void* data);
  void Add(const HsaFunctions& hsa, Dictionary* dictionary, AgentIds* ids,
           hsa_agent_t handle);

  Agent agents_[kMax] = {};
  uint32_t count_ = 0;
};

// "gfx90a" -> 0x90a, "gfx1100" -> 0x1100; 0 if `name` has another form.
uint16_t ParseGfx(const char* name);

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_HSA_AGENTS_H_
