#include "userspace/export/common/upstream_json.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "userspace/export/common/agent_properties.h"

namespace rocattach {
namespace {

// Size of the struct whose members correspond to the keys, in bytes.
constexpr uint64_t kStructBytes = 328;
constexpr size_t kUuidBytes = 16;

// A bit field of a number that the kernel driver reports, from the lowest bit on.
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

// Adds the bytes that the digits of "GPU-0123456789abcdef" denote.
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

// Sizes of the structs whose members correspond to the keys, in bytes.
constexpr uint64_t kCodeObjectBytes = 88;
constexpr uint64_t kKernelBytes = 88;
constexpr uint64_t kStorageFile = 1, kStorageMemory = 2;

// A number in a URI, such as "memory://PID#offset=0x7f00&size=100"; 0 if it is absent.
uint64_t UriNumber(absl::string_view uri, absl::string_view key) {
  const size_t fragment = uri.find('#');
  if (fragment == absl::string_view::npos) return 0;
  for (absl::string_view part : absl::StrSplit(uri.substr(fragment + 1), '&')) {
    uint64_t number = 0;
    if (!absl::ConsumePrefix(&part, key) || !absl::ConsumePrefix(&part, "=")) continue;
    const bool hexadecimal = absl::ConsumePrefix(&part, "0x");
    const bool valid = hexadecimal ? absl::SimpleHexAtoi(part, &number)
                                   : absl::SimpleAtoi(part, &number);
    return valid ? number : 0;
  }
  return 0;
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

bool IsInMemory(const v1::CodeObject& object) {
  return absl::StartsWith(object.uri(), "memory:");
}

void AddCodeObjectMembers(const v1::CodeObject& object, uint64_t agent,
                          JsonObject* json) {
  const bool known = object.id() != 0;
  json->Number("size", known ? kCodeObjectBytes : 0)
      .Number("code_object_id", object.id());
  // The key's name until 2025, and its current name.
  for (const char* key : {"rocp_agent", "agent_id"}) {
    json->Object(key).Number("handle", agent).End();
  }
  json->Text("uri", object.uri())
      .Number("load_base", object.load_base())
      .Number("load_size", object.load_bytes())
      .Signed("load_delta", object.load_delta());
  if (!known) {
    json->Number("storage_type", 0);
  } else if (IsInMemory(object)) {
    json->Number("storage_type", kStorageMemory)
        .Number("memory_base", UriNumber(object.uri(), "offset"))
        .Number("memory_size", UriNumber(object.uri(), "size"));
  } else {
    // It would be the number of a file that was open in the process.
    json->Number("storage_type", kStorageFile).Signed("storage_file", -1);
  }
}

void AddKernelMembers(const ExportKernel& known, JsonObject* json) {
  const v1::Kernel& kernel = known.kernel;
  const std::string& name = known.display_name;
  json->Number("size", kernel.id() == 0 ? 0 : kKernelBytes)
      .Number("kernel_id", kernel.id())
      .Number("code_object_id", kernel.code_object_id())
      .Text("kernel_name", kernel.name())
      .Number("kernel_object", kernel.kernel_object())
      .Number("kernarg_segment_size", kernel.kernarg_bytes())
      .Number("kernarg_segment_alignment", kernel.kernarg_alignment())
      .Number("group_segment_size", kernel.lds_bytes())
      .Number("private_segment_size", kernel.scratch_bytes())
      .Number("sgpr_count", kernel.sgprs())
      .Number("arch_vgpr_count", kernel.arch_vgprs())
      .Number("accum_vgpr_count", kernel.accum_vgprs())
      .Number("kernel_code_entry_byte_offset", 0);
  json->Object("kernel_address").Number("handle", 0).End();
  json->Text("formatted_kernel_name", name)
      .Text("demangled_kernel_name", name)
      .Text("truncated_kernel_name", name.substr(0, name.find('(')));
}

}  // namespace rocattach
