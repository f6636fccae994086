// The counters that the simulated GPUs have: names, blocks, limits, dimensions. A
// subset of those of the real architectures, with the real names and the real number
// of counters that a block can count at once.
#ifndef ROCATTACH_TESTS_SIMROCM_SDK_CATALOG_H_
#define ROCATTACH_TESTS_SIMROCM_SDK_CATALOG_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "userspace/collector/sdk/abi.h"

namespace simrocm::sdk {

// Dimensions of a counter, in the order in which instances are numbered.
struct Dimension {
  rocattach_sdk_dimension_id id;
  const char* name;
  size_t size;
};

// A counter of an agent.
struct Counter {
  uint64_t id = 0;
  std::string name, description, block, expression;
  bool constant = false;
  bool derived = false;
  double constant_value = 0;
  std::vector<Dimension>
      dimensions;  // derived: those of the result, empty for one value
  size_t instances = 1;
};

// The counters of an agent. Immutable after it is made, except for created counters.
struct AgentCounters {
  std::map<std::string, std::shared_ptr<const Counter>> by_name;
  std::vector<rocattach_sdk_counter_id> ids;  // for the iteration, stable order
};

// The counters of a GPU; nullptr for agents that have none.
const AgentCounters* CountersOf(const rocattach_sdk_agent& agent);

// Any agent's counter of this id; nullptr if there is none. A name has the same id on
// all architectures; the description is from the agent with the lowest node.
std::shared_ptr<const Counter> FindCounter(uint64_t id);
// The counter of this id on this agent; nullptr if the agent lacks it.
std::shared_ptr<const Counter> FindCounter(uint64_t id,
                                           const rocattach_sdk_agent& agent);

// Maximum counters of a block in one pass.
unsigned BlockLimit(const std::string& block);

// Makes a derived counter on one agent. 0 if the expression cannot be parsed or the
// name is taken.
uint64_t CreateCounter(const rocattach_sdk_agent& agent, const std::string& name,
                       const std::string& expression, const std::string& description);

// Sets definitions in addition to the built-in ones (`append`), or instead of them,
// which is not simulated: they are ignored. False, as upstream, once counters have been
// looked up. At the lookup, a definition that cannot be parsed or that uses an unknown
// counter ends the process.
bool SetDefinitions(std::string yaml, bool append);

// Instance ids: the counter in the upper 16 bits, positions below.
// Opaque to tools.
uint64_t EncodeInstance(uint64_t counter, const std::vector<Dimension>& dimensions,
                        size_t instance);
uint64_t CounterOfInstance(uint64_t instance_id);
size_t PositionOfInstance(uint64_t instance_id, rocattach_sdk_dimension_id dimension);

}  // namespace simrocm::sdk

#endif  // ROCATTACH_TESTS_SIMROCM_SDK_CATALOG_H_
