#include "userspace/export/csv/csv_agents.h"

#include <algorithm>
#include <vector>

#include "userspace/base/status_macros.h"
#include "userspace/export/common/agent_properties.h"

namespace rocattach {
namespace {

void AddAgent(const ExportProcess& process, const v1::Agent& agent, CsvRow row) {
  const bool gpu = agent.type() == v1::AGENT_TYPE_GPU;
  const uint32_t engines = agent.shader_engines();
  const auto driver = [&agent, &row](absl::string_view name, uint64_t otherwise = 0) {
    row.Number(DriverProperty(agent, name, otherwise));
  };
  row.Number(agent.node_id())
      .Number(process.PlaceOf(agent.id()).relative)
      .Text(gpu ? "GPU" : "CPU");
  driver("cpu_cores_count", gpu ? 0 : agent.compute_units());
  driver("simd_count", gpu ? agent.compute_units() * agent.simds_per_cu() : 0);
  driver("cpu_core_id_base");
  driver("simd_id_base");
  driver("max_waves_per_simd", agent.simds_per_cu() == 0
                                   ? 0
                                   : agent.max_waves_per_cu() / agent.simds_per_cu());
  driver("lds_size_in_kb");
  driver("gds_size_in_kb");
  driver("num_gws");
  driver("wave_front_size", agent.wavefront_size());
  driver("num_xcc", agent.xccs());
  row.Number(gpu ? agent.compute_units() : 0);
  driver("array_count");
  row.Number(engines);
  driver("simd_arrays_per_engine");
  driver("cu_per_simd_array");
  driver("simd_per_cu", agent.simds_per_cu());
  driver("max_slots_scratch_cu");
  driver("gfx_target_version", GfxTargetVersion(agent.name()));
  driver("vendor_id");
  driver("device_id");
  driver("location_id", agent.pci_bdf() & 0xffff);
  driver("domain", agent.pci_bdf() >> 16);
  driver("drm_render_minor");
  driver("num_sdma_engines");
  driver("num_sdma_xgmi_engines");
  driver("num_sdma_queues_per_engine");
  driver("num_cp_queues");
  driver("max_engine_clk_ccompute", gpu ? 0 : agent.max_clock_mhz());
  driver("max_engine_clk_fcompute", gpu ? agent.max_clock_mhz() : 0);
  driver("sdma_fw_version");
  driver("fw_version");
  driver("capability");
  row.Number(engines == 0 ? 0 : agent.compute_units() / engines)
      .Number(agent.max_waves_per_cu());
  row.Number(agent.family_id())
      .Number(agent.workgroup_max_size())
      .Number(agent.grid_max_size());
  row.Number(agent.local_memory_bytes());
  driver("hive_id");
  driver("gpu_id");
  for (const auto* dimensions :
       {&agent.workgroup_max_dimensions(), &agent.grid_max_dimensions()}) {
    // A recording may contain any number of dimensions.
    for (int i = 0; i < 3; ++i) {
      row.Number(i < dimensions->size() ? dimensions->Get(i) : 0);
    }
  }
  row.Text(agent.name())
      .Text(gpu ? "AMD" : "CPU")
      .Text(agent.product_name())
      .Text(agent.model_name())
      .End();
}

}  // namespace

absl::Status WriteAgents(const ExportProcess& process, CsvFile* file) {
  if (process.agents().empty()) return absl::OkStatus();
  RETURN_IF_ERROR(file->Begin());
  std::vector<const v1::Agent*> by_node;
  for (const auto& [id, agent] : process.agents()) by_node.push_back(&agent);
  std::stable_sort(by_node.begin(), by_node.end(), [](const auto* a, const auto* b) {
    return a->node_id() < b->node_id();
  });
  for (const v1::Agent* agent : by_node) {
    AddAgent(process, *agent, file->Row());
    RETURN_IF_ERROR(file->Written());
  }
  return absl::OkStatus();
}

}  // namespace rocattach
