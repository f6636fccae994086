#include "userspace/cli/machine_gpus.h"

#include <dirent.h>

#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "userspace/base/file.h"

namespace rocattach {
namespace {

constexpr size_t kMaxProperties = 64 << 10;

}  // namespace

std::string ArchitectureName(uint32_t target_version) {
  return absl::StrFormat("gfx%d%x%x", target_version / 10'000,
                         target_version / 100 % 100, target_version % 100);
}

std::vector<std::string> TopologyArchitectures(const std::string& topology) {
  const std::string nodes = topology + "/nodes";
  std::set<std::string> names;
  DIR* directory = opendir(nodes.c_str());
  if (directory == nullptr) return {};
  while (const dirent* entry = readdir(directory)) {
    if (entry->d_name[0] == '.') continue;
    auto properties =
        ReadFile(nodes + "/" + entry->d_name + "/properties", kMaxProperties);
    if (!properties.ok()) continue;
    for (absl::string_view line : absl::StrSplit(*properties, '\n')) {
      uint32_t version = 0;
      // 0 is a processor's.
      if (absl::ConsumePrefix(&line, "gfx_target_version ") &&
          absl::SimpleAtoi(line, &version) && version != 0) {
        names.insert(ArchitectureName(version));
      }
    }
  }
  closedir(directory);
  return {names.begin(), names.end()};
}

}  // namespace rocattach
