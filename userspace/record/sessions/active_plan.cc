#include "userspace/record/sessions/active_plan.h"

#include <utility>

namespace rocattach {

void RecentPlans::Add(std::shared_ptr<ActivePlan> plan) {
  plans_.push_back(std::move(plan));
  if (plans_.size() > kMost) plans_.pop_front();
}

const std::shared_ptr<ActivePlan>& RecentPlans::EarlierByTag(uint32_t tag) const {
  for (auto plan = plans_.rbegin(); plan != plans_.rend(); ++plan) {
    if (ROCATTACH_PLAN_TAG((*plan)->generation) == tag) return *plan;
  }
  return none_;
}

const std::shared_ptr<ActivePlan>& RecentPlans::ByGeneration(
    uint64_t generation) const {
  for (const std::shared_ptr<ActivePlan>& plan : plans_) {
    if (plan->generation == generation) return plan;
  }
  return none_;
}

void RecentPlans::ForgetAnswers(uint32_t kernel) {
  for (const std::shared_ptr<ActivePlan>& plan : plans_) {
    for (std::vector<uint8_t>& answers : plan->answers) {
      if (kernel < answers.size()) answers[kernel] = 0;
    }
  }
}

}  // namespace rocattach
