#include "userspace/collector/hsa/agents.h"

#include <string.h>

namespace rocattach::collector {
namespace {

template <typename T>
void Query(const HsaFunctions& hsa, hsa_agent_t agent, uint32_t attribute, T* value) {
  T answer = {};
  // An attribute that an older runtime does not know is an error; the value stays zero.
  if (hsa.agent_get_info(agent, static_cast<hsa_agent_info_t>(attribute), &answer) ==
      HSA_STATUS_SUCCESS) {
    *value = answer;
  }
}

// Runtimes write at most 64 bytes for names and 21 for UUIDs.
struct Name {
  char text[64];
};

// Type of the attribute for a work-group's dimensions: 16 bits each.
struct WorkgroupDimensions {
  uint16_t size[3];
};

// HSA_AMD_AGENT_INFO_ASIC_FAMILY_ID; not in the headers of runtimes before ROCm 5.6.
constexpr uint32_t kFamilyAttribute = 0xA107;

struct PoolSum {
  const HsaFunctions* hsa;
  uint64_t bytes;
};

hsa_status_t AddPool(hsa_amd_memory_pool_t pool, void* data) {
  auto* sum = static_cast<PoolSum*>(data);
  hsa_amd_segment_t segment = HSA_AMD_SEGMENT_PRIVATE;
  uint32_t flags = 0;
  size_t bytes = 0;
  sum->hsa->memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_SEGMENT, &segment);
  if (segment != HSA_AMD_SEGMENT_GLOBAL) return HSA_STATUS_SUCCESS;
  sum->hsa->memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS, &flags);
  sum->hsa->memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_SIZE, &bytes);
  // A device lists the same memory as several pools: the largest one counts.
  if (bytes > sum->bytes) sum->bytes = bytes;
  return HSA_STATUS_SUCCESS;
}

struct VisitData {
  Agents* agents;
  const HsaFunctions* hsa;
  Dictionary* dictionary;
  AgentIds* ids;
};

// Limits of work-groups and grids exist for GPUs only, since only GPUs run kernels.
void FillLimits(const HsaFunctions& hsa, hsa_agent_t agent,
                rocattach_agent_entry* entry) {
  Query(hsa, agent, kFamilyAttribute, &entry->family_id);
  if (entry->type != 2) return;
  WorkgroupDimensions workgroup = {};
  hsa_dim3_t grid = {};
  Query(hsa, agent, HSA_AGENT_INFO_WORKGROUP_MAX_SIZE, &entry->workgroup_max_size);
  Query(hsa, agent, HSA_AGENT_INFO_WORKGROUP_MAX_DIM, &workgroup);
  Query(hsa, agent, HSA_AGENT_INFO_GRID_MAX_SIZE, &entry->grid_max_size);
  Query(hsa, agent, HSA_AGENT_INFO_GRID_MAX_DIM, &grid);
  for (int i = 0; i < 3; ++i) entry->workgroup_max[i] = workgroup.size[i];
  entry->grid_max[0] = grid.x;
  entry->grid_max[1] = grid.y;
  entry->grid_max[2] = grid.z;
}

void FillProperties(const HsaFunctions& hsa, hsa_agent_t agent,
                    rocattach_agent_entry* entry) {
  uint32_t bdf = 0, domain = 0;
  Query(hsa, agent, HSA_AMD_AGENT_INFO_DRIVER_NODE_ID, &entry->node_id);
  Query(hsa, agent, HSA_AMD_AGENT_INFO_COMPUTE_UNIT_COUNT, &entry->compute_units);
  Query(hsa, agent, HSA_AMD_AGENT_INFO_NUM_SIMDS_PER_CU, &entry->simds_per_cu);
  Query(hsa, agent, HSA_AGENT_INFO_WAVEFRONT_SIZE, &entry->wavefront_size);
  Query(hsa, agent, HSA_AMD_AGENT_INFO_MAX_WAVES_PER_CU, &entry->max_waves_per_cu);
  Query(hsa, agent, HSA_AMD_AGENT_INFO_MAX_CLOCK_FREQUENCY, &entry->max_clock_mhz);
  Query(hsa, agent, HSA_AMD_AGENT_INFO_NUM_SHADER_ENGINES, &entry->shader_engines);
  Query(hsa, agent, HSA_AMD_AGENT_INFO_BDFID, &bdf);
  Query(hsa, agent, HSA_AMD_AGENT_INFO_DOMAIN, &domain);
  // BDFID is bus << 8 | device << 3 | function.
  entry->pci_bdf = (uint64_t{domain} << 16) | (bdf & 0xffff);
  FillLimits(hsa, agent, entry);
  Name uuid = {};
  Query(hsa, agent, HSA_AMD_AGENT_INFO_UUID, &uuid);
  memcpy(entry->uuid, uuid.text, sizeof(entry->uuid) - 1);
  PoolSum sum = {&hsa, 0};
  hsa.agent_iterate_memory_pools(agent, AddPool, &sum);
  entry->local_memory_bytes = sum.bytes;
}

}  // namespace

uint16_t ParseGfx(const char* name) {
  if (strncmp(name, "gfx", 3) != 0) return 0;
  uint32_t value = 0;
  uint32_t digits = 0;
  for (const char* p = name + 3; *p != '\0'; ++p, ++digits) {
    uint32_t digit;
    if (*p >= '0' && *p <= '9') {
      digit = static_cast<uint32_t>(*p - '0');
    } else if (*p >= 'a' && *p <= 'f') {
      digit = static_cast<uint32_t>(*p - 'a') + 10;
    } else {
      break;
    }
    value = value * 16 + digit;
  }
  return digits >= 3 && digits <= 4 ? static_cast<uint16_t>(value) : 0;
}

hsa_status_t Agents::Load(const HsaFunctions& hsa, Dictionary* dictionary,
                          AgentIds* ids) {
  count_ = 0;
  VisitData data = {this, &hsa, dictionary, ids};
  return hsa.iterate_agents(&Agents::Visit, &data);
}

hsa_status_t Agents::Visit(hsa_agent_t agent, void* data) {
  auto* d = static_cast<VisitData*>(data);
  d->agents->Add(*d->hsa, d->dictionary, d->ids, agent);
  return HSA_STATUS_SUCCESS;
}

void Agents::Add(const HsaFunctions& hsa, Dictionary* dictionary, AgentIds* ids,
                 hsa_agent_t handle) {
  if (count_ == kMax) return;
  hsa_device_type_t type = HSA_DEVICE_TYPE_CPU;
  Query(hsa, handle, HSA_AGENT_INFO_DEVICE, &type);
  Name name = {}, product = {};
  Query(hsa, handle, HSA_AGENT_INFO_NAME, &name);
  Query(hsa, handle, HSA_AMD_AGENT_INFO_PRODUCT_NAME, &product);
  rocattach_agent_entry entry = {};
  entry.type = type == HSA_DEVICE_TYPE_GPU ? 2 : 1;
  FillProperties(hsa, handle, &entry);

  Agent& agent = agents_[count_];
  agent = {handle, type == HSA_DEVICE_TYPE_GPU, 0, ParseGfx(name.text)};
  ++count_;
  agent.id = ids->Find(entry.node_id);
  if (agent.id != 0) return;
  char text[2 * sizeof(Name)];
  size_t name_bytes = strnlen(name.text, sizeof(name.text));
  size_t product_bytes = strnlen(product.text, sizeof(product.text) - 1);
  memcpy(text, name.text, name_bytes);
  text[name_bytes] = '\0';
  memcpy(text + name_bytes + 1, product.text, product_bytes);
  agent.id = static_cast<uint16_t>(
      dictionary->Append(ROCATTACH_ENTRY_AGENT, &entry, text,
                         static_cast<uint32_t>(name_bytes + 1 + product_bytes)));
  ids->Add(entry.node_id, agent.id);
}

}  // namespace rocattach::collector
