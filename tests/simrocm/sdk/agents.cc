#include "tests/simrocm/sdk/agents.h"

#include <dlfcn.h>
#include <hsa/hsa_ext_amd.h>
#include <hsakmt.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "tests/simrocm/call_log.h"
#include "tests/simrocm/environment.h"
#include "tests/simrocm/sdk/state.h"

namespace simrocm::sdk {
namespace {

constexpr uint64_t kFirstAgent = 0x3c00;

// The functions of the thunk that the topology needs; looked up, because the SDK itself
// reads sysfs and does not link the thunk.
struct Thunk {
  decltype(hsaKmtOpenKFD)* open = nullptr;
  decltype(hsaKmtCloseKFD)* close = nullptr;
  decltype(hsaKmtAcquireSystemProperties)* acquire = nullptr;
  decltype(hsaKmtReleaseSystemProperties)* release = nullptr;
  decltype(hsaKmtGetNodeProperties)* node = nullptr;

  bool Load() {
    void* library = dlopen("libhsakmt.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (library == nullptr) return false;
    auto get = [&](const char* name, auto* function) {
      *function = reinterpret_cast<std::remove_reference_t<decltype(*function)>>(
          dlsym(library, name));
      return *function != nullptr;
    };
    return get("hsaKmtOpenKFD", &open) && get("hsaKmtCloseKFD", &close) &&
           get("hsaKmtAcquireSystemProperties", &acquire) &&
           get("hsaKmtReleaseSystemProperties", &release) &&
           get("hsaKmtGetNodeProperties", &node);
  }
};

const char* Keep(const std::string& text) {
  return strdup(text.c_str());
}

std::string MarketingName(const HsaNodeProperties& properties) {
  std::string name;
  for (HSAuint16 unit : properties.MarketingName) {
    if (unit == 0) break;
    name += static_cast<char>(unit);
  }
  return name;
}

void FillGpu(const HsaNodeProperties& p, rocattach_sdk_agent* agent) {
  const unsigned major = p.EngineId.ui32.Major, minor = p.EngineId.ui32.Minor,
                 stepping = p.EngineId.ui32.Stepping;
  char name[16];
  snprintf(name, sizeof(name), "gfx%u%u%x", major, minor, stepping);
  agent->name = Keep(name);
  agent->vendor_name = "AMD";
  agent->product_name = Keep(MarketingName(p));
  agent->model_name = Keep(reinterpret_cast<const char*>(p.AMDName));
  agent->gfx_target_version = major * 10000 + minor * 100 + stepping;
  // The simulated GPUs have one; a test may ask for more.
  const int xccs = atoi(GetString("SIMROCM_XCCS").c_str());
  agent->num_xcc = xccs > 0 ? static_cast<uint32_t>(xccs) : 1;
  agent->cu_count = p.NumFComputeCores / (p.NumSIMDPerCU != 0 ? p.NumSIMDPerCU : 1);
  agent->num_shader_banks = p.NumShaderBanks;
  agent->cu_per_engine = p.NumShaderBanks != 0 ? agent->cu_count / p.NumShaderBanks : 0;
  agent->max_waves_per_cu = p.MaxWavesPerSIMD * p.NumSIMDPerCU;
  agent->family_id = 141;  // of gfx9
  agent->workgroup_max_size = 1024;
  agent->grid_max_size = UINT32_MAX;
  agent->workgroup_max_dim = {1024, 1024, 1024};
  agent->grid_max_dim = {UINT32_MAX, UINT32_MAX, UINT32_MAX};
  agent->gpu_id = 0x1000 + agent->node_id;
  memcpy(agent->uuid, &p.UniqueID, sizeof(p.UniqueID));
}

void Fill(const HsaNodeProperties& p, uint32_t node, rocattach_sdk_agent* agent) {
  agent->size = sizeof(*agent);
  agent->node_id = node;
  agent->id.handle = kFirstAgent + node;
  agent->type =
      p.NumFComputeCores != 0 ? ROCATTACH_SDK_AGENT_GPU : ROCATTACH_SDK_AGENT_CPU;
  agent->cpu_cores_count = p.NumCPUCores;
  agent->simd_count = p.NumFComputeCores;
  agent->mem_banks_count = p.NumMemoryBanks;
  agent->caches_count = p.NumCaches;
  agent->io_links_count = p.NumIOLinks;
  agent->max_waves_per_simd = p.MaxWavesPerSIMD;
  agent->lds_size_in_kb = p.LDSSizeInKB;
  agent->gds_size_in_kb = p.GDSSizeInKB;
  agent->num_gws = p.NumGws;
  agent->wave_front_size = p.WaveFrontSize;
  agent->array_count = p.NumArrays;
  agent->simd_arrays_per_engine = p.NumArrays;
  agent->cu_per_simd_array = p.NumCUPerArray;
  agent->simd_per_cu = p.NumSIMDPerCU;
  agent->vendor_id = p.VendorId;
  agent->device_id = p.DeviceId;
  agent->location_id = p.LocationId;
  agent->domain = p.Domain;
  agent->drm_render_minor = static_cast<uint32_t>(p.DrmRenderMinor);
  agent->num_sdma_engines = p.NumSdmaEngines;
  agent->num_sdma_xgmi_engines = p.NumSdmaXgmiEngines;
  agent->num_sdma_queues_per_engine = p.NumSdmaQueuesPerEngine;
  agent->num_cp_queues = p.NumCpQueues;
  agent->max_engine_clk_ccompute = p.MaxEngineClockMhzCCompute;
  agent->max_engine_clk_fcompute = p.MaxEngineClockMhzFCompute;
  agent->fw_version = p.EngineId.Value;
  agent->capability = p.Capability.Value;
  agent->local_mem_size = p.LocalMemSize;
  agent->hive_id = p.HiveID;
  agent->runtime_visibility = 3;
  agent->vendor_name = agent->product_name = agent->name = agent->model_name = "CPU";
  if (agent->type == ROCATTACH_SDK_AGENT_GPU) FillGpu(p, agent);
}

// As a GPU whose render node cannot be opened.
bool IsBlind(const rocattach_sdk_agent& agent) {
  const std::string blind = GetString("SIMROCM_BLIND_GPU");
  return agent.type == ROCATTACH_SDK_AGENT_GPU && !blind.empty() &&
         agent.logical_node_type_id == atoi(blind.c_str());
}

std::vector<const rocattach_sdk_agent*> ReadTopology() {
  std::vector<const rocattach_sdk_agent*> agents;
  Thunk thunk;
  if (GetBool("SIMROCM_NO_TOPOLOGY", false) || !thunk.Load()) return agents;
  // Nested with the runtime's own use: both are counted by the thunk.
  HSAKMT_STATUS opened = thunk.open();
  if (opened != HSAKMT_STATUS_SUCCESS &&
      opened != HSAKMT_STATUS_KERNEL_ALREADY_OPENED) {
    return agents;
  }
  HsaSystemProperties system{};
  if (thunk.acquire(&system) == HSAKMT_STATUS_SUCCESS) {
    int32_t by_type[3] = {};
    for (uint32_t node = 0; node < system.NumNodes; ++node) {
      HsaNodeProperties properties{};
      if (thunk.node(node, &properties) != HSAKMT_STATUS_SUCCESS) continue;
      auto* agent = new rocattach_sdk_agent{};
      Fill(properties, node, agent);
      agent->logical_node_id = static_cast<int32_t>(agents.size());
      agent->logical_node_type_id = by_type[agent->type]++;
      if (IsBlind(*agent)) agent->name = "";
      agents.push_back(agent);
    }
    // Releasing would take the runtime's view away: the thunk does not count these.
  }
  thunk.close();
  return agents;
}

struct HsaMap {
  std::mutex mutex;
  std::map<uint64_t, const rocattach_sdk_agent*> by_handle;
};

HsaMap& Map() {
  static auto* map = new HsaMap;
  return *map;
}

}  // namespace

const std::vector<const rocattach_sdk_agent*>& Agents() {
  static auto* agents = new std::vector<const rocattach_sdk_agent*>(ReadTopology());
  return *agents;
}

const rocattach_sdk_agent* FindAgent(rocattach_sdk_agent_id id) {
  for (const rocattach_sdk_agent* agent : Agents()) {
    if (agent->id.handle == id.handle) return agent;
  }
  return nullptr;
}

void MapHsaAgents(const CoreApiTable& core) {
  std::vector<hsa_agent_t> found;
  core.hsa_iterate_agents_fn(
      [](hsa_agent_t agent, void* data) {
        static_cast<std::vector<hsa_agent_t>*>(data)->push_back(agent);
        return HSA_STATUS_SUCCESS;
      },
      &found);
  if (Agents().empty() && !found.empty()) {
    Fatal("Found 0 rocprofiler agents and %zu HSA agents", found.size());
  }
  std::lock_guard lock(Map().mutex);
  for (hsa_agent_t hsa_agent : found) {
    uint32_t node = 0;
    core.hsa_agent_get_info_fn(
        hsa_agent, static_cast<hsa_agent_info_t>(HSA_AMD_AGENT_INFO_DRIVER_NODE_ID),
        &node);
    for (const rocattach_sdk_agent* agent : Agents()) {
      if (agent->node_id == node) Map().by_handle[hsa_agent.handle] = agent;
    }
  }
}

const rocattach_sdk_agent* AgentOf(hsa_agent_t agent) {
  std::lock_guard lock(Map().mutex);
  auto found = Map().by_handle.find(agent.handle);
  return found != Map().by_handle.end() ? found->second : nullptr;
}

}  // namespace simrocm::sdk

using namespace simrocm::sdk;

SIMROCM_EXPORT rocattach_sdk_status
rocprofiler_query_available_agents(int32_t version, rocattach_sdk_agents_cb callback,
                                   size_t agent_size, void* user_data) {
  if (version != ROCATTACH_SDK_AGENT_INFO_VERSION_0) {
    return ROCATTACH_SDK_STATUS_ERROR_INVALID_ARGUMENT;
  }
  if (agent_size > sizeof(rocattach_sdk_agent)) {
    return ROCATTACH_SDK_STATUS_ERROR_INCOMPATIBLE_ABI;
  }
  std::vector<const void*> agents(Agents().begin(), Agents().end());
  return callback(version, agents.data(), agents.size(), user_data);
}
