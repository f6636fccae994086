#include "userspace/session/plan_tables.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "userspace/base/session_status.h"
#include "userspace/base/status_macros.h"

namespace rocattach {

absl::string_view ArchitectureName(absl::string_view name) {
  return name.substr(0, name.find(':'));
}

void SetBit(uint64_t* words, uint32_t bit) {
  words[bit / 64] |= uint64_t{1} << (bit % 64);
}

bool CopyRanges(const std::vector<NumberRange>& from, rocattach_plan_range* to,
                uint32_t& count) {
  count =
      static_cast<uint32_t>(std::min<size_t>(from.size(), ROCATTACH_PLAN_MAX_RANGES));
  for (uint32_t i = 0; i < count; ++i) to[i] = {from[i].first, from[i].last};
  if (from.size() <= ROCATTACH_PLAN_MAX_RANGES) return false;
  to[count - 1].last = from.back().last;
  return true;
}

absl::Status PlanTables::TooMany(absl::string_view what) {
  return SessionError(SessionStatus::kInvalidArguments,
                      absl::StrCat("the plan cannot hold more ", what));
}

absl::StatusOr<size_t> PlanTables::Architecture(absl::string_view architecture) {
  const absl::string_view name = ArchitectureName(architecture);
  for (size_t i = 0; i < plan_.architectures.size(); ++i) {
    if (plan_.architectures[i].counters->name() == name) return i;
  }
  const ArchitectureCounters* counters = plan_.catalog->Find(name);
  const size_t index = plan_.architectures.size();
  if (index == ROCATTACH_PLAN_MAX_ARCHITECTURES) return TooMany("architectures");
  plan_.architectures.push_back({counters, {}, {}});
  image_.architectures = static_cast<uint32_t>(index + 1);
  std::strncpy(image_.architecture[index].name, counters->name().c_str(),
               sizeof(image_.architecture[index].name) - 1);
  return index;
}

absl::StatusOr<uint16_t> PlanTables::Counter(const std::string& name) {
  auto& names = plan_.counter_names;
  auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) {
    if (names.size() == ROCATTACH_PLAN_MAX_COUNTERS) return TooMany("counters");
    names.push_back(name);
    found = names.end() - 1;
    std::strncpy(image_.counter_name[names.size() - 1], name.c_str(),
                 ROCATTACH_PLAN_NAME_BYTES - 1);
    image_.counters = static_cast<uint32_t>(names.size());
  }
  return static_cast<uint16_t>(found - names.begin());
}

absl::Status PlanTables::AddPasses(const PassAssignment& passes, uint16_t& first,
                                   uint16_t& count) {
  first = static_cast<uint16_t>(image_.passes);
  count = static_cast<uint16_t>(passes.passes.size());
  for (const CounterPass& pass : passes.passes) {
    if (image_.passes == ROCATTACH_PLAN_MAX_PASSES) return TooMany("passes");
    rocattach_plan_pass& out = image_.pass[image_.passes++];
    out.first_counter = static_cast<uint16_t>(image_.pass_counters_used);
    for (const std::string& name : pass.counters) {
      if (image_.pass_counters_used == ROCATTACH_PLAN_MAX_PASS_COUNTERS) {
        return TooMany("counters in passes");
      }
      ASSIGN_OR_RETURN(image_.pass_counters[image_.pass_counters_used], Counter(name));
      ++image_.pass_counters_used;
      ++out.counters;
    }
  }
  return absl::OkStatus();
}

}  // namespace rocattach
