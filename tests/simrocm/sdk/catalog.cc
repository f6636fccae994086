#include "tests/simrocm/sdk/catalog.h"

#include <cstdio>
#include <mutex>
#include <sstream>
#include <utility>

#include "tests/simrocm/call_log.h"
#include "tests/simrocm/environment.h"
#include "tests/simrocm/sdk/agents.h"
#include "tests/simrocm/sdk/counter_names.h"
#include "tests/simrocm/sdk/definitions.h"
#include "tests/simrocm/sdk/expression.h"
#include "tests/simrocm/sdk/version.h"

namespace simrocm::sdk {
namespace {

constexpr rocattach_sdk_dimension_id kXcc = 1, kShaderEngine = 3, kInstance = 7;

struct Block {
  const char* name;
  unsigned limit;  // counters at once
};

// The number of counters each block can count at the same time on gfx9.
constexpr Block kBlocks[] = {{"SQ", 8},  {"GRBM", 2}, {"SPI", 6}, {"TA", 2}, {"TD", 2},
                             {"TCP", 4}, {"TCC", 4},  {"CPC", 2}, {"CPF", 2}};

struct Catalog {
  std::mutex mutex;
  std::string definitions;                      // YAML that a tool has loaded
  std::map<std::string, uint64_t> ids;          // by name, all architectures
  std::map<uint64_t, AgentCounters*> by_agent;  // by agent id
};

Catalog& Get() {
  static auto* catalog = new Catalog;
  return *catalog;
}

uint64_t IdOf(Catalog& catalog, const std::string& name) {
  return catalog.ids.emplace(name, catalog.ids.size() + 1).first->second;
}

std::vector<Dimension> DimensionsOf(const std::string& block,
                                    const rocattach_sdk_agent& agent) {
  const bool large = agent.gfx_target_version == 90010;
  std::vector<Dimension> dimensions = {
      {kXcc, "DIMENSION_XCC", agent.num_xcc != 0 ? agent.num_xcc : 1}};
  const Dimension engines = {kShaderEngine, "DIMENSION_SHADER_ENGINE",
                             agent.num_shader_banks};
  if (block == "SQ" || block == "SPI" || block == "TA" || block == "TD" ||
      block == "TCP") {
    dimensions.push_back(engines);
  }
  if (block == "TA" || block == "TD" || block == "TCP") {
    dimensions.push_back({kInstance, "DIMENSION_INSTANCE", 16});
  }
  if (block == "TCC") {
    dimensions.push_back({kInstance, "DIMENSION_INSTANCE", large ? 32u : 16u});
  }
  return dimensions;
}

// The bits of an instance id for the position in a dimension: six each before SDK 1.3.
struct Bits {
  uint64_t shift, width;
};

Bits BitsOf(rocattach_sdk_dimension_id dimension) {
  if (!TheVersion().IsAtLeast(3, 0)) return {(dimension - 1) * 6, 6};
  switch (dimension) {
    case kInstance:
      return {0, 12};
    case kShaderEngine:
      return {12, 5};
    case kXcc:
      return {17, 4};
    default:
      return {21, 0};
  }
}

void Add(AgentCounters* counters, Counter counter) {
  // Like an older SDK that does not know this counter.
  static const std::string lacking = GetString("SIMROCM_LACKS_COUNTER");
  if (counter.name == lacking) return;
  counter.instances = 1;
  for (const Dimension& dimension : counter.dimensions) {
    counter.instances *= dimension.size;
  }
  counters->ids.push_back({counter.id});
  const std::string name = counter.name;
  counters->by_name[name] = std::make_shared<const Counter>(std::move(counter));
}

void AddHardware(Catalog& catalog, const rocattach_sdk_agent& agent,
                 AgentCounters* counters) {
  for (const NamedBlock& block : kNamedBlocks) {
    std::istringstream names(block.names);
    for (std::string name; names >> name;) {
      // Ids are assigned for both architectures, so one that an agent lacks is known.
      uint64_t id = IdOf(catalog, name);
      if (block.only_gfx90a && agent.gfx_target_version != 90010) continue;
      Counter counter;
      counter.id = id;
      counter.name = name;
      counter.description =
          "Simulated counter of the block " + std::string(block.block);
      counter.block = block.block;
      counter.dimensions = DimensionsOf(block.block, agent);
      Add(counters, std::move(counter));
    }
  }
}

void AddConstants(Catalog& catalog, const rocattach_sdk_agent& agent,
                  AgentCounters* counters) {
  const std::pair<const char*, double> constants[] = {
      {"CU_NUM", agent.cu_count},
      {"SE_NUM", agent.num_shader_banks},
      {"SIMD_NUM", agent.simd_count},
      {"XCC_NUM", agent.num_xcc},
      {"MAX_WAVE_SIZE", agent.wave_front_size},
  };
  for (const auto& [name, value] : constants) {
    Counter counter;
    counter.id = IdOf(catalog, name);
    counter.name = name;
    counter.description = "Constant of the hardware";
    counter.constant = true;
    counter.constant_value = value;
    Add(counters, std::move(counter));
  }
}

bool AddDerived(Catalog& catalog, AgentCounters* counters, const std::string& name,
                const std::string& expression, const std::string& description) {
  auto known = [&](const std::string& used) {
    auto found = counters->by_name.find(used);
    return found != counters->by_name.end() && !found->second->derived;
  };
  auto used = NamesIn(expression, known);
  if (!used) return false;
  // An evaluation with arbitrary values gives the number of instances of the result.
  auto shape = Evaluate(expression, [&](const std::string& term) {
    return std::optional(std::vector<double>(counters->by_name[term]->instances, 1.0));
  });
  if (!shape) return false;
  Counter counter;
  counter.id = IdOf(catalog, name);
  counter.name = name;
  counter.expression = expression;
  counter.description = description;
  counter.derived = true;
  for (const std::string& term : *used) {
    const Counter& operand = *counters->by_name[term];
    if (shape->size() > 1 && operand.instances == shape->size()) {
      counter.dimensions = operand.dimensions;
    }
  }
  Add(counters, std::move(counter));
  return true;
}

// The architecture's name, as in definitions.
std::string ArchitectureOf(const rocattach_sdk_agent& agent) {
  char name[40];
  snprintf(name, sizeof(name), "gfx%u%x%x", agent.gfx_target_version / 10000,
           agent.gfx_target_version / 100 % 100, agent.gfx_target_version % 100);
  return name;
}

// As upstream, an error ends the process.
void AddDefined(Catalog& catalog, const rocattach_sdk_agent& agent,
                AgentCounters* counters) {
  if (catalog.definitions.empty()) return;
  auto definitions = ParseDefinitions(catalog.definitions);
  if (!definitions) Fatal("counter definitions cannot be parsed");
  const std::string architecture = ArchitectureOf(agent);
  const std::string lacking = GetString("SIMROCM_LACKS_COUNTER");
  for (const CounterDefinition& definition : *definitions) {
    // An SDK that lacks the counter does not have it in its own file either.
    const bool lacks =
        !lacking.empty() && definition.expression.find(lacking) != std::string::npos;
    if (definition.architectures.count(architecture) != 0 && !lacks &&
        counters->by_name.count(definition.name) == 0 &&
        !AddDerived(catalog, counters, definition.name, definition.expression,
                    definition.description)) {
      Fatal("AST was not generated for %s:%s", architecture.c_str(),
            definition.name.c_str());
    }
  }
}

// Call with the mutex held.
AgentCounters* Load(Catalog& catalog, const rocattach_sdk_agent& agent) {
  if (agent.type != ROCATTACH_SDK_AGENT_GPU) return nullptr;
  AgentCounters*& counters = catalog.by_agent[agent.id.handle];
  if (counters != nullptr) return counters;
  counters = new AgentCounters;
  AddHardware(catalog, agent, counters);
  AddConstants(catalog, agent, counters);
  for (const DerivedDefinition& definition : kDerived) {
    AddDerived(catalog, counters, definition.name, definition.expression,
               definition.description);
  }
  AddDefined(catalog, agent, counters);
  return counters;
}

std::shared_ptr<const Counter> FindById(const AgentCounters& counters, uint64_t id) {
  for (const auto& [name, counter] : counters.by_name) {
    if (counter->id == id) return counter;
  }
  return nullptr;
}

}  // namespace

const AgentCounters* CountersOf(const rocattach_sdk_agent& agent) {
  // The SDK looks counters up by the agent's name.
  if (agent.name[0] == '\0') return nullptr;
  std::lock_guard lock(Get().mutex);
  return Load(Get(), agent);
}

std::shared_ptr<const Counter> FindCounter(uint64_t id) {
  std::lock_guard lock(Get().mutex);
  for (const rocattach_sdk_agent* agent : Agents()) {
    const AgentCounters* counters = Load(Get(), *agent);
    if (counters == nullptr) continue;
    if (auto found = FindById(*counters, id)) return found;
  }
  // Known, but no agent of this machine has it.
  for (const auto& [name, known] : Get().ids) {
    if (known != id) continue;
    auto counter = std::make_shared<Counter>();
    counter->id = id;
    counter->name = name;
    return counter;
  }
  return nullptr;
}

std::shared_ptr<const Counter> FindCounter(uint64_t id,
                                           const rocattach_sdk_agent& agent) {
  std::lock_guard lock(Get().mutex);
  const AgentCounters* counters = Load(Get(), agent);
  return counters != nullptr ? FindById(*counters, id) : nullptr;
}

unsigned BlockLimit(const std::string& block) {
  for (const Block& known : kBlocks) {
    if (block == known.name) return known.limit;
  }
  return 0;
}

uint64_t CreateCounter(const rocattach_sdk_agent& agent, const std::string& name,
                       const std::string& expression, const std::string& description) {
  std::lock_guard lock(Get().mutex);
  AgentCounters* counters = Load(Get(), agent);
  if (counters == nullptr || counters->by_name.count(name) != 0) return 0;
  if (!AddDerived(Get(), counters, name, expression, description)) return 0;
  return counters->by_name[name]->id;
}

bool SetDefinitions(std::string yaml, bool append) {
  std::lock_guard lock(Get().mutex);
  if (!Get().by_agent.empty()) return false;
  Get().definitions = append ? std::move(yaml) : "";
  return true;
}

uint64_t EncodeInstance(uint64_t counter, const std::vector<Dimension>& dimensions,
                        size_t instance) {
  uint64_t id = counter << 48;
  for (size_t i = dimensions.size(); i-- > 0;) {
    id |= (instance % dimensions[i].size) << BitsOf(dimensions[i].id).shift;
    instance /= dimensions[i].size;
  }
  return id;
}

uint64_t CounterOfInstance(uint64_t instance_id) {
  return instance_id >> 48;
}

size_t PositionOfInstance(uint64_t instance_id, rocattach_sdk_dimension_id dimension) {
  if (dimension < 1 || dimension > 8) return 0;
  const Bits bits = BitsOf(dimension);
  return (instance_id >> bits.shift) & ((uint64_t{1} << bits.width) - 1);
}

}  // namespace simrocm::sdk
