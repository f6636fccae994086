#include "userspace/watch/online_cpus.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "userspace/base/file.h"

namespace rocattach {
namespace {

constexpr char kOnline[] = "/sys/devices/system/cpu/online";
constexpr size_t kMostBytes = 64 << 10;
// The largest CONFIG_NR_CPUS.
constexpr int kMostCpus = 8192;

bool ParseNumber(absl::string_view text, int* number) {
  return !text.empty() && absl::SimpleAtoi(text, number) && *number >= 0 &&
         *number < kMostCpus;
}

}  // namespace

std::optional<std::vector<int>> ParseCpuList(absl::string_view text) {
  (void)absl::ConsumeSuffix(&text, "\n");
  std::vector<int> cpus;
  int next = 0;
  for (absl::string_view range : absl::StrSplit(text, ',')) {
    const std::pair<absl::string_view, absl::string_view> ends =
        absl::StrSplit(range, absl::MaxSplits('-', 1));
    int first = 0;
    if (!ParseNumber(ends.first, &first) || first < next) return std::nullopt;
    int last = first;
    if (range.size() != ends.first.size() &&
        (!ParseNumber(ends.second, &last) || last < first)) {
      return std::nullopt;
    }
    for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
    next = last + 1;
  }
  return cpus;
}

std::vector<int> ReadOnlineCpus() {
  if (const auto text = ReadFile(kOnline, kMostBytes); text.ok()) {
    if (auto cpus = ParseCpuList(*text); cpus.has_value()) return *std::move(cpus);
  }
  std::vector<int> all(std::max(0L, sysconf(_SC_NPROCESSORS_CONF)));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

}  // namespace rocattach
