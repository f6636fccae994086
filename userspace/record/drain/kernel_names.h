// The names of a target's kernels, for the filters of sessions.
#ifndef ROCATTACH_USERSPACE_RECORD_DRAIN_KERNEL_NAMES_H_
#define ROCATTACH_USERSPACE_RECORD_DRAIN_KERNEL_NAMES_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "schemas/stream.pb.h"
#include "userspace/base/demangler.h"
#include "userspace/record/sessions/active_plan.h"
#include "userspace/session/target_names.h"

namespace rocattach {

class KernelNames {
 public:
  // Adds to `names`, which others read.
  explicit KernelNames(
      std::shared_ptr<TargetNames> names = std::make_shared<TargetNames>())
      : names_(std::move(names)) {}

  // False if the kernel's number is larger than plans can name.
  bool Add(const v1::Kernel& kernel);
  bool Contains(uint32_t kernel) const { return kernel < size_; }
  // The first number from `first` on without a name: numbers arrive in order, and a
  // name that did not fit into the dictionary leaves a gap.
  uint32_t FirstMissing(uint32_t first) const;
  // True if the selection's filter matches the name of a known kernel.
  bool Selects(ActivePlan* plan, uint32_t selection, uint32_t kernel);

 private:
  const std::shared_ptr<TargetNames> names_;
  uint32_t size_ = 0;  // above all numbers so far
  Demangler demangler_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_DRAIN_KERNEL_NAMES_H_
