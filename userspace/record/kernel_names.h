// The names of a target's kernels, for the filters of sessions.
#ifndef ROCATTACH_USERSPACE_RECORD_KERNEL_NAMES_H_
#define ROCATTACH_USERSPACE_RECORD_KERNEL_NAMES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "schemas/stream.pb.h"
#include "userspace/base/demangler.h"
#include "userspace/record/active_plan.h"

namespace rocattach {

class KernelNames {
 public:
  // False if its number is beyond what plans can name.
  bool Add(const v1::Kernel& kernel);
  bool Contains(uint32_t kernel) const { return kernel < names_.size(); }
  // Numbers arrive in order; a name that did not fit the dictionary leaves a gap. The
  // first number from `first` on without a name.
  uint32_t FirstMissing(uint32_t first) const;
  // Whether the selection's filter matches the name of a known kernel.
  bool Selects(ActivePlan* plan, uint32_t selection, uint32_t kernel);

 private:
  std::vector<std::string> names_;
  Demangler demangler_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_KERNEL_NAMES_H_
