// The tables of a plan, which have a fixed size: architectures, counters and passes.
#ifndef ROCATTACH_USERSPACE_SESSION_PLAN_TABLES_H_
#define ROCATTACH_USERSPACE_SESSION_PLAN_TABLES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "userspace/abi/plan.h"
#include "userspace/counters/pass_planner.h"
#include "userspace/session/compiled_plan.h"
#include "userspace/session/session_types.h"

namespace rocattach {

// The name without features: "gfx90a" for "gfx90a:sramecc+:xnack-".
absl::string_view ArchitectureName(absl::string_view name);

void SetBit(uint64_t* words, uint32_t bit);

// Copies ranges; if the table is too short, joins the last ones into one. True if that
// widened them.
bool CopyRanges(const std::vector<NumberRange>& from, rocattach_plan_range* to,
                uint32_t& count);

// Fills the tables, in the plan and in its image. Nothing is added twice.
class PlanTables {
 public:
  // INVALID_ARGUMENTS, for more of `what` than there is room for.
  static absl::Status TooMany(absl::string_view what);

  // `plan` must outlive this object.
  explicit PlanTables(CompiledPlan* plan) : plan_(*plan), image_(*plan->image) {}

  // The index of an architecture, which the catalogue must know.
  absl::StatusOr<size_t> Architecture(absl::string_view architecture);
  // Adds passes, one after the other, and sets `first` and `count` to their range.
  absl::Status AddPasses(const PassAssignment& passes, uint16_t& first,
                         uint16_t& count);

 private:
  absl::StatusOr<uint16_t> Counter(const std::string& name);

  CompiledPlan& plan_;
  rocattach_plan& image_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SESSION_PLAN_TABLES_H_
