// How the C API gets its engine.
#ifndef ROCATTACH_USERSPACE_LIBRARY_SESSIONS_C_API_H_
#define ROCATTACH_USERSPACE_LIBRARY_SESSIONS_C_API_H_

#include <memory>

#include "userspace/session/session_engine.h"
#include "userspace/session/session_runner.h"

namespace rocattach {

// Makes the C API use a new engine with this runner instead of the old one, which ends
// as soon as no call uses it. Call this before any other thread uses the C API.
// Otherwise the first call creates an engine with DefaultSessionRunner().
void SetSessionsRunner(std::shared_ptr<SessionRunner> runner);

// The engine of the C API, created if needed; nullptr if that failed.
std::shared_ptr<SessionEngine> SessionsEngine();

// The runner that the C API uses by default. Defined by each program or library.
std::shared_ptr<SessionRunner> DefaultSessionRunner();

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_LIBRARY_SESSIONS_C_API_H_
