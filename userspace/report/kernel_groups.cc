#include "userspace/report/kernel_groups.h"

#include <re2/re2.h>

#include <algorithm>
#include <map>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "userspace/base/status_macros.h"
#include "userspace/counters/document.h"

namespace rocattach {
namespace {

// Memory of one compiled expression; RE2 falls back to a slower, still linear algorithm
// when its cache is full.
constexpr int64_t kPatternMemory = 1 << 20;
constexpr size_t kMaxPatterns = 4096;

absl::StatusOr<std::unique_ptr<re2::RE2>> Compile(const Document& node,
                                                  absl::string_view place) {
  if (!node.is_string() || node.get_ref<const std::string&>().empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        place, ": an expression must be text; put it between single quotes"));
  }
  re2::RE2::Options options;
  options.set_log_errors(false);
  options.set_max_mem(kPatternMemory);
  options.set_encoding(re2::RE2::Options::EncodingLatin1);  // names can be any bytes
  auto re = std::make_unique<re2::RE2>(node.get_ref<const std::string&>(), options);
  if (!re->ok()) {
    return absl::InvalidArgumentError(absl::StrCat(place, ": expression \"",
                                                   node.get_ref<const std::string&>(),
                                                   "\": ", re->error()));
  }
  return re;
}

bool Matches(const std::vector<std::unique_ptr<re2::RE2>>& patterns,
             const re2::StringPiece& name) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const auto& pattern) {
    return re2::RE2::PartialMatch(name, *pattern);
  });
}

}  // namespace

KernelGroups::KernelGroups() = default;
KernelGroups::~KernelGroups() = default;

absl::Status KernelGroups::AddFile(const std::string& path) {
  ASSIGN_OR_RETURN(const Document document, ReadDocument(path));
  if (!document.is_object() || document.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        path,
        ": expected groups, each with a list of expressions (\"name: ['a', "
        "'b']\")"));
  }
  size_t patterns = 0;
  for (const auto& item : document.items()) {
    const std::string& name = item.key();
    const auto& list = item.value();
    const std::string place = absl::StrCat(path, ": group ", name);
    if (name.empty() || !list.is_array()) {
      return absl::InvalidArgumentError(
          absl::StrCat(place, ": expected a list of regular expressions"));
    }
    auto group = std::find_if(groups_.begin(), groups_.end(),
                              [&](const Group& known) { return known.name == name; });
    if (group == groups_.end()) group = groups_.insert(group, Group{name, {}});
    for (const Document& node : list) {
      if (++patterns > kMaxPatterns) {
        return absl::InvalidArgumentError(
            absl::StrCat(path, ": more than ", kMaxPatterns, " expressions"));
      }
      ASSIGN_OR_RETURN(auto pattern, Compile(node, place));
      group->patterns.push_back(std::move(pattern));
    }
  }
  return absl::OkStatus();
}

absl::string_view KernelGroups::Find(absl::string_view name,
                                     absl::string_view mangled) const {
  const re2::StringPiece names[] = {{name.data(), name.size()},
                                    {mangled.data(), mangled.size()}};
  for (const Group& group : groups_) {
    if (Matches(group.patterns, names[0]) || Matches(group.patterns, names[1])) {
      return group.name;
    }
  }
  return "";
}

std::vector<GroupReport> GroupKernels(const std::vector<KernelReport>& kernels,
                                      const KernelGroups& groups) {
  std::map<std::string, GroupReport, std::less<>> found;
  for (const KernelReport& kernel : kernels) {
    const absl::string_view name = groups.Find(kernel.name, kernel.kernel.name());
    GroupReport& group = found[std::string(name)];
    group.name = std::string(name);
    ++group.kernels;
    group.count += kernel.count;
    group.durations.Merge(kernel.durations);
  }
  std::vector<GroupReport> list;
  list.reserve(found.size());
  for (auto& [name, group] : found) list.push_back(std::move(group));
  std::stable_sort(list.begin(), list.end(), [](const auto& a, const auto& b) {
    return a.durations.sum() > b.durations.sum();
  });
  return list;
}

}  // namespace rocattach
