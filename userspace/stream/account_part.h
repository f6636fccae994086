// A recording that is split into files: what of a process's account, which counts from
// the attach on, belongs to one of them.
#ifndef ROCATTACH_USERSPACE_STREAM_ACCOUNT_PART_H_
#define ROCATTACH_USERSPACE_STREAM_ACCOUNT_PART_H_

#include "schemas/stream.pb.h"
#include "userspace/stream/record_counts.h"

namespace rocattach {

class AccountPart {
 public:
  // The account without what earlier files have. `account` has no counts of the writer.
  v1::LossAccount Of(const v1::LossAccount& account) const;

  // Ends this part. `account` is the last known one, `counts` are those of the writer,
  // from the attach on. What is seen and neither delivered nor lost yet belongs to the
  // next part, so that each part adds up. Returns the part that has ended.
  v1::LossAccount End(v1::LossAccount account,
                      const PerRecordKind<DeliveryCount>& counts);

 private:
  v1::LossAccount before_;
};

// Adds `counts` to the fields that the writer fills in.
void AddCounts(const PerRecordKind<DeliveryCount>& counts, v1::LossAccount* account);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_STREAM_ACCOUNT_PART_H_
