#include "userspace/cli/options/machine_gpus.h"

#include <algorithm>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "userspace/base/file.h"
#include "userspace/base/gpu_models.h"

namespace rocattach {
namespace {

constexpr size_t kMaxProperties = 64 << 10;
constexpr size_t kMostNodes = 4096;

struct Gpu {
  uint32_t node = 0;
  uint32_t target_version = 0;
  uint32_t device_id = 0;  // 0: not known
};

// Parses a node's properties; a node without a target version is not a GPU.
Gpu ParseProperties(const std::string& properties) {
  Gpu gpu;
  for (absl::string_view line : absl::StrSplit(properties, '\n')) {
    uint32_t value = 0;
    if (absl::ConsumePrefix(&line, "gfx_target_version ")) {
      if (absl::SimpleAtoi(line, &value)) gpu.target_version = value;
    } else if (absl::ConsumePrefix(&line, "device_id ")) {
      if (absl::SimpleAtoi(line, &value)) gpu.device_id = value;
    }
  }
  return gpu;
}

std::vector<Gpu> ReadGpus(const std::string& topology) {
  const std::string nodes = topology + "/nodes";
  std::vector<Gpu> gpus;
  const auto entries = ListFolder(nodes, kMostNodes);
  if (!entries.ok()) return gpus;
  for (const std::string& name : entries->names) {
    uint32_t node = 0;
    if (!absl::SimpleAtoi(name, &node)) continue;
    auto properties =
        ReadFile(absl::StrCat(nodes, "/", name, "/properties"), kMaxProperties);
    if (!properties.ok()) continue;
    Gpu gpu = ParseProperties(*properties);
    gpu.node = node;
    if (gpu.target_version != 0) gpus.push_back(gpu);
  }
  return gpus;
}

}  // namespace

std::vector<std::string> TopologyArchitectures(const std::string& topology) {
  std::set<std::string> names;
  for (const Gpu& gpu : ReadGpus(topology)) {
    names.insert(ArchitectureName(gpu.target_version));
  }
  return {names.begin(), names.end()};
}

std::string TopologyModel(const std::string& topology) {
  const std::vector<Gpu> gpus = ReadGpus(topology);
  if (gpus.empty()) return "";
  const auto first =
      std::min_element(gpus.begin(), gpus.end(),
                       [](const Gpu& a, const Gpu& b) { return a.node < b.node; });
  const absl::string_view model = GpuModelName(first->device_id);
  if (!model.empty()) return std::string(model);
  return ArchitectureName(first->target_version);
}

}  // namespace rocattach
