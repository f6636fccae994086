#include "userspace/export/workload/compute_sysinfo.h"

#include <time.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "userspace/base/file.h"
#include "userspace/base/gpu_models.h"
#include "userspace/export/common/agent_properties.h"

namespace rocattach {
namespace {

constexpr char kUnknown[] = "N/A";
// Version of the layout of sysinfo.csv.
constexpr char kSysinfoVersion[] = "3";
constexpr size_t kMaxFileBytes = 1 << 20;

// Properties that the products of an architecture share, and that no recorded driver
// interface reports.
struct Architecture {
  absl::string_view prefix;
  absl::string_view series;
  uint32_t l1_kib;    // vector cache of a compute unit
  uint32_t l2_kib;    // per die
  uint32_t l2_banks;  // per die
  uint32_t memory_mhz;
  uint32_t cus_per_sqc;  // compute units per instruction cache
  bool partitions;
};
constexpr Architecture kArchitectures[] = {
    {"gfx906", "MI50", 16, 4096, 16, 1000, 3, false},
    {"gfx908", "MI100", 16, 8192, 32, 1200, 3, false},
    {"gfx90a", "MI200", 16, 8192, 32, 1600, 2, false},
    {"gfx94", "MI300", 32, 4096, 16, 1300, 2, true},
    {"gfx950", "MI350", 32, 4096, 16, 1900, 2, true},
};
constexpr Architecture kOther = {"", "", 16, 4096, 16, 1000, 2, false};
constexpr uint32_t kLdsBanks = 32;
constexpr uint32_t kPipes = 4;
constexpr uint32_t kMaxWorkgroup = 1024;
constexpr uint32_t kMemoryChannels = 128;  // of GPUs that can be partitioned
constexpr uint32_t kBytesPerChannelAndClock = 32;

const Architecture& ArchitectureOf(absl::string_view name) {
  for (const Architecture& known : kArchitectures) {
    if (absl::StartsWith(name, known.prefix)) return known;
  }
  return kOther;
}

// Reads files of this machine; returns nothing if the recording is of another machine.
class Machine {
 public:
  explicit Machine(const v1::StreamHeader& header) {
    const auto boot = ReadFile("/proc/sys/kernel/random/boot_id", kMaxFileBytes);
    same_ = boot.ok() && !header.boot_id().empty() &&
            absl::StripAsciiWhitespace(*boot) == header.boot_id();
  }

  // The whole file without surrounding blanks; empty if there is none.
  std::string Text(const std::string& path) const {
    if (!same_) return "";
    auto text = ReadFile(path, kMaxFileBytes);
    return text.ok() ? std::string(absl::StripAsciiWhitespace(*text)) : "";
  }
  // The text after `key` in the first line that begins with it.
  std::string Value(const std::string& path, absl::string_view key) const {
    const std::string text = Text(path);
    for (absl::string_view line : absl::StrSplit(text, '\n')) {
      if (!absl::ConsumePrefix(&line, key)) continue;
      return std::string(absl::StripAsciiWhitespace(
          absl::StripPrefix(absl::StripAsciiWhitespace(line), ":")));
    }
    return "";
  }

 private:
  bool same_ = false;
};

// A row under construction: names and values.
class Sysinfo {
 public:
  void Text(absl::string_view name, std::string value) {
    // Keeps the value on one line, whatever name a process has.
    for (char& byte : value) {
      if (absl::ascii_iscntrl(static_cast<unsigned char>(byte))) byte = ' ';
    }
    names_.emplace_back(name);
    values_.push_back(value.empty() ? kUnknown : std::move(value));
  }
  void Number(absl::string_view name, uint64_t value) {
    Text(name, absl::StrCat(value));
  }
  std::string Csv() const {
    std::vector<std::string> cells;
    for (const std::string& value : values_) {
      const bool plain = value.find_first_of(",\"") == std::string::npos;
      cells.push_back(
          plain
              ? value
              : absl::StrCat("\"", absl::StrReplaceAll(value, {{"\"", "\"\""}}), "\""));
    }
    return absl::StrCat(absl::StrJoin(names_, ","), "\n", absl::StrJoin(cells, ","),
                        "\n");
  }

 private:
  std::vector<std::string> names_, values_;
};

std::string Timestamp(const ExportProcess& process) {
  const uint64_t realtime = process.RealtimeNs(process.header().clock().boottime_ns());
  const time_t seconds = static_cast<time_t>(realtime / 1'000'000'000);
  if (seconds == 0) return "";
  tm local;
  localtime_r(&seconds, &local);
  char text[64];
  strftime(text, sizeof(text), "%a %b %e %H:%M:%S %Y (%Z)", &local);
  return text;
}

void AddMachine(const ExportProcess& process, const Machine& machine, Sysinfo* row) {
  row->Text("timestamp", Timestamp(process));
  row->Text("version", kSysinfoVersion);
  row->Text("hostname", process.header().hostname());
  const v1::Agent* cpu = process.FirstCpu();
  std::string cpu_model = machine.Value("/proc/cpuinfo", "model name");
  if (cpu_model.empty() && cpu != nullptr) {
    cpu_model = cpu->product_name().empty() ? cpu->name() : cpu->product_name();
  }
  row->Text("cpu_model", cpu_model);
  row->Text("sbios", machine.Text("/sys/class/dmi/id/bios_vendor") +
                         machine.Text("/sys/class/dmi/id/bios_version"));
  std::string distro = machine.Value("/etc/os-release", "PRETTY_NAME=");
  row->Text("linux_distro",
            std::string(absl::StripSuffix(absl::StripPrefix(distro, "\""), "\"")));
  row->Text("linux_kernel_version", process.header().kernel_release());
  row->Text("amd_gpu_kernel_version", machine.Text("/sys/module/amdgpu/version"));
  const std::string memory = machine.Value("/proc/meminfo", "MemTotal");
  row->Text("cpu_memory", std::string(absl::StripSuffix(memory, " kB")));
}

// The content of one of the device's files in sysfs.
std::string DeviceFile(const Machine& machine, const v1::Agent& gpu, const char* name) {
  const uint64_t minor = DriverProperty(gpu, "drm_render_minor", 0);
  if (minor == 0) return "";
  return machine.Text(absl::StrCat("/sys/class/drm/renderD", minor, "/device/", name));
}

uint32_t MemoryClock(const Machine& machine, const v1::Agent& gpu,
                     const Architecture& architecture) {
  const std::string clock =
      machine.Value(absl::StrCat("/sys/class/kfd/kfd/topology/nodes/", gpu.node_id(),
                                 "/mem_banks/0/properties"),
                    "mem_clk_max ");
  uint32_t mhz = 0;
  return absl::SimpleAtoi(clock, &mhz) && mhz != 0 ? mhz : architecture.memory_mhz;
}

uint32_t ScalarCaches(const v1::Agent& gpu, uint32_t engines, uint32_t cus_per_cache) {
  const uint32_t cus = (gpu.compute_units() + engines - 1) / engines;
  return (cus + cus_per_cache - 1) / cus_per_cache * engines;
}

// Number of memory channels of a GPU in this mode.
uint32_t MemoryChannels(absl::string_view mode, uint32_t l2_channels) {
  uint32_t parts = 0;
  if (!absl::ConsumePrefix(&mode, "NPS") || !absl::SimpleAtoi(mode, &parts) ||
      parts == 0) {
    return l2_channels;
  }
  return std::max<uint32_t>(kMemoryChannels / parts, 1);
}

void AddGpu(const v1::Agent& gpu, const Machine& machine, Sysinfo* row) {
  const std::string name = gpu.name().substr(0, gpu.name().find(':'));
  const Architecture& architecture = ArchitectureOf(name);
  const std::string series =
      architecture.series.empty() ? name : std::string(architecture.series);
  const uint64_t device = DriverProperty(gpu, "device_id", 0);
  std::string model(GpuModelName(static_cast<uint32_t>(device)));
  if (model.empty()) model = series;
  std::string compute = kUnknown, memory = kUnknown;
  if (architecture.partitions) {
    compute = DeviceFile(machine, gpu, "current_compute_partition");
    memory = DeviceFile(machine, gpu, "current_memory_partition");
    if (compute.empty()) compute = "SPX";
    if (memory.empty()) memory = "NPS1";
  }
  const uint32_t xcds = static_cast<uint32_t>(std::max<uint64_t>(
      gpu.xccs() != 0 ? gpu.xccs() : DriverProperty(gpu, "num_xcc", 1), 1));
  const uint32_t engines = std::max(gpu.shader_engines(), 1u);
  const uint32_t l2_channels = architecture.l2_banks * xcds;
  const uint32_t channels = MemoryChannels(memory, l2_channels);
  const uint32_t memory_mhz = MemoryClock(machine, gpu, architecture);
  row->Number("gpu_memory", gpu.local_memory_bytes() / 1024);
  row->Text("rocm_version", machine.Text("/opt/rocm/.info/version"));
  row->Text("vbios", DeviceFile(machine, gpu, "vbios_version"));
  row->Text("compute_partition", compute);
  row->Text("memory_partition", memory);
  row->Text("gpu_series", series);
  row->Text("gpu_model", model);
  row->Text("gpu_arch", name);
  row->Number("gpu_chip_id", device);
  row->Number("gpu_l1", architecture.l1_kib);
  row->Number("gpu_l2", architecture.l2_kib);
  row->Number("cu_per_gpu", gpu.compute_units());
  row->Number("simd_per_cu", gpu.simds_per_cu());
  row->Number("se_per_gpu", engines);
  row->Number("sa_per_se",
              std::max<uint64_t>(DriverProperty(gpu, "simd_arrays_per_engine", 1), 1));
  row->Number("wave_size", gpu.wavefront_size());
  row->Number("workgroup_max_size", kMaxWorkgroup);
  row->Number("max_waves_per_cu", gpu.max_waves_per_cu());
  row->Number("max_sclk", gpu.max_clock_mhz());
  row->Number("max_mclk", memory_mhz);
  row->Number("cur_sclk", gpu.max_clock_mhz());
  row->Number("cur_mclk", memory_mhz);
  row->Number("l2_banks", architecture.l2_banks);
  row->Number("total_l2_chan", l2_channels);
  row->Number("lds_banks_per_cu", kLdsBanks);
  row->Number("sqc_per_gpu", ScalarCaches(gpu, engines, architecture.cus_per_sqc));
  row->Number("pipes_per_gpu", kPipes);
  row->Text("hbm_bw",
            absl::StrCat(memory_mhz / 1000.0 * kBytesPerChannelAndClock * channels));
  row->Number("num_xcd", xcds);
  row->Number("num_hbm_channels", channels);
  row->Number("num_memory_channels", channels);
}

}  // namespace

std::string CommandLine(const v1::Process& process) {
  const std::string line = absl::StrJoin(process.arguments(), " ");
  return line.empty() ? process.comm() : line;
}

std::string ComputeSysinfo(const ExportProcess& process, const v1::Agent& gpu,
                           const ComputeWorkload& workload) {
  const Machine machine(process.header());
  Sysinfo row;
  row.Text("workload_name", workload.name);
  row.Text("workload_path", workload.directory);
  row.Text("command", workload.command);
  row.Text("ip_blocks", "SQ|LDS|SQC|TA|TD|TCP|TCC|SPI|CPC|CPF");
  AddMachine(process, machine, &row);
  AddGpu(gpu, machine, &row);
  return row.Csv();
}

}  // namespace rocattach
