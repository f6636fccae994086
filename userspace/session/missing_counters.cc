#include "userspace/session/missing_counters.h"

#include <algorithm>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace rocattach {
namespace {

// Type of the payload of a status.
constexpr absl::string_view kMissingCounter = "rocattach.MissingCounter";

bool Contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// True if this counter or metric needs the counter on a GPU that the plan measures.
bool Needs(const std::string& name, const std::string& counter,
           const CompiledPlan& plan) {
  if (name == counter) return true;
  return std::any_of(plan.architectures.begin(), plan.architectures.end(),
                     [&](const PlanArchitecture& architecture) {
                       const DerivedMetric* metric =
                           architecture.counters->FindMetric(name);
                       return metric != nullptr && Contains(metric->counters, counter);
                     });
}

}  // namespace

void SetMissingCounter(absl::string_view counter, absl::Status* refusal) {
  refusal->SetPayload(kMissingCounter, absl::Cord(counter));
}

std::string MissingCounter(const absl::Status& refusal) {
  return std::string(refusal.GetPayload(kMissingCounter).value_or(absl::Cord()));
}

bool LeaveOut(const std::string& counter, const CompiledPlan& plan,
              std::vector<FilterSpec>* filters) {
  if (counter.empty()) return false;
  std::vector<FilterSpec> kept = *filters;
  size_t removed = 0;
  for (FilterSpec& filter : kept) {
    size_t left = 0;
    for (std::vector<std::string>& group : filter.counters) {
      for (const std::string& name : group) {
        if (Needs(name, counter, plan) && !Contains(filter.optional, name)) {
          return false;
        }
      }
      removed += std::erase_if(
          group, [&](const std::string& name) { return Needs(name, counter, plan); });
      left += group.size();
    }
    if (!filter.counters.empty() && left == 0) return false;
    std::erase_if(filter.counters, [](const auto& group) { return group.empty(); });
  }
  if (removed == 0) return false;
  *filters = std::move(kept);
  return true;
}

LeftOut LeftOutCounters(const std::vector<std::string>& counters) {
  return {absl::StrJoin(counters, ", "),
          absl::StrCat("its rocprofiler-sdk does not have ",
                       counters.size() == 1 ? "it" : "them")};
}

std::string SinceText(const std::string& counter, const CompiledPlan& plan) {
  for (const PlanArchitecture& architecture : plan.architectures) {
    if (architecture.counters->FindCounter(counter) == nullptr) continue;
    const std::string since = architecture.counters->Since(counter);
    if (since == kFirstSdk) continue;
    return absl::StrCat("; it is in rocprofiler-sdk from version ", since, " on");
  }
  return "";
}

}  // namespace rocattach
