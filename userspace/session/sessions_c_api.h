// How the C API gets its engine.
#ifndef ROCATTACH_USERSPACE_SESSION_SESSIONS_C_API_H_
#define ROCATTACH_USERSPACE_SESSION_SESSIONS_C_API_H_

#include <memory>

#include "userspace/session/counter_catalog.h"
#include "userspace/session/session_backend.h"
#include "userspace/session/session_engine.h"

namespace rocattach {

// Makes the C API work on a new engine with this backend, in place of the old one,
// which ends as soon as no call uses it. Before any other thread uses the C API.
// Without this, the first call makes an engine with DefaultSessionBackend().
void SetSessionsBackend(std::shared_ptr<SessionBackend> backend,
                        std::shared_ptr<const CounterCatalog> catalog);

// The engine behind the C API, made if needed; nullptr if that failed.
std::shared_ptr<SessionEngine> SessionsEngine();

// What the C API works on by itself. Defined where the library is put together: the
// installed library reads the collectors of processes on this machine.
std::shared_ptr<SessionBackend> DefaultSessionBackend();

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SESSION_SESSIONS_C_API_H_
