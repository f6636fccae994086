#include "userspace/export/csv_agents.h"

#include <algorithm>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

void AddAgent(const ExportProcess& process, const v1::Agent& agent, CsvRow row) {
  const bool gpu = agent.type() == v1::AGENT_TYPE_GPU;
  const uint32_t simds = agent.compute_units() * agent.simds_per_cu();
  const uint32_t engines = agent.shader_engines();
  const auto unknown = [&](int columns) {
    while (columns-- > 0) row.Number(0);
  };
  row.Number(agent.node_id())
      .Number(process.PlaceOf(agent.id()).relative)
      .Text(gpu ? "GPU" : "CPU")
      .Number(gpu ? 0 : agent.compute_units())  // CPU cores
      .Number(gpu ? simds : 0);
  unknown(2);  // first core and SIMD numbers
  row.Number(
      agent.simds_per_cu() == 0 ? 0 : agent.max_waves_per_cu() / agent.simds_per_cu());
  unknown(3);  // LDS, GDS, GWS
  row.Number(agent.wavefront_size())
      .Number(agent.xccs())
      .Number(gpu ? agent.compute_units() : 0);
  unknown(1);  // shader arrays
  row.Number(engines);
  unknown(2);  // arrays of an engine, units of an array
  row.Number(agent.simds_per_cu());
  unknown(1);  // scratch slots
  row.Number(GfxTargetVersion(agent.name()));
  unknown(2);  // vendor, device
  row.Number(agent.pci_bdf() & 0xffff).Number(agent.pci_bdf() >> 16);
  unknown(5);  // render minor, SDMA engines and queues, CP queues
  if (gpu) {
    row.Number(0).Number(agent.max_clock_mhz());
  } else {
    row.Number(agent.max_clock_mhz()).Number(0);
  }
  unknown(3);  // firmware versions, capability
  row.Number(engines == 0 ? 0 : agent.compute_units() / engines)
      .Number(agent.max_waves_per_cu());
  unknown(3);  // family, largest work-group and grid
  row.Number(agent.local_memory_bytes());
  unknown(8);  // hive, GPU id, largest dimensions
  row.Text(agent.name())
      .Text(gpu ? "AMD" : "CPU")
      .Text(agent.product_name())
      .Text("")
      .End();
}

}  // namespace

uint32_t GfxTargetVersion(absl::string_view name) {
  // Two decimal digits of the major version, then hexadecimal minor and stepping.
  uint32_t major = 0, minor = 0, stepping = 0;
  if (!absl::ConsumePrefix(&name, "gfx") || name.size() < 3) return 0;
  if (!absl::SimpleAtoi(name.substr(0, name.size() - 2), &major) ||
      !absl::SimpleHexAtoi(name.substr(name.size() - 2, 1), &minor) ||
      !absl::SimpleHexAtoi(name.substr(name.size() - 1), &stepping)) {
    return 0;
  }
  return major * 10000 + minor * 100 + stepping;
}

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
