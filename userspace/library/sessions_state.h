// What the C API of sessions keeps between calls: the engine, the thread that flushes
// buffers, and the text of the last error.
#ifndef ROCATTACH_USERSPACE_LIBRARY_SESSIONS_STATE_H_
#define ROCATTACH_USERSPACE_LIBRARY_SESSIONS_STATE_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "userspace/base/session_status.h"
#include "userspace/session/session_engine.h"

namespace rocattach {

// The engine, before anything else is touched. A child that this process has created
// with fork() has a copy of it, of its locks and of its connection, but none of its
// threads: `in_child` is its status.
absl::StatusOr<std::shared_ptr<SessionEngine>> UsableSessionsEngine(
    SessionStatus in_child = SessionStatus::kNotInitialized);

// Flushes buffers that have intervals, until it is stopped.
void StartSessionsTicker(const std::shared_ptr<SessionEngine>& engine);
void StopSessionsTicker();

// Keeps the text of an error for this thread; of an OK status nothing.
void KeepErrorDetail(const absl::Status& status);
// The last one; valid until the thread's next error.
const char* ErrorDetail();

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_LIBRARY_SESSIONS_STATE_H_
