// The part of a process's account that belongs to one file of a split recording. The
// account itself counts from the attach on.
#ifndef ROCATTACH_USERSPACE_STREAM_ACCOUNT_PART_H_
#define ROCATTACH_USERSPACE_STREAM_ACCOUNT_PART_H_

#include "schemas/stream.pb.h"
#include "userspace/stream/record_counts.h"

namespace rocattach {

class AccountPart {
 public:
  // The account without earlier files' counts. `account` lacks the writer's counts.
  v1::LossAccount Of(const v1::LossAccount& account) const;

  // Ends this part and returns it. `account` is the last known account, and `counts`
  // are the writer's counts from the attach on. Operations that were seen but neither
  // delivered nor lost yet belong to the next part, so that each part adds up.
  v1::LossAccount End(v1::LossAccount account,
                      const PerRecordKind<DeliveryCount>& counts);

 private:
  v1::LossAccount before_;
};

// Adds `counts` to the fields that the writer fills in.
void AddCounts(const PerRecordKind<DeliveryCount>& counts, v1::LossAccount* account);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_STREAM_ACCOUNT_PART_H_
