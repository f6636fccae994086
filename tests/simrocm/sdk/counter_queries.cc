// Queries of the available counters, and of the meaning of a record's id.
#include <cstring>
#include <map>
#include <mutex>

#include "tests/simrocm/call_log.h"
#include "tests/simrocm/environment.h"
#include "tests/simrocm/sdk/agents.h"
#include "tests/simrocm/sdk/catalog.h"
#include "tests/simrocm/sdk/state.h"
#include "tests/simrocm/sdk/version.h"

namespace simrocm::sdk {
namespace {

// As written by SDK 1.3.2 and later: 8 bytes more than SDK 1.0's.
struct CounterInfoV1 {
  rocattach_sdk_counter_info_v1 base;
  uint8_t spm_support;
  uint8_t reserved[7];
};
static_assert(sizeof(CounterInfoV1) == 96);

// Descriptions are handed out by pointer and live as long as the process.
struct Description {
  std::shared_ptr<const Counter> counter;
  std::vector<rocattach_sdk_dimension_info> dimensions;
  std::vector<const rocattach_sdk_dimension_info*> dimension_pointers;
  std::vector<rocattach_sdk_dimension_position> positions;
  std::vector<const rocattach_sdk_dimension_position*> position_pointers;
  std::vector<rocattach_sdk_instance_info> instances;
  std::vector<const rocattach_sdk_instance_info*> instance_pointers;
};

Description* Describe(const std::shared_ptr<const Counter>& counter) {
  auto* description = new Description;
  description->counter = counter;
  const auto& dimensions = counter->dimensions;
  for (const Dimension& dimension : dimensions) {
    description->dimensions.push_back({dimension.name, dimension.size, dimension.id});
  }
  for (const auto& dimension : description->dimensions) {
    description->dimension_pointers.push_back(&dimension);
  }
  for (size_t instance = 0; instance < counter->instances; ++instance) {
    uint64_t id = EncodeInstance(counter->id, dimensions, instance);
    for (const Dimension& dimension : dimensions) {
      description->positions.push_back({sizeof(rocattach_sdk_dimension_position),
                                        dimension.name,
                                        PositionOfInstance(id, dimension.id)});
    }
  }
  for (const auto& position : description->positions) {
    description->position_pointers.push_back(&position);
  }
  for (size_t instance = 0; instance < counter->instances; ++instance) {
    description->instances.push_back(
        {sizeof(rocattach_sdk_instance_info),
         EncodeInstance(counter->id, dimensions, instance), counter->id,
         dimensions.size(),
         description->position_pointers.data() + instance * dimensions.size()});
  }
  for (const auto& instance : description->instances) {
    description->instance_pointers.push_back(&instance);
  }
  return description;
}

const Description* DescriptionOf(uint64_t id) {
  static auto* mutex = new std::mutex;
  static auto* known = new std::map<uint64_t, Description*>;
  auto counter = FindCounter(id);
  if (counter == nullptr) return nullptr;
  std::lock_guard lock(*mutex);
  Description*& description = (*known)[id];
  if (description == nullptr) description = Describe(counter);
  return description;
}

uint8_t Flags(const Counter& counter) {
  return static_cast<uint8_t>((counter.constant ? ROCATTACH_SDK_COUNTER_CONSTANT : 0) |
                              (counter.derived ? ROCATTACH_SDK_COUNTER_DERIVED : 0));
}

}  // namespace
}  // namespace simrocm::sdk

using namespace simrocm::sdk;

SIMROCM_EXPORT rocattach_sdk_status rocprofiler_iterate_agent_supported_counters(
    rocattach_sdk_agent_id agent_id, rocattach_sdk_counters_cb callback,
    void* user_data) {
  const rocattach_sdk_agent* agent = FindAgent(agent_id);
  if (agent == nullptr) return ROCATTACH_SDK_STATUS_ERROR_AGENT_NOT_FOUND;
  const AgentCounters* counters = CountersOf(*agent);
  if (counters == nullptr) return ROCATTACH_SDK_STATUS_ERROR_AGENT_ARCH_NOT_SUPPORTED;
  auto ids = counters->ids;
  return callback(agent_id, ids.data(), ids.size(), user_data);
}

SIMROCM_EXPORT rocattach_sdk_status rocprofiler_query_counter_info(
    rocattach_sdk_counter_id id, int32_t version, void* info) {
  const Description* description = DescriptionOf(id.handle);
  if (description == nullptr) return ROCATTACH_SDK_STATUS_ERROR_COUNTER_NOT_FOUND;
  const Counter& counter = *description->counter;
  if (version == ROCATTACH_SDK_COUNTER_INFO_VERSION_0) {
    rocattach_sdk_counter_info_v0 v0{id,
                                     counter.name.c_str(),
                                     counter.description.c_str(),
                                     counter.block.c_str(),
                                     counter.expression.c_str(),
                                     Flags(counter)};
    memcpy(info, &v0, sizeof(v0));
    return ROCATTACH_SDK_STATUS_SUCCESS;
  }
  if (version != ROCATTACH_SDK_COUNTER_INFO_VERSION_1) {
    return ROCATTACH_SDK_STATUS_ERROR_INCOMPATIBLE_ABI;
  }
  CounterInfoV1 v1{};
  const size_t bytes = TheVersion().IsAtLeast(3, 2) ? sizeof(v1) : sizeof(v1.base);
  v1.base = {bytes,
             id,
             counter.name.c_str(),
             counter.description.c_str(),
             counter.block.c_str(),
             counter.expression.c_str(),
             Flags(counter),
             description->dimension_pointers.size(),
             const_cast<const rocattach_sdk_dimension_info**>(
                 description->dimension_pointers.data()),
             description->instance_pointers.size(),
             const_cast<const rocattach_sdk_instance_info**>(
                 description->instance_pointers.data())};
  memcpy(info, &v1, bytes);
  return ROCATTACH_SDK_STATUS_SUCCESS;
}

SIMROCM_EXPORT rocattach_sdk_status rocprofiler_query_record_counter_id(
    rocattach_sdk_instance_id id, rocattach_sdk_counter_id* counter) {
  counter->handle = CounterOfInstance(id);
  return ROCATTACH_SDK_STATUS_SUCCESS;
}

SIMROCM_EXPORT rocattach_sdk_status rocprofiler_query_record_dimension_position(
    rocattach_sdk_instance_id id, rocattach_sdk_dimension_id dimension,
    size_t* position) {
  *position = PositionOfInstance(id, dimension);
  return ROCATTACH_SDK_STATUS_SUCCESS;
}

SIMROCM_EXPORT rocattach_sdk_status
rocprofiler_load_counter_definition(const char* yaml, size_t bytes, int32_t flags) {
  if (yaml == nullptr && bytes != 0) return ROCATTACH_SDK_STATUS_ERROR_INVALID_ARGUMENT;
  const bool taken =
      SetDefinitions(std::string(yaml != nullptr ? yaml : "", bytes),
                     flags == ROCATTACH_SDK_COUNTER_FLAG_APPEND_DEFINITION);
  simrocm::Log("sdk.load_counter_definition bytes=%zu taken=%d", bytes, taken);
  return taken ? ROCATTACH_SDK_STATUS_SUCCESS : ROCATTACH_SDK_STATUS_ERROR;
}

namespace {

rocattach_sdk_status Create(const char* name, size_t name_length,
                            const char* expression, size_t expression_length,
                            const char* description, size_t description_length,
                            rocattach_sdk_agent_id agent_id,
                            rocattach_sdk_counter_id* counter) {
  const rocattach_sdk_agent* agent = FindAgent(agent_id);
  if (agent == nullptr) return ROCATTACH_SDK_STATUS_ERROR_AGENT_NOT_FOUND;
  if (name == nullptr || name_length == 0 || expression == nullptr) {
    return ROCATTACH_SDK_STATUS_ERROR_INVALID_ARGUMENT;
  }
  counter->handle = CreateCounter(
      *agent, std::string(name, name_length),
      std::string(expression, expression_length),
      description != nullptr ? std::string(description, description_length) : "");
  return counter->handle != 0 ? ROCATTACH_SDK_STATUS_SUCCESS
                              : ROCATTACH_SDK_STATUS_ERROR_AST_GENERATION_FAILED;
}

}  // namespace

// SDK 1.0.0 does not export this function: dlsym() does not find it, unless
// SIMROCM_CREATE_COUNTER is set.
extern "C" {
using CreateCounterFunction = decltype(&Create);
CreateCounterFunction ResolveCreateCounter() {
  return simrocm::GetBool("SIMROCM_CREATE_COUNTER", false) ? &Create : nullptr;
}
__attribute__((visibility("default"), ifunc("ResolveCreateCounter")))
rocattach_sdk_status
rocprofiler_create_counter(const char*, size_t, const char*, size_t, const char*,
                           size_t, rocattach_sdk_agent_id, rocattach_sdk_counter_id*);
}
