#include "userspace/export/common/agent_json.h"

#include <cstdint>

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "userspace/export/common/agent_properties.h"

namespace rocattach {
namespace {

// Bytes of the struct that the keys are members of.
constexpr uint64_t kStructBytes = 328;
constexpr size_t kUuidBytes = 16;

// A part of a number that the kernel driver reports, from the lowest bit on.
struct BitField {
  const char* key;
  int bits;
};

constexpr BitField kCapability[] = {{"HotPluggable", 1},
                                    {"HSAMMUPresent", 1},
                                    {"SharedWithGraphics", 1},
                                    {"QueueSizePowerOfTwo", 1},
                                    {"QueueSize32bit", 1},
                                    {"QueueIdleEvent", 1},
                                    {"VALimit", 1},
                                    {"WatchPointsSupported", 1},
                                    {"WatchPointsTotalBits", 4},
                                    {"DoorbellType", 2},
                                    {"AQLQueueDoubleMap", 1},
                                    {"DebugTrapSupported", 1},
                                    {"WaveLaunchTrapOverrideSupported", 1},
                                    {"WaveLaunchModeSupported", 1},
                                    {"PreciseMemoryOperationsSupported", 1},
                                    {"DEPRECATED_SRAM_EDCSupport", 1},
                                    {"Mem_EDCSupport", 1},
                                    {"RASEventNotify", 1},
                                    {"ASICRevision", 4},
                                    {"SRAM_EDCSupport", 1},
                                    {"SVMAPISupported", 1},
                                    {"CoherentHostAccess", 1},
                                    {"DebugSupportedFirmware", 1}};
constexpr BitField kEngineVersion[] = {
    {"uCode", 10}, {"Major", 6}, {"Minor", 8}, {"Stepping", 8}};
constexpr BitField kSdmaVersion[] = {{"uCodeSDMA", 10}, {"uCodeRes", 10}};

void AddBits(const char* key, uint64_t value, absl::Span<const BitField> fields,
             JsonObject* json) {
  json->Object(key);
  for (const BitField& field : fields) {
    json->Number(field.key, value & ((uint64_t{1} << field.bits) - 1));
    value >>= field.bits;
  }
  json->End();
}

// "GPU-0123456789abcdef" as the bytes that the digits are.
void AddUuid(absl::string_view text, JsonObject* json) {
  std::string bytes = "[";
  uint64_t number = 0;
  if (absl::ConsumePrefix(&text, "GPU-") && !absl::SimpleHexAtoi(text, &number)) {
    number = 0;
  }
  for (size_t i = 0; i < kUuidBytes; ++i) {
    if (i > 0) bytes.push_back(',');
    AppendNumber(i < 8 ? number >> (56 - 8 * i) & 0xff : 0, &bytes);
  }
  bytes.push_back(']');
  json->Object("uuid").Raw("bytes", bytes).End();
}

}  // namespace

void AddAgentMembers(const ExportProcess& process, const v1::Agent& agent,
                     JsonObject* json) {
  const AgentPlace place = process.PlaceOf(agent.id());
  const bool gpu = agent.type() == v1::AGENT_TYPE_GPU;
  const auto driver = [&](const char* key, uint64_t otherwise = 0) {
    return DriverProperty(agent, key, otherwise);
  };
  const auto add = [&](const char* key, uint64_t otherwise = 0) {
    json->Number(key, driver(key, otherwise) & 0xffffffff);
  };
  const auto add_dimensions = [&](const char* key) {
    json->Object(key).Number("x", 0).Number("y", 0).Number("z", 0).End();
  };
  const uint32_t engines = agent.shader_engines();
  const uint32_t simds = agent.simds_per_cu();
  json->Number("size", kStructBytes);
  json->Object("id").Number("handle", agent.node_id()).End();
  json->Number("type", gpu ? 2 : 1);
  add("cpu_cores_count", gpu ? 0 : agent.compute_units());
  add("simd_count", gpu ? uint64_t{agent.compute_units()} * simds : 0);
  for (const char* key : {"mem_banks_count", "caches_count", "io_links_count"}) {
    json->Number(key, 0);
  }
  add("cpu_core_id_base");
  add("simd_id_base");
  add("max_waves_per_simd", simds == 0 ? 0 : agent.max_waves_per_cu() / simds);
  add("lds_size_in_kb");
  add("gds_size_in_kb");
  add("num_gws");
  add("wave_front_size", agent.wavefront_size());
  add("num_xcc", agent.xccs());
  json->Number("cu_count", gpu ? agent.compute_units() : 0);
  add("array_count");
  json->Number("num_shader_banks", engines);
  add("simd_arrays_per_engine");
  add("cu_per_simd_array");
  add("simd_per_cu", simds);
  add("max_slots_scratch_cu");
  add("gfx_target_version", GfxTargetVersion(agent.name()));
  json->Number("vendor_id", driver("vendor_id") & 0xffff);
  json->Number("device_id", driver("device_id") & 0xffff);
  add("location_id", agent.pci_bdf() & 0xffff);
  add("domain", agent.pci_bdf() >> 16);
  add("drm_render_minor");
  add("num_sdma_engines");
  add("num_sdma_xgmi_engines");
  add("num_sdma_queues_per_engine");
  add("num_cp_queues");
  add("max_engine_clk_ccompute", gpu ? 0 : agent.max_clock_mhz());
  add("max_engine_clk_fcompute", gpu ? agent.max_clock_mhz() : 0);
  AddBits("sdma_fw_version", driver("sdma_fw_version"), kSdmaVersion, json);
  AddBits("fw_version", driver("fw_version"), kEngineVersion, json);
  AddBits("capability", driver("capability"), kCapability, json);
  json->Number("cu_per_engine", engines == 0 ? 0 : agent.compute_units() / engines)
      .Number("max_waves_per_cu", agent.max_waves_per_cu());
  for (const char* key : {"family_id", "workgroup_max_size", "grid_max_size"}) add(key);
  json->Number("local_mem_size", agent.local_memory_bytes())
      .Number("hive_id", driver("hive_id"))
      .Number("gpu_id", driver("gpu_id"));
  add_dimensions("workgroup_max_dim");
  add_dimensions("grid_max_dim");
  json->Text("name", agent.name())
      .Text("vendor_name", gpu ? "AMD" : "CPU")
      .Text("product_name", agent.product_name())
      .Text("model_name", agent.model_name())
      .Number("node_id", agent.node_id())
      .Number("logical_node_id", place.relative)
      .Number("logical_node_type_id", place.type_relative);
  json->Object("runtime_visibility");
  for (const char* key : {"hsa", "hip", "rccl", "rocdecode"}) json->Number(key, 1);
  json->End();
  AddUuid(agent.uuid(), json);
  for (const char* key : {"mem_banks", "caches", "io_links"}) json->Raw(key, "[]");
  json->Signed("gpu_index", gpu ? int64_t{place.type_relative} : -1);
}

}  // namespace rocattach
