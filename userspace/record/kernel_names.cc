#include "userspace/record/kernel_names.h"

namespace rocattach {

bool KernelNames::Add(const v1::Kernel& kernel) {
  if (kernel.id() >= ROCATTACH_PLAN_MAX_KERNELS) return false;
  if (names_.size() <= kernel.id()) names_.resize(kernel.id() + 1);
  names_[kernel.id()] = kernel.name();
  return true;
}

uint32_t KernelNames::FirstMissing(uint32_t first) const {
  while (first < names_.size() && !names_[first].empty()) ++first;
  return first;
}

bool KernelNames::Selects(ActivePlan* plan, uint32_t selection, uint32_t kernel) {
  std::vector<uint8_t>& answers = plan->answers[selection];
  if (answers.size() < names_.size()) answers.resize(names_.size());
  uint8_t& answer = answers[kernel];
  if (answer == 0) {
    const KernelFilter& filter = plan->plan->selections[selection].kernels;
    answer = filter.Matches(names_[kernel], &demangler_) ? 2 : 1;
  }
  return answer == 2;
}

}  // namespace rocattach
