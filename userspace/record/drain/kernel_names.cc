#include "userspace/record/drain/kernel_names.h"

#include <algorithm>
#include <string>
#include <vector>

namespace rocattach {

bool KernelNames::Add(const v1::Kernel& kernel) {
  if (kernel.id() >= ROCATTACH_PLAN_MAX_KERNELS) return false;
  size_ = std::max(size_, kernel.id() + 1);
  names_->AddKernel(kernel.id(), kernel.name());
  return true;
}

uint32_t KernelNames::FirstMissing(uint32_t first) const {
  while (first < size_ && !names_->Kernel(first).value_or("").empty()) ++first;
  return first;
}

bool KernelNames::Selects(ActivePlan* plan, uint32_t selection, uint32_t kernel) {
  std::vector<uint8_t>& answers = plan->answers[selection];
  if (answers.size() < size_) answers.resize(size_);
  uint8_t& answer = answers[kernel];
  if (answer == 0) {
    const KernelFilter& filter = plan->plan->selections[selection].kernels;
    const std::string name = names_->Kernel(kernel).value_or("");
    answer = filter.Matches(name, &demangler_) ? 2 : 1;
  }
  return answer == 2;
}

}  // namespace rocattach
