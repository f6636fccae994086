// Filters of sessions: what is collected, and which buffer or callback gets it.
#ifndef ROCATTACH_USERSPACE_LIBRARY_SESSION_FILTERS_H_
#define ROCATTACH_USERSPACE_LIBRARY_SESSION_FILTERS_H_

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "userspace/session/session_types.h"

namespace rocattach {

struct EngineState;

// Part of SessionEngine, with the same rules for threads and errors.
class SessionFilters {
 public:
  explicit SessionFilters(std::shared_ptr<EngineState> state)
      : state_(std::move(state)) {}

  absl::StatusOr<FilterId> Create(SessionId session, FilterSpec filter);
  // Replaces what the session's filter of this kind collects, from the next start on;
  // creates the filter if there is none.
  absl::StatusOr<FilterId> Set(SessionId session, FilterSpec filter);
  absl::Status Destroy(SessionId session, FilterId filter);
  absl::Status SetBuffer(SessionId session, FilterId filter, BufferId buffer);
  absl::Status SetSyncCallback(SessionId session, FilterId filter,
                               SyncCallback callback);

 private:
  const std::shared_ptr<EngineState> state_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_LIBRARY_SESSION_FILTERS_H_
