// How the C API gets its engine.
#ifndef ROCATTACH_USERSPACE_LIBRARY_SESSIONS_C_API_H_
#define ROCATTACH_USERSPACE_LIBRARY_SESSIONS_C_API_H_

#include <memory>

#include "userspace/session/session_engine.h"
#include "userspace/session/session_runner.h"

namespace rocattach {

// Makes the C API work on a new engine with this runner, in place of the old one, which
// ends as soon as no call uses it. Before any other thread uses the C API. Without
// this, the first call makes an engine with DefaultSessionRunner().
void SetSessionsRunner(std::shared_ptr<SessionRunner> runner);

// The engine behind the C API, made if needed; nullptr if that failed.
std::shared_ptr<SessionEngine> SessionsEngine();

// What the C API works on by itself. Defined where the library is put together.
std::shared_ptr<SessionRunner> DefaultSessionRunner();

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_LIBRARY_SESSIONS_C_API_H_
