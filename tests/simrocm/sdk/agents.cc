#include "tests/simrocm/sdk/agents.h"

#include <dlfcn.h>
#include <hsa/hsa_ext_amd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <string>

#include "tests/simrocm/call_log.h"
#include "tests/simrocm/environment.h"
#include "tests/simrocm/sdk/state.h"

namespace simrocm::sdk {
namespace {

constexpr uint64_t kFirstAgent = 0x3c00;

// A node's properties from the driver, by name; numbers that are missing there are 0.
class Properties {
 public:
  static bool Exists(uint32_t node) {
    return std::ifstream(Path(node, "gpu_id")).good();
  }
  explicit Properties(uint32_t node) {
    Read(Path(node, "properties"));
    Read(Path(node, "mem_banks/0/properties"));
    std::ifstream(Path(node, "name")) >> model_;
  }
  uint64_t Long(const std::string& name) const {
    const auto found = numbers_.find(name);
    return found != numbers_.end() ? found->second : 0;
  }
  uint32_t operator[](const std::string& name) const {
    return static_cast<uint32_t>(Long(name));
  }
  const std::string& model() const { return model_; }

 private:
  static std::string Path(uint32_t node, const std::string& file) {
    return "/sys/class/kfd/kfd/topology/nodes/" + std::to_string(node) + "/" + file;
  }
  void Read(const std::string& path) {
    std::ifstream file(path);
    std::string name;
    uint64_t number;
    while (file >> name >> number) numbers_[name] = number;
  }

  std::map<std::string, uint64_t> numbers_;
  std::string model_;
};

const char* Keep(const std::string& text) {
  return strdup(text.c_str());
}

// libdrm's function of this name returns it; the simulated GPU has one.
std::string MarketingName() {
  using Name = const char* (*)(void*);
  const auto name =
      reinterpret_cast<Name>(dlsym(RTLD_DEFAULT, "amdgpu_get_marketing_name"));
  return name != nullptr ? name(nullptr) : "";
}

void FillGpu(const Properties& p, rocattach_sdk_agent* agent) {
  const unsigned version = p["gfx_target_version"];
  char name[16];
  snprintf(name, sizeof(name), "gfx%u%u%x", version / 10000, version / 100 % 100,
           version % 100);
  agent->name = Keep(name);
  agent->vendor_name = "AMD";
  agent->product_name = Keep(MarketingName());
  agent->model_name = Keep(p.model());
  agent->gfx_target_version = version;
  // The simulated GPUs have one XCC; a test may request more.
  const int xccs = atoi(GetString("SIMROCM_XCCS").c_str());
  agent->num_xcc = xccs > 0 ? static_cast<uint32_t>(xccs) : 1;
  const uint32_t simds = p["simd_per_cu"];
  agent->cu_count = p["simd_count"] / (simds != 0 ? simds : 1);
  agent->num_shader_banks = p["array_count"];
  agent->cu_per_engine =
      agent->num_shader_banks != 0 ? agent->cu_count / agent->num_shader_banks : 0;
  agent->max_waves_per_cu = p["max_waves_per_simd"] * simds;
  agent->family_id = 141;  // that of gfx9
  agent->workgroup_max_size = 1024;
  agent->grid_max_size = UINT32_MAX;
  agent->workgroup_max_dim = {1024, 1024, 1024};
  agent->grid_max_dim = {UINT32_MAX, UINT32_MAX, UINT32_MAX};
  agent->gpu_id = 0x1000 + agent->node_id;
  const uint64_t id = p.Long("unique_id");
  memcpy(agent->uuid, &id, sizeof(id));
}

void Fill(const Properties& p, uint32_t node, rocattach_sdk_agent* agent) {
  agent->size = sizeof(*agent);
  agent->node_id = node;
  agent->id.handle = kFirstAgent + node;
  agent->type =
      p["simd_count"] != 0 ? ROCATTACH_SDK_AGENT_GPU : ROCATTACH_SDK_AGENT_CPU;
  agent->cpu_cores_count = p["cpu_cores_count"];
  agent->simd_count = p["simd_count"];
  agent->mem_banks_count = p["mem_banks_count"];
  agent->caches_count = p["caches_count"];
  agent->io_links_count = p["io_links_count"];
  agent->max_waves_per_simd = p["max_waves_per_simd"];
  agent->lds_size_in_kb = p["lds_size_in_kb"];
  agent->gds_size_in_kb = p["gds_size_in_kb"];
  agent->num_gws = p["num_gws"];
  agent->wave_front_size = p["wave_front_size"];
  agent->array_count = p["simd_arrays_per_engine"];
  agent->simd_arrays_per_engine = p["simd_arrays_per_engine"];
  agent->cu_per_simd_array = p["cu_per_simd_array"];
  agent->simd_per_cu = p["simd_per_cu"];
  agent->vendor_id = p["vendor_id"];
  agent->device_id = p["device_id"];
  agent->location_id = p["location_id"];
  agent->domain = p["domain"];
  agent->drm_render_minor = p["drm_render_minor"];
  agent->num_sdma_engines = p["num_sdma_engines"];
  agent->num_sdma_xgmi_engines = p["num_sdma_xgmi_engines"];
  agent->num_sdma_queues_per_engine = p["num_sdma_queues_per_engine"];
  agent->num_cp_queues = p["num_cp_queues"];
  agent->max_engine_clk_ccompute = p["max_engine_clk_ccompute"];
  agent->max_engine_clk_fcompute = p["max_engine_clk_fcompute"];
  agent->fw_version = p["fw_version"];
  agent->capability = p["capability"];
  agent->local_mem_size = p.Long("size_in_bytes");
  agent->hive_id = p.Long("hive_id");
  agent->runtime_visibility = 3;
  agent->vendor_name = agent->product_name = agent->name = agent->model_name = "CPU";
  if (agent->type == ROCATTACH_SDK_AGENT_GPU) FillGpu(p, agent);
}

// True for a GPU that is to look as if its render node could not be opened.
bool IsBlind(const rocattach_sdk_agent& agent) {
  const std::string blind = GetString("SIMROCM_BLIND_GPU");
  return agent.type == ROCATTACH_SDK_AGENT_GPU && !blind.empty() &&
         agent.logical_node_type_id == atoi(blind.c_str());
}

std::vector<const rocattach_sdk_agent*> ReadTopology() {
  std::vector<const rocattach_sdk_agent*> agents;
  if (GetBool("SIMROCM_NO_TOPOLOGY", false)) return agents;
  int32_t by_type[3] = {};
  for (uint32_t node = 0; Properties::Exists(node); ++node) {
    auto* agent = new rocattach_sdk_agent{};
    Fill(Properties(node), node, agent);
    agent->logical_node_id = static_cast<int32_t>(agents.size());
    agent->logical_node_type_id = by_type[agent->type]++;
    if (IsBlind(*agent)) agent->name = "";
    agents.push_back(agent);
  }
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
