// The names that a run's client needs next.
#ifndef ROCATTACH_USERSPACE_CONTROL_RUN_NAMES_H_
#define ROCATTACH_USERSPACE_CONTROL_RUN_NAMES_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"
#include "schemas/sessions.pb.h"
#include "userspace/session/session_record.h"
#include "userspace/session/target_names.h"

namespace rocattach {

// Tracks what has been sent to one client. Thread-safe.
class RunNames {
 public:
  // Returns the names that these records need and the client does not have; `known` may
  // be null. They must be sent before the records.
  std::vector<v1::RunNames> For(const RecordHeader* begin, const RecordHeader* end,
                                const SessionTargetNames* known);
  // Call when a process has ended: another one may get its ID.
  void Ended(pid_t pid);

 private:
  struct Sent {
    std::shared_ptr<TargetNames> names;
    absl::flat_hash_set<uint32_t> kernels;
    absl::flat_hash_set<std::pair<TraceDomain, uint32_t>> functions;
  };
  // Adds what the record needs to `out`.
  static void Add(const RecordHeader* record, Sent* sent, v1::RunNames* out);

  absl::Mutex mutex_;
  std::map<pid_t, Sent> sent_ ABSL_GUARDED_BY(mutex_);
};

// The client's side: adds the names that were sent to those of a session.
void AddSentNames(const v1::RunNames& sent, SessionTargetNames* names);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CONTROL_RUN_NAMES_H_
