// State that the C API of sessions keeps between calls: the engine with its runner, the
// thread that flushes buffers, and the text of the last error.
#ifndef ROCATTACH_USERSPACE_LIBRARY_SESSIONS_STATE_H_
#define ROCATTACH_USERSPACE_LIBRARY_SESSIONS_STATE_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "userspace/base/session_status.h"
#include "userspace/library/session_engine.h"
#include "userspace/session/session_runner.h"

namespace rocattach {

// The engine; call this before anything else is touched. A child that was created with
// fork() has a copy of the engine, its locks and its connection, but none of its
// threads: there, the result is an error with the status `in_child`.
absl::StatusOr<std::shared_ptr<SessionEngine>> UsableSessionsEngine(
    SessionStatus in_child = SessionStatus::kNotInitialized);

// Flushes buffers that have intervals, until it is stopped.
void StartSessionsTicker(const std::shared_ptr<SessionEngine>& engine);
void StopSessionsTicker();

// Keeps the text of an error for this thread; ignores an OK status.
void KeepErrorDetail(const absl::Status& status);
// The last text kept; valid until the thread's next error.
const char* ErrorDetail();

// Makes the C API use a new engine with this runner instead of the old one, which ends
// as soon as no call uses it. Call this before any other thread uses the C API.
// If it is never called, the first call creates one with DefaultSessionRunner().
void SetSessionsRunner(std::shared_ptr<SessionRunner> runner);

// The engine of the C API, created if needed; nullptr if that failed.
std::shared_ptr<SessionEngine> SessionsEngine();

// The runner that the C API uses by default. Defined by each program or library.
std::shared_ptr<SessionRunner> DefaultSessionRunner();

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_LIBRARY_SESSIONS_STATE_H_
