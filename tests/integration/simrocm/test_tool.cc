// A tool for rocprofiler-sdk, for tests only, and like the collector written against
// our own declarations of the ABI. It does what SIMROCM_TOOL says, words separated by
// blanks, and writes what it gets to the file SIMROCM_TOOL_OUTPUT, one line each:
//   buffer | callback       count dispatches in that form
//   counters=A,B;C          counters, groups separated by ';', multiplexed over the
//                           dispatches of each GPU
//   accumulate=A            define the counter A_ADDED, which is A accumulated
//   trace=dispatch,copy,core,amd,dispatch_callback
//   device                  count on the first GPU, sampled every few milliseconds
//   size=N watermark=N discard
//                           the buffer (default 1 MiB, half of it, lossless)
//   idle                    start nothing at initialisation
//   thread                  deliver on a callback thread of its own
//   checks                  try what must be refused, and write the statuses
//   decline | fail          return NULL from configure, 1 from initialize
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/integration/simrocm/test_tool_checks.h"
#include "userspace/collector/sdk/abi.h"

namespace simrocm_test {
namespace {

struct Agent {
  rocattach_sdk_agent facts{};
  std::map<std::string, rocattach_sdk_counter_id> counters;
  std::vector<rocattach_sdk_counter_config_id> groups;
  std::atomic<uint64_t> dispatches{0};
};

struct Counter {
  std::string name;
  std::vector<rocattach_sdk_dimension_info> dimensions;
};

struct Tool {
  Sdk sdk;
  std::map<std::string, std::string> plan;
  rocattach_sdk_client_id client{};
  std::map<uint64_t, Agent> agents;
  std::map<uint64_t, Counter> counters;
  rocattach_sdk_context_id names{0}, counting{0}, tracing{0}, device{0};
  rocattach_sdk_buffer_id buffer{0};
  std::atomic<bool> stop_sampling{false};
  std::thread sampler;
};

Tool& Get() {
  static auto* tool = new Tool;
  return *tool;
}

bool Has(const char* word) {
  return Get().plan.count(word) != 0;
}

size_t Number(const char* word, size_t fallback) {
  auto found = Get().plan.find(word);
  return found != Get().plan.end() ? std::stoul(found->second) : fallback;
}

void ReadPlan() {
  const char* text = getenv("SIMROCM_TOOL");
  std::istringstream words(text != nullptr ? text : "");
  for (std::string word; words >> word;) {
    size_t equals = word.find('=');
    Get().plan[word.substr(0, equals)] =
        equals != std::string::npos ? word.substr(equals + 1) : "";
  }
}

std::vector<std::string> Split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

// Writes a dispatch in the form that the records of several services share.
void PutDispatch(const char* how, const rocattach_sdk_dispatch_info& info,
                 uint64_t correlation, uint64_t start, uint64_t end, size_t records) {
  Put("%s id=%lu agent=%lu queue=%lu kernel=%lu grid=%u,%u,%u group=%u,%u,%u "
      "correlation=%lu start=%lu end=%lu records=%zu",
      how, info.dispatch_id, info.agent_id.handle, info.queue_id.handle, info.kernel_id,
      info.grid_size.x, info.grid_size.y, info.grid_size.z, info.workgroup_size.x,
      info.workgroup_size.y, info.workgroup_size.z, correlation, start, end, records);
}

// Writes a value with the instance's number, in which the last dimension runs fastest,
// and the number of instances.
void PutValue(const rocattach_sdk_counter_record& record) {
  Tool& tool = Get();
  rocattach_sdk_counter_id id{0};
  tool.sdk.functions.query_record_counter_id(record.id, &id);
  auto counter = tool.counters.find(id.handle);
  if (counter == tool.counters.end()) {
    Put("unknown_counter id=%lu", id.handle);
    return;
  }
  size_t instance = 0, instances = 1;
  for (const auto& dimension : counter->second.dimensions) {
    size_t position = 0;
    tool.sdk.functions.query_record_dimension_position(record.id, dimension.id,
                                                       &position);
    instance = instance * dimension.instance_size + position;
    instances *= dimension.instance_size;
  }
  Put("value counter=%s dispatch=%lu agent=%lu instance=%zu instances=%zu value=%.17g "
      "user=%lu",
      counter->second.name.c_str(), record.dispatch_id, record.agent_id.handle,
      instance, instances, record.counter_value, record.user_data.value);
}

void PutTracing(uint32_t kind, const void* payload) {
  switch (kind) {
    case ROCATTACH_SDK_BUFFER_KERNEL_DISPATCH: {
      const auto* record =
          static_cast<const rocattach_sdk_kernel_dispatch_record*>(payload);
      PutDispatch("traced", record->dispatch_info, record->correlation_id.internal,
                  record->start_timestamp, record->end_timestamp, 0);
      break;
    }
    case ROCATTACH_SDK_BUFFER_MEMORY_COPY: {
      const auto* record =
          static_cast<const rocattach_sdk_memory_copy_record*>(payload);
      const char* name = nullptr;
      Get().sdk.functions.buffer_operation_name(record->kind, record->operation, &name,
                                                nullptr);
      Put("copy direction=%s bytes=%lu start=%lu end=%lu from=%lu to=%lu",
          name != nullptr ? name : "?", record->bytes, record->start_timestamp,
          record->end_timestamp, record->src_agent_id.handle,
          record->dst_agent_id.handle);
      break;
    }
    default: {
      const auto* record = static_cast<const rocattach_sdk_api_record*>(payload);
      const char* name = nullptr;
      Get().sdk.functions.buffer_operation_name(record->kind, record->operation, &name,
                                                nullptr);
      Put("api kind=%d name=%s correlation=%lu ancestor=%lu start=%lu end=%lu",
          record->kind, name != nullptr ? name : "?", record->correlation_id.internal,
          record->correlation_id.ancestor, record->start_timestamp,
          record->end_timestamp);
    }
  }
}

void OnBuffer(rocattach_sdk_context_id, rocattach_sdk_buffer_id,
              rocattach_sdk_record_header** headers, size_t count, void*,
              uint64_t dropped) {
  for (size_t i = 0; i < count; ++i) {
    if (headers[i]->category == ROCATTACH_SDK_CATEGORY_TRACING) {
      PutTracing(headers[i]->kind, headers[i]->payload);
    } else if (headers[i]->kind == ROCATTACH_SDK_COUNTER_RECORD_DISPATCH_HEADER) {
      const auto* record =
          static_cast<const rocattach_sdk_dispatch_count_record*>(headers[i]->payload);
      PutDispatch("counted", record->dispatch_info, record->correlation_id.internal,
                  record->start_timestamp, record->end_timestamp, record->num_records);
    } else {
      PutValue(*static_cast<const rocattach_sdk_counter_record*>(headers[i]->payload));
    }
  }
  Put("delivery records=%zu dropped=%lu thread=%d", count, dropped, gettid());
}

void OnDispatch(rocattach_sdk_dispatch_data data,
                rocattach_sdk_counter_config_id* config,
                rocattach_sdk_user_data* user_data, void*) {
  auto agent = Get().agents.find(data.dispatch_info.agent_id.handle);
  if (agent == Get().agents.end() || agent->second.groups.empty()) return;
  uint64_t turn = agent->second.dispatches++;
  size_t group = turn % agent->second.groups.size();
  *config = agent->second.groups[group];
  user_data->value = group;
}

void OnRecords(rocattach_sdk_dispatch_data data, rocattach_sdk_counter_record* records,
               size_t count, rocattach_sdk_user_data, void*) {
  PutDispatch("counted", data.dispatch_info, data.correlation_id.internal,
              data.start_timestamp, data.end_timestamp, count);
  for (size_t i = 0; i < count; ++i) PutValue(records[i]);
}

void OnCallback(rocattach_sdk_callback_record record,
                rocattach_sdk_user_data* user_data, void*) {
  if (record.kind == ROCATTACH_SDK_CALLBACK_KERNEL_DISPATCH) {
    const auto* payload =
        static_cast<const rocattach_sdk_callback_kernel_dispatch*>(record.payload);
    if (record.phase == ROCATTACH_SDK_PHASE_ENTER) user_data->value = 4711;
    Put("dispatch_callback id=%lu operation=%d phase=%d user=%lu start=%lu",
        payload->dispatch_info.dispatch_id, record.operation, record.phase,
        user_data->value, payload->start_timestamp);
    return;
  }
  const char* phase = record.phase == ROCATTACH_SDK_PHASE_LOAD ? "load" : "unload";
  if (record.operation == ROCATTACH_SDK_CODE_OBJECT_LOAD) {
    const auto* object = static_cast<const rocattach_sdk_code_object*>(record.payload);
    Put("code_object phase=%s id=%lu agent=%lu bytes=%lu uri=%s", phase,
        object->code_object_id, object->agent_id.handle, object->load_size,
        object->uri);
  } else if (record.operation == ROCATTACH_SDK_CODE_OBJECT_KERNEL_SYMBOL) {
    const auto* kernel =
        static_cast<const rocattach_sdk_kernel_symbol*>(record.payload);
    Put("kernel phase=%s id=%lu object=%lu name=%s sgprs=%u vgprs=%u", phase,
        kernel->kernel_id, kernel->code_object_id, kernel->kernel_name,
        kernel->sgpr_count, kernel->arch_vgpr_count);
  }
}

void OnDeviceStart(rocattach_sdk_context_id context, rocattach_sdk_agent_id agent,
                   rocattach_sdk_set_config_fn set_config, void*) {
  auto found = Get().agents.find(agent.handle);
  if (found == Get().agents.end() || found->second.groups.empty()) return;
  Put("device_config status=%d", set_config(context, found->second.groups[0]));
}

rocattach_sdk_status OnCounters(rocattach_sdk_agent_id agent,
                                rocattach_sdk_counter_id* counters, size_t count,
                                void*) {
  Tool& tool = Get();
  for (size_t i = 0; i < count; ++i) {
    rocattach_sdk_counter_info_room info{};
    tool.sdk.functions.query_counter_info(counters[i],
                                          ROCATTACH_SDK_COUNTER_INFO_VERSION_1, &info);
    Counter& counter = tool.counters[counters[i].handle];
    counter.name = info.info.name;
    counter.dimensions.clear();
    for (uint64_t d = 0; d < info.info.dimensions_count; ++d) {
      counter.dimensions.push_back(*info.info.dimensions[d]);
    }
    tool.agents[agent.handle].counters[counter.name] = counters[i];
  }
  Put("counters agent=%lu count=%zu", agent.handle, count);
  return ROCATTACH_SDK_STATUS_SUCCESS;
}

rocattach_sdk_status OnAgents(int32_t, const void** agents, size_t count, void*) {
  Tool& tool = Get();
  for (size_t i = 0; i < count; ++i) {
    const auto* agent = static_cast<const rocattach_sdk_agent*>(agents[i]);
    Put("agent id=%lu type=%d node=%u name=%s cus=%u engines=%u", agent->id.handle,
        agent->type, agent->node_id, agent->name, agent->cu_count,
        agent->num_shader_banks);
    if (agent->type != ROCATTACH_SDK_AGENT_GPU) continue;
    tool.agents[agent->id.handle].facts = *agent;
    tool.sdk.functions.iterate_agent_supported_counters(agent->id, OnCounters, nullptr);
  }
  return ROCATTACH_SDK_STATUS_SUCCESS;
}

void Expect(const char* what, int status) {
  if (status != ROCATTACH_SDK_STATUS_SUCCESS)
    Put("failed what=%s status=%d", what, status);
}

// With accumulate=NAME: the SDK has NAME_ADDED from now on.
void DefineAccumulated() {
  Tool& tool = Get();
  const std::string name = tool.plan["accumulate"];
  if (name.empty()) return;
  const std::string text =
      "rocprofiler-sdk:\n  counters-schema-version: 1\n  counters:\n  - name: " + name +
      "_ADDED\n    description: added up\n    definitions:\n"
      "    - architectures:\n      - gfx90a\n      expression: accumulate(" +
      name + ", HIGH_RES)\n";
  Expect("load_counter_definition",
         tool.sdk.functions.load_counter_definition(
             text.data(), text.size(), ROCATTACH_SDK_COUNTER_FLAG_APPEND_DEFINITION));
}

void MakeConfigs() {
  Tool& tool = Get();
  for (auto& [id, agent] : tool.agents) {
    for (const std::string& group : Split(tool.plan["counters"], ';')) {
      std::vector<rocattach_sdk_counter_id> ids;
      for (const std::string& name : Split(group, ',')) {
        ids.push_back(agent.counters.count(name) != 0 ? agent.counters[name]
                                                      : rocattach_sdk_counter_id{0});
      }
      rocattach_sdk_counter_config_id config{0};
      int status = tool.sdk.functions.create_counter_config({id}, ids.data(),
                                                            ids.size(), &config);
      Put("config agent=%lu counters=%s status=%d", id, group.c_str(), status);
      if (status == ROCATTACH_SDK_STATUS_SUCCESS) agent.groups.push_back(config);
    }
  }
}

void ConfigureTracing() {
  Tool& tool = Get();
  auto& sdk = tool.sdk.functions;
  for (const std::string& kind : Split(tool.plan["trace"], ',')) {
    int32_t number = kind == "dispatch" ? ROCATTACH_SDK_BUFFER_KERNEL_DISPATCH
                     : kind == "copy"   ? ROCATTACH_SDK_BUFFER_MEMORY_COPY
                     : kind == "core"   ? ROCATTACH_SDK_BUFFER_HSA_CORE_API
                                        : ROCATTACH_SDK_BUFFER_HSA_AMD_EXT_API;
    if (kind == "dispatch_callback") {
      Expect("callback", sdk.configure_callback_tracing(
                             tool.tracing, ROCATTACH_SDK_CALLBACK_KERNEL_DISPATCH,
                             nullptr, 0, OnCallback, nullptr));
    } else {
      Expect(kind.c_str(), sdk.configure_buffer_tracing(tool.tracing, number, nullptr,
                                                        0, tool.buffer));
    }
  }
}

void Sample() {
  Tool& tool = Get();
  for (uint64_t round = 1; !tool.stop_sampling; ++round) {
    rocattach_sdk_user_data user_data{};
    user_data.value = round;
    rocattach_sdk_counter_record records[4096];
    size_t count = 4096;
    int status = tool.sdk.functions.sample_device_counting(tool.device, user_data, 0,
                                                           records, &count);
    if (status == ROCATTACH_SDK_STATUS_SUCCESS) {
      Put("sample round=%lu records=%zu", round, count);
      for (size_t i = 0; i < count; ++i) PutValue(records[i]);
    } else {
      Put("sample_failed status=%d", status);
    }
    usleep(5000);
  }
}

void ConfigureCounting() {
  Tool& tool = Get();
  auto& sdk = tool.sdk.functions;
  if (Has("buffer")) {
    Expect("buffer counting", sdk.configure_buffer_dispatch_counting(
                                  tool.counting, tool.buffer, OnDispatch, nullptr));
  }
  if (Has("callback")) {
    Expect("callback counting",
           sdk.configure_callback_dispatch_counting(tool.counting, OnDispatch, nullptr,
                                                    OnRecords, nullptr));
  }
  if (Has("device") && !tool.agents.empty()) {
    rocattach_sdk_agent_id agent{tool.agents.begin()->first};
    Expect("device counting", sdk.configure_device_counting(tool.device, {0}, agent,
                                                            OnDeviceStart, nullptr));
  }
}

void StartAll() {
  Tool& tool = Get();
  auto& sdk = tool.sdk.functions;
  if (Has("buffer") || Has("callback"))
    Expect("start", sdk.start_context(tool.counting));
  if (Has("trace")) Expect("start", sdk.start_context(tool.tracing));
}

int Initialize(rocattach_sdk_client_finalize_fn, void* data) {
  Tool& tool = Get();
  auto& sdk = tool.sdk.functions;
  Put("initialize data=%ld", reinterpret_cast<long>(data));
  if (Has("fail")) return 1;
  for (auto* context : {&tool.names, &tool.counting, &tool.tracing, &tool.device}) {
    Expect("create_context", sdk.create_context(context));
  }
  size_t size = Number("size", 1 << 20);
  Expect("create_buffer",
         sdk.create_buffer(tool.tracing, size, Number("watermark", size / 2),
                           Has("discard") ? ROCATTACH_SDK_POLICY_DISCARD
                                          : ROCATTACH_SDK_POLICY_LOSSLESS,
                           OnBuffer, nullptr, &tool.buffer));
  if (Has("thread")) {
    rocattach_sdk_callback_thread thread{0};
    Expect("thread", sdk.create_callback_thread(&thread));
    Expect("assign", sdk.assign_callback_thread(tool.buffer, thread));
  }
  DefineAccumulated();
  Expect("agents",
         sdk.query_available_agents(ROCATTACH_SDK_AGENT_INFO_VERSION_0, OnAgents,
                                    ROCATTACH_SDK_AGENT_BASE_BYTES, nullptr));
  Expect("names",
         sdk.configure_callback_tracing(tool.names, ROCATTACH_SDK_CALLBACK_CODE_OBJECT,
                                        nullptr, 0, OnCallback, nullptr));
  MakeConfigs();
  ConfigureCounting();
  ConfigureTracing();
  if (Has("checks") && !tool.agents.empty()) {
    CheckWhileInitializing(tool.sdk, {tool.agents.begin()->first}, tool.tracing,
                           tool.buffer, tool.agents.begin()->second.counters);
  }
  // Always on, so that no kernel's name is missed.
  Expect("start names", sdk.start_context(tool.names));
  if (!Has("idle")) StartAll();
  if (Has("device")) {
    Put("device_start status=%d", sdk.start_context(tool.device));
    tool.sampler = std::thread(Sample);
  }
  return 0;
}

void Finalize(void*) {
  Tool& tool = Get();
  if (tool.sampler.joinable()) {
    tool.stop_sampling = true;
    tool.sampler.join();
  }
  if (Has("checks") && !tool.agents.empty()) {
    CheckAfterInitialization(tool.sdk, {tool.agents.begin()->first}, tool.tracing,
                             tool.buffer);
  }
  Put("flush status=%d", tool.sdk.functions.flush_buffer(tool.buffer));
  Put("finalize");
}

int Attach(rocattach_sdk_client_detach_fn detach, rocattach_sdk_context_id*,
           uint64_t count, void* data) {
  Put("attach contexts=%lu detach=%d data=%ld", count, detach != nullptr,
      reinterpret_cast<long>(data));
  StartAll();
  return 0;
}

void Detach(void*) {
  Put("detach flush=%d", Get().sdk.functions.flush_buffer(Get().buffer));
}

}  // namespace
}  // namespace simrocm_test

using namespace simrocm_test;

extern "C" __attribute__((visibility("default"))) rocattach_sdk_configure_result*
rocprofiler_configure(uint32_t version, const char* runtime_version, uint32_t priority,
                      rocattach_sdk_client_id* client) {
  ReadPlan();
  Put("configure version=%u text=\"%s\" priority=%u", version, runtime_version,
      priority);
  if (Has("decline")) return nullptr;
  if (!Get().sdk.Load()) {
    std::string missing;
    for (const std::string& name : Get().sdk.missing) missing += name + " ";
    Put("no_sdk missing=%s", missing.c_str());
    return nullptr;
  }
  client->name = "test";
  static rocattach_sdk_configure_result result = {sizeof(result), Initialize, Finalize,
                                                  reinterpret_cast<void*>(1234)};
  return &result;
}

extern "C" __attribute__((visibility("default"))) rocattach_sdk_configure_attach_result*
rocprofiler_configure_attach(uint32_t, const char*, uint32_t,
                             rocattach_sdk_client_id*) {
  Put("configure_attach");
  static rocattach_sdk_configure_attach_result result = {sizeof(result), Attach, Detach,
                                                         reinterpret_cast<void*>(5678)};
  return &result;
}
