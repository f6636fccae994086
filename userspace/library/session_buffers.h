// Buffers of sessions: their memory, flushing, and stepping through a delivery.
#ifndef ROCATTACH_USERSPACE_LIBRARY_SESSION_BUFFERS_H_
#define ROCATTACH_USERSPACE_LIBRARY_SESSION_BUFFERS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "userspace/session/session_types.h"

namespace rocattach {

struct EngineState;

// Part of SessionEngine, with the same rules for threads and errors.
class SessionBuffers {
 public:
  explicit SessionBuffers(std::shared_ptr<EngineState> state)
      : state_(std::move(state)) {}

  // `existing`: a buffer of the session that grows by `bytes` instead.
  absl::StatusOr<BufferId> Create(SessionId session, size_t bytes,
                                  BufferCallback callback, BufferId existing = {});
  // In milliseconds. Error: INCORRECT_FLUSH_INTERVAL.
  static absl::Status CheckFlushInterval(uint64_t interval);
  absl::Status SetFlushInterval(SessionId session, BufferId buffer, uint64_t interval);
  absl::Status Destroy(SessionId session, BufferId buffer);
  // BUFFER_NOT_FOUND, after the checks of the session.
  absl::Status Check(SessionId session, BufferId buffer) const;
  absl::Status Flush(SessionId session, BufferId buffer);
  // For a callback: steps from a record of its delivery to the next.
  absl::Status NextRecord(const RecordHeader* record, const RecordHeader** next,
                          SessionId session, BufferId buffer) const;
  // Flushes buffers whose interval has elapsed. Call it every few milliseconds.
  void Tick(uint64_t now_ns);

 private:
  const std::shared_ptr<EngineState> state_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_LIBRARY_SESSION_BUFFERS_H_
