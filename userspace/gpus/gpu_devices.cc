#include "userspace/gpus/gpu_devices.h"

#include <sys/stat.h>
#include <sys/utsname.h>

#include <algorithm>
#include <map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "userspace/base/file.h"
#include "userspace/base/gpu_models.h"
#include "userspace/base/status_macros.h"
#include "userspace/gpus/number_file.h"

namespace rocattach {
namespace {

constexpr size_t kMostPropertyBytes = 16 << 10;
constexpr size_t kMostMemoryBanks = 64;
constexpr size_t kMostModelBytes = 64;
constexpr uint32_t kPartitionShift = 28;

using Properties = std::map<std::string, uint64_t, std::less<>>;

absl::StatusOr<Properties> ReadProperties(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMostPropertyBytes));
  Properties properties;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::pair<absl::string_view, absl::string_view> pair =
        absl::StrSplit(line, absl::MaxSplits(' ', 1));
    if (const auto value = NumberIn(pair.second)) {
      properties.emplace(std::string(pair.first), *value);
    }
  }
  return properties;
}

uint64_t Value(const Properties& properties, const char* name) {
  const auto found = properties.find(name);
  return found == properties.end() ? 0 : found->second;
}

std::string PciAddress(const Properties& properties) {
  const uint64_t location = Value(properties, "location_id");
  return absl::StrFormat("%04x:%02x:%02x.%x", Value(properties, "domain"),
                         location >> 8 & 0xff, location >> 3 & 0x1f, location & 7);
}

// Bytes of the memory banks that are the GPU's own: heaps of type 1 and 2.
std::optional<uint64_t> BankBytes(const std::string& folder) {
  const auto banks = ListFolder(folder, kMostMemoryBanks);
  if (!banks.ok()) return std::nullopt;
  uint64_t bytes = 0;
  for (const std::string& bank : banks->names) {
    const auto properties =
        ReadProperties(absl::StrCat(folder, "/", bank, "/properties"));
    if (!properties.ok()) continue;
    const uint64_t heap = Value(*properties, "heap_type");
    if (heap == 1 || heap == 2) bytes += Value(*properties, "size_in_bytes");
  }
  if (bytes == 0) return std::nullopt;
  return bytes;
}

// A product's name, of printable characters; empty if it is not such a name.
std::string CleanModel(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  const bool clean = std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isprint(static_cast<unsigned char>(c));
  });
  return clean && text.size() <= kMostModelBytes ? std::string(text) : "";
}

std::string DrmFolder(const GpuRoots& roots, uint32_t render_minor) {
  return absl::StrCat(roots.drm, "/renderD", render_minor, "/device");
}

void FillFromDrm(const GpuRoots& roots, GpuDevice* device) {
  if (!device->render_minor.has_value()) return;
  const std::string folder = DrmFolder(roots, *device->render_minor);
  if (const auto link = ReadLink(folder); link.ok()) {
    device->device = link->substr(link->rfind('/') + 1);
  }
  if (const auto nodes = ListFolder(folder + "/drm", kMostGpus); nodes.ok()) {
    for (absl::string_view name : nodes->names) {
      uint32_t card = 0;
      if (absl::ConsumePrefix(&name, "card") && absl::SimpleAtoi(name, &card)) {
        device->card = card;
      }
    }
  }
  if (auto model = ReadFile(folder + "/product_name", 4096); model.ok()) {
    device->model = CleanModel(*model);
  }
  if (auto serial = ReadFile(folder + "/serial_number", 4096); serial.ok()) {
    device->serial = CleanModel(*serial);
  }
}

GpuDevice Describe(const GpuRoots& roots, uint32_t node, uint64_t gpu_id,
                   const Properties& properties) {
  GpuDevice device;
  device.node = node;
  device.gpu_id = static_cast<uint32_t>(gpu_id);
  device.pci = PciAddress(properties);
  const uint64_t location = Value(properties, "location_id");
  if (const uint64_t id = Value(properties, "unique_id"); id != 0) {
    device.uuid = absl::StrFormat("GPU-%016x", id);
  }
  device.key = GpuKey(device.uuid, device.pci, location);
  // Also set for a whole GPU; ReadGpuDevices() resets it.
  device.partition = static_cast<uint32_t>(location) >> kPartitionShift;
  device.architecture =
      ArchitectureName(static_cast<uint32_t>(Value(properties, "gfx_target_version")));
  if (const uint64_t render = Value(properties, "drm_render_minor"); render != 0) {
    device.render_minor = static_cast<uint32_t>(render);
  }
  FillFromDrm(roots, &device);
  if (device.model.empty()) {
    device.model = std::string(
        GpuModelName(static_cast<uint32_t>(Value(properties, "device_id"))));
  }
  device.vram_total_bytes =
      BankBytes(absl::StrCat(roots.kfd, "/topology/nodes/", node, "/mem_banks"));
  return device;
}

}  // namespace

std::string GpuKey(absl::string_view uuid, absl::string_view pci,
                   uint64_t location_id) {
  const auto partition = static_cast<uint32_t>(location_id) >> kPartitionShift;
  const absl::string_view whole = uuid.empty() ? pci : uuid;
  return partition == 0 ? std::string(whole) : absl::StrCat(whole, "/", partition);
}

absl::StatusOr<std::vector<GpuDevice>> ReadGpuDevices(const GpuRoots& roots) {
  const std::string nodes = roots.kfd + "/topology/nodes";
  ASSIGN_OR_RETURN(const FolderListing names, ListFolder(nodes, kMostGpus));
  if (names.cut) {
    return absl::OutOfRangeError(
        absl::StrCat(nodes, " contains more than ", kMostGpus, " nodes"));
  }
  std::vector<uint32_t> numbers;
  for (const std::string& name : names.names) {
    if (const auto number = NumberIn(name)) {
      numbers.push_back(static_cast<uint32_t>(*number));
    }
  }
  std::sort(numbers.begin(), numbers.end());
  std::vector<GpuDevice> devices;
  for (const uint32_t number : numbers) {
    const std::string node = absl::StrCat(nodes, "/", number);
    // 0 for a processor; cannot be read where a control group forbids the GPU.
    const auto gpu_id = ReadNumber(node + "/gpu_id");
    if (gpu_id.value_or(0) == 0) continue;
    ASSIGN_OR_RETURN(const Properties properties, ReadProperties(node + "/properties"));
    GpuDevice device = Describe(roots, number, *gpu_id, properties);
    device.index = static_cast<uint32_t>(devices.size());
    devices.push_back(std::move(device));
  }
  const std::string driver = ReadDriverVersion(roots);
  std::map<std::string, int> of_address;
  for (const GpuDevice& device : devices) ++of_address[device.pci];
  for (GpuDevice& device : devices) {
    device.driver = driver;
    if (of_address[device.pci] == 1) device.partition.reset();
  }
  return devices;
}

std::string ReadDriverVersion(const GpuRoots& roots) {
  // Only drivers that are built outside of the kernel have a version of their own.
  if (const auto version = ReadFile(roots.module + "/version", 256); version.ok()) {
    if (std::string clean = CleanModel(*version); !clean.empty()) return clean;
  }
  struct stat folder = {};
  utsname kernel = {};
  if (stat(roots.module.c_str(), &folder) != 0 || uname(&kernel) != 0) return "";
  return kernel.release;
}

void ReadChanging(const GpuRoots& roots, std::vector<GpuDevice>* devices) {
  for (GpuDevice& device : *devices) {
    device.vram_used_bytes.reset();
    device.busy_percent.reset();
    // The PCI device's numbers cover all its partitions together.
    if (device.partition.has_value() || !device.render_minor.has_value()) continue;
    const std::string folder = DrmFolder(roots, *device.render_minor);
    device.vram_used_bytes = ReadNumber(folder + "/mem_info_vram_used");
    if (const auto total = ReadNumber(folder + "/mem_info_vram_total")) {
      device.vram_total_bytes = total;
    }
    const auto busy = ReadNumber(folder + "/gpu_busy_percent");
    if (busy.has_value() && *busy <= 100) {
      device.busy_percent = static_cast<uint32_t>(*busy);
    }
  }
}

}  // namespace rocattach
