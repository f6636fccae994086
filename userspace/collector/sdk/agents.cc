#include "userspace/collector/sdk/agents.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <charconv>

namespace rocattach::collector {
namespace {

uint64_t Hash(const char* text) {
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (; *text != '\0'; ++text) {
    hash = (hash ^ static_cast<uint8_t>(*text)) * 0x100000001b3u;
  }
  return hash;
}

// Made from KFD's unique_id like the HSA runtime's, so that a GPU has the same name
// with both backends. Empty if the kernel provides no unique_id.
void ReadUuid(uint32_t node_id, char (&uuid)[24]) {
  char path[80];
  snprintf(path, sizeof(path), "/sys/class/kfd/kfd/topology/nodes/%u/properties",
           node_id);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  char text[4096];
  ssize_t bytes = read(fd, text, sizeof(text) - 1);
  close(fd);
  if (bytes <= 0) return;
  text[bytes] = '\0';
  constexpr char kName[] = "\nunique_id ";
  const char* found = strstr(text, kName);
  if (found == nullptr) return;
  unsigned long long id = 0;
  std::from_chars(found + strlen(kName), text + bytes, id);
  if (id != 0) snprintf(uuid, sizeof(uuid), "GPU-%016llx", id);
}

void Copy(const rocattach_sdk_dim3& from, uint32_t (*to)[3]) {
  (*to)[0] = from.x;
  (*to)[1] = from.y;
  (*to)[2] = from.z;
}

void CopyText(const char* from, char* to, size_t room) {
  size_t bytes = from != nullptr ? strnlen(from, room - 1) : 0;
  if (bytes != 0) memcpy(to, from, bytes);
  to[bytes] = '\0';
}

}  // namespace

bool AccumulatorName(const char* leader, const char* resolution,
                     char (&name)[ROCATTACH_PLAN_NAME_BYTES]) {
  const int bytes = snprintf(name, sizeof(name), "ROCATTACH_%s_%s", resolution, leader);
  return bytes > 0 && static_cast<size_t>(bytes) < sizeof(name);
}

rocattach_sdk_status SdkAgents::Load(const rocattach_sdk_functions* sdk,
                                     Dictionary* dictionary, const AgentIds* known) {
  sdk_ = sdk;
  known_ = known;
  dictionary_ = dictionary;
  return sdk->query_available_agents(ROCATTACH_SDK_AGENT_INFO_VERSION_0,
                                     &SdkAgents::Visit, ROCATTACH_SDK_AGENT_BASE_BYTES,
                                     this);
}

rocattach_sdk_status SdkAgents::Visit(int32_t, const void** agents, size_t count,
                                      void* self) {
  for (size_t i = 0; i < count; ++i) {
    static_cast<SdkAgents*>(self)->Add(
        *static_cast<const rocattach_sdk_agent*>(agents[i]));
  }
  return ROCATTACH_SDK_STATUS_SUCCESS;
}

void SdkAgents::Add(const rocattach_sdk_agent& from) {
  if (count_ == kMax) return;
  SdkAgent& agent = agents_[count_];
  agent = {};
  agent.id = from.id;
  agent.gpu = from.type == ROCATTACH_SDK_AGENT_GPU;
  CopyText(from.name, agent.name, sizeof(agent.name));
  // The SDK has no name for a GPU whose render node it cannot open.
  if (agent.gpu && agent.name[0] == '\0' && from.gfx_target_version != 0) {
    snprintf(agent.name, sizeof(agent.name), "gfx%u%x%x",
             from.gfx_target_version / 10000, from.gfx_target_version / 100 % 100,
             from.gfx_target_version % 100);
  }
  ++count_;
  agent.dictionary_id = known_ != nullptr ? known_->Find(from.node_id) : uint16_t{0};
  if (agent.dictionary_id == 0) Describe(from, &agent);
}

void SdkAgents::Describe(const rocattach_sdk_agent& from, SdkAgent* to) {
  SdkAgent& agent = *to;
  rocattach_agent_entry entry = {};
  entry.type = agent.gpu ? 2 : 1;
  entry.node_id = from.node_id;
  entry.compute_units = from.cu_count;
  entry.simds_per_cu = from.simd_per_cu;
  entry.wavefront_size = from.wave_front_size;
  entry.max_waves_per_cu = from.max_waves_per_cu;
  entry.max_clock_mhz = agent.gpu ? from.max_engine_clk_fcompute : 0;
  entry.shader_engines = from.num_shader_banks;
  entry.xccs = agent.gpu ? from.num_xcc : 0;
  entry.local_memory_bytes = from.local_mem_size;
  entry.pci_bdf = (uint64_t{from.domain} << 16) | (from.location_id & 0xffff);
  entry.family_id = from.family_id;
  entry.workgroup_max_size = from.workgroup_max_size;
  entry.grid_max_size = from.grid_max_size;
  Copy(from.workgroup_max_dim, &entry.workgroup_max);
  Copy(from.grid_max_dim, &entry.grid_max);
  if (agent.gpu) ReadUuid(from.node_id, entry.uuid);
  char text[128];
  CopyText(agent.name, text, sizeof(agent.name));
  size_t name_bytes = strlen(text);
  char* product = text + name_bytes + 1;
  CopyText(from.product_name, product, sizeof(text) - name_bytes - 1);
  agent.dictionary_id = static_cast<uint16_t>(
      dictionary_->Append(ROCATTACH_ENTRY_AGENT, &entry, text,
                          static_cast<uint32_t>(name_bytes + 1 + strlen(product))));
}

rocattach_sdk_status SdkAgents::VisitCounters(rocattach_sdk_agent_id id,
                                              rocattach_sdk_counter_id* counters,
                                              size_t count, void* self_pointer) {
  auto* self = static_cast<SdkAgents*>(self_pointer);
  uint32_t index = self->Find(id);
  if (index == kNone) return ROCATTACH_SDK_STATUS_SUCCESS;
  SdkAgent& agent = self->agents_[index];
  for (size_t i = 0; i < count && agent.counter_count < kMaxCounters; ++i) {
    rocattach_sdk_counter_info_room info = {};
    auto* v0 = reinterpret_cast<rocattach_sdk_counter_info_v0*>(info.room);
    if (self->sdk_->query_counter_info(counters[i],
                                       ROCATTACH_SDK_COUNTER_INFO_VERSION_0,
                                       v0) != ROCATTACH_SDK_STATUS_SUCCESS ||
        v0->name == nullptr || strlen(v0->name) >= ROCATTACH_PLAN_NAME_BYTES) {
      continue;
    }
    AddCounter(counters[i].handle, v0->name, &agent);
  }
  return ROCATTACH_SDK_STATUS_SUCCESS;
}

void SdkAgents::AddCounter(uint64_t id, const char* name, SdkAgent* agent) {
  SdkAgent::Counter& counter = agent->counters[agent->counter_count++];
  counter.id = id;
  counter.hash = Hash(name);
  CopyText(name, counter.name, sizeof(counter.name));
}

rocattach_sdk_counter_id SdkAgents::FindAccumulator(uint32_t index, const char* leader,
                                                    const char* follower,
                                                    rocattach_sdk_status* status) {
  const char* resolution =
      strcmp(follower, "SQ_ACCUM_PREV") == 0 ? "LOW_RES" : "HIGH_RES";
  char name[ROCATTACH_PLAN_NAME_BYTES];
  *status = ROCATTACH_SDK_STATUS_ERROR_NOT_IMPLEMENTED;
  if (!AccumulatorName(leader, resolution, name)) return {0};
  rocattach_sdk_counter_id id = FindCounter(index, name);
  SdkAgent& agent = agents_[index];
  if (id.handle != 0 || sdk_->create_counter == nullptr || !agent.counters_read ||
      agent.counter_count == kMaxCounters) {
    return id;
  }
  char expression[2 * ROCATTACH_PLAN_NAME_BYTES];
  snprintf(expression, sizeof(expression), "accumulate(%s, %s)", leader, resolution);
  constexpr char kText[] = "Summed up over time, for rocattach";
  *status = sdk_->create_counter(name, strlen(name), expression, strlen(expression),
                                 kText, strlen(kText), agent.id, &id);
  if (*status != ROCATTACH_SDK_STATUS_SUCCESS) return {0};
  AddCounter(id.handle, name, &agent);
  return id;
}

void SdkAgents::ReadCounters(SdkAgent* agent) {
  agent->counters = static_cast<SdkAgent::Counter*>(
      AllocatePrivate(kMaxCounters * sizeof(SdkAgent::Counter)));
  if (agent->counters == nullptr) return;
  agent->counters_read = true;
  sdk_->iterate_agent_supported_counters(agent->id, &SdkAgents::VisitCounters, this);
}

bool SdkAgents::HasCounters(uint32_t index) {
  SdkAgent& agent = agents_[index];
  if (!agent.counters_read) ReadCounters(&agent);
  return agent.counter_count != 0;
}

rocattach_sdk_counter_id SdkAgents::FindCounter(uint32_t index, const char* name) {
  SdkAgent& agent = agents_[index];
  if (!agent.counters_read) ReadCounters(&agent);
  uint64_t hash = Hash(name);
  for (uint32_t i = 0; i < agent.counter_count; ++i) {
    const SdkAgent::Counter& counter = agent.counters[i];
    if (counter.hash == hash && strcmp(counter.name, name) == 0) return {counter.id};
  }
  return {0};
}

}  // namespace rocattach::collector
