// Plans that were written into a target, kept until no record of them can arrive.
#ifndef ROCATTACH_USERSPACE_RECORD_SESSIONS_ACTIVE_PLAN_H_
#define ROCATTACH_USERSPACE_RECORD_SESSIONS_ACTIVE_PLAN_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "userspace/abi/shared_memory.h"
#include "userspace/session/compiled_plan.h"
#include "userspace/session/session_backend.h"

namespace rocattach {

struct ActivePlan {
  uint64_t generation = 0;
  uint64_t session = 0;
  uint32_t plan_id = 0;
  std::shared_ptr<const CompiledPlan> plan;
  std::shared_ptr<RecordSink> sink;
  bool instances = false;          // values of each instance were requested
  uint64_t dispatches_before = 0;  // number seen when the plan was written
  uint32_t decided = 1;  // lower kernel numbers are decided in the target's memory
  // Result of the filter, per selection and kernel: 0 not known yet, 1 no match, 2
  // match. The name of a kernel is matched once, not for every dispatch.
  std::array<std::vector<uint8_t>, ROCATTACH_PLAN_SELECTIONS> answers = {};
};

// The last plans of one target, the current one included.
class RecentPlans {
 public:
  // Number of plans whose late records, of operations in flight when they ended, can
  // still be decoded. Less than the number of tags.
  static constexpr size_t kMost = 64;

  void Add(std::shared_ptr<ActivePlan> plan);
  // The latest plan with that tag; null if there is none. A copy costs more than the
  // search, so references are returned; they are valid until the next Add().
  const std::shared_ptr<ActivePlan>& ByTag(uint32_t tag) const {
    // Nearly always the current one.
    if (!plans_.empty() && ROCATTACH_PLAN_TAG(plans_.back()->generation) == tag) {
      return plans_.back();
    }
    return EarlierByTag(tag);
  }
  const std::shared_ptr<ActivePlan>& ByGeneration(uint64_t generation) const;
  const std::shared_ptr<ActivePlan>& none() const { return none_; }
  // Forgets the answers for a kernel whose name has become known or has changed.
  void ForgetAnswers(uint32_t kernel);

 private:
  const std::shared_ptr<ActivePlan>& EarlierByTag(uint32_t tag) const;

  std::deque<std::shared_ptr<ActivePlan>> plans_;
  const std::shared_ptr<ActivePlan> none_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_SESSIONS_ACTIVE_PLAN_H_
