#include "userspace/counters/request.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "userspace/base/nearest_names.h"
#include "userspace/base/session_status.h"
#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

absl::Status UnknownGroup(absl::string_view kind, absl::string_view name,
                          absl::string_view where,
                          const std::vector<std::string>& known) {
  return SessionError(SessionStatus::kCounterNotFound,
                      absl::StrCat(where, " has no ", kind, " \"", name, "\"",
                                   DidYouMean(NearestNames(name, known, 3)),
                                   "; 'rocattach counters' lists what there is"));
}

std::vector<std::string> SetNames(const ArchitectureCounters& architecture) {
  std::vector<std::string> names;
  for (const CounterGroup& set : architecture.sets()) names.push_back(set.name);
  return names;
}

std::vector<std::string> BlockNames(const ArchitectureCounters& architecture) {
  std::vector<std::string> names;
  for (const CounterGroup& section : architecture.sections())
    names.push_back(section.name);
  for (const CounterBlock& block : architecture.blocks()) names.push_back(block.name);
  return names;
}

// The section with that number; else all sections below it: "--block 3.1" means 3.1.1,
// 3.1.2 …
std::vector<const CounterGroup*> Sections(const ArchitectureCounters& architecture,
                                          absl::string_view name) {
  if (const CounterGroup* exact = architecture.FindSection(name); exact != nullptr) {
    return {exact};
  }
  std::vector<const CounterGroup*> found;
  const std::string below = absl::StrCat(name, ".");
  for (const CounterGroup& section : architecture.sections()) {
    if (absl::StartsWith(section.name, below)) found.push_back(&section);
  }
  return found;
}

// ROCm's compute profiler numbers each metric of a table: 5.1.1 is the second one of
// table 5.1. Not all of them are known; the others stand for their table, or for their
// section if it has no tables of its own. Empty if neither of these is known for the
// metric.
std::vector<const CounterGroup*> SectionsAround(
    const ArchitectureCounters& architecture, absl::string_view metric) {
  const absl::string_view table = metric.substr(0, metric.rfind('.'));
  const absl::string_view section = table.substr(0, table.find('.'));
  if (const CounterGroup* known = architecture.FindSection(table); known != nullptr) {
    return {known};
  }
  const std::string below = absl::StrCat(section, ".");
  for (const CounterGroup& other : architecture.sections()) {
    const absl::string_view name = other.name;
    if (absl::StartsWith(name, below) && name.find('.', below.size()) == name.npos) {
      return {};
    }
  }
  const CounterGroup* known = architecture.FindSection(section);
  return known == nullptr ? std::vector<const CounterGroup*>()
                          : std::vector<const CounterGroup*>{known};
}

bool IsMetricNumber(absl::string_view name) {
  const std::vector<absl::string_view> parts = absl::StrSplit(name, '.');
  if (parts.size() != 3) return false;
  return std::all_of(parts.begin(), parts.end(), [](absl::string_view part) {
    uint32_t number = 0;
    return absl::SimpleAtoi(part, &number);
  });
}

// The counters of the block, section or metric of that name, if there is one.
absl::StatusOr<CounterNames> BlockMembers(const ArchitectureCounters& architecture,
                                          const std::string& name) {
  CounterNames names;
  if (architecture.FindBlock(name) != nullptr) {
    return architecture.Members({name, "", {name}});
  }
  std::vector<const CounterGroup*> sections = Sections(architecture, name);
  if (sections.empty() && IsMetricNumber(name)) {
    sections = SectionsAround(architecture, name);
  }
  for (const CounterGroup* section : sections) {
    ASSIGN_OR_RETURN(const CounterNames members, architecture.Members(*section));
    names.insert(names.end(), members.begin(), members.end());
  }
  if (names.empty()) {
    return UnknownGroup("block", name, architecture.name(), BlockNames(architecture));
  }
  return names;
}

}  // namespace

CounterNames SplitCounters(absl::string_view text) {
  return absl::StrSplit(text, absl::ByAnyChar(", \t\r\n"), absl::SkipEmpty());
}

absl::StatusOr<std::vector<CounterNames>> ResolveCounters(
    const ArchitectureCounters& architecture, const CounterOptions& options) {
  std::vector<CounterNames> groups;
  for (const auto& words : options.pmc) {
    CounterNames group;
    for (const std::string& word : words) {
      for (std::string& name : SplitCounters(word)) {
        if (!architecture.Knows(name)) return architecture.UnknownCounter(name);
        group.push_back(std::move(name));
      }
    }
    if (!group.empty()) groups.push_back(std::move(group));
  }
  for (const std::string& name : options.sets) {
    const CounterGroup* set = architecture.FindSet(name);
    if (set == nullptr) {
      return UnknownGroup("set", name, architecture.name(), SetNames(architecture));
    }
    ASSIGN_OR_RETURN(groups.emplace_back(), architecture.Members(*set));
  }
  for (const std::string& words : options.blocks) {
    for (const std::string& name : SplitCounters(words)) {
      ASSIGN_OR_RETURN(groups.emplace_back(), BlockMembers(architecture, name));
    }
  }
  return groups;
}

absl::Status CheckCounters(const CounterCatalog& catalog,
                           const CounterOptions& options) {
  for (const auto& words : options.pmc) {
    for (const std::string& word : words) {
      for (const std::string& name : SplitCounters(word)) {
        RETURN_IF_ERROR(catalog.CheckKnown(name));
      }
    }
  }
  std::vector<std::string> known_sets, known_blocks;
  for (const std::string& architecture : catalog.Architectures()) {
    for (std::string& name : SetNames(*catalog.Find(architecture))) {
      known_sets.push_back(std::move(name));
    }
    for (std::string& name : BlockNames(*catalog.Find(architecture))) {
      known_blocks.push_back(std::move(name));
    }
  }
  auto knows = [&](auto test) {
    for (const std::string& name : catalog.Architectures()) {
      if (test(*catalog.Find(name))) return true;
    }
    return false;
  };
  for (const std::string& name : options.sets) {
    if (!knows([&](const auto& a) { return a.FindSet(name) != nullptr; })) {
      return UnknownGroup("set", name, "the catalogue of counters", known_sets);
    }
  }
  for (const std::string& words : options.blocks) {
    for (const std::string& name : SplitCounters(words)) {
      if (!knows([&](const auto& a) { return BlockMembers(a, name).ok(); })) {
        return UnknownGroup("block", name, "the catalogue of counters", known_blocks);
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace rocattach
