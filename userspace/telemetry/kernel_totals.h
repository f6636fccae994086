// Totals of the kernels of one process: the busiest by name, the rest as one.
#ifndef ROCATTACH_USERSPACE_TELEMETRY_KERNEL_TOTALS_H_
#define ROCATTACH_USERSPACE_TELEMETRY_KERNEL_TOTALS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "userspace/telemetry/series_budget.h"
#include "userspace/telemetry/snapshot.h"

namespace rocattach {

// The set of named kernels changes as a program goes through its phases. Nothing is
// counted twice: dispatches that ran while a kernel was not named remain in `other`,
// those that ran while it was named remain its own: no total ever jumps or decreases.
// Memory is bounded, whatever the process does. Not thread-safe.
class KernelTotals {
 public:
  // Maximum kernels that are distinguished, by name. The others are in `other`.
  static constexpr size_t kMostKernels = 1024;
  // Limit on kernel ids: kernels with larger ids are in `other`.
  static constexpr uint32_t kMostIds = 65536;
  static constexpr size_t kMostNameBytes = 2048;
  // The mangled name of a kernel; empty if not known.
  using NameOf = std::function<std::string(uint32_t kernel)>;

  // At most `most_named` kernels are named at a time.
  KernelTotals(size_t most_named, NameOf name_of);

  // Adds `count` dispatches of `ns` each. A kernel's name is looked up once.
  void Add(uint32_t kernel, uint64_t ns, uint64_t count = 1) {
    Slot& slot = kernel < slot_of_id_.size() && slot_of_id_[kernel] != kNew
                     ? slots_[slot_of_id_[kernel]]
                     : slots_[FindSlot(kernel)];
    slot.now.dispatches += count;
    slot.now.time_ns += ns * count;
  }

  // Chooses the kernels that are named from here on, within the budget.
  void Select(SeriesBudget* budget);
  // The totals so far: named kernels, the busiest first, and all others.
  void GetTotals(std::vector<KernelSnapshot>* named, OperationTotals* other);
  void Release(SeriesBudget* budget);

 private:
  struct Slot {
    uint64_t id = 0;  // a hash of the name
    std::string name;
    OperationTotals now;    // everything so far
    OperationTotals taken;  // the part of `now` that is in `own` or other_
    OperationTotals own;
    // Recent busy time, halved at each selection, and busy time at the last one.
    uint64_t recent_ns = 0, selected_ns = 0;
    Admission admission;  // taken while it is named
  };
  static constexpr uint32_t kNew = UINT32_MAX;
  static constexpr uint32_t kOther = 0;  // the slot shared by the other kernels

  uint32_t FindSlot(uint32_t kernel);
  void Attribute(Slot* slot);

  const size_t most_named_;
  const NameOf name_of_;
  std::vector<Slot> slots_{1};
  std::vector<uint32_t> slot_of_id_;
  absl::flat_hash_map<uint64_t, uint32_t> slot_of_name_;
  OperationTotals other_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_TELEMETRY_KERNEL_TOTALS_H_
