// The functions of rocattach.h.
#include <pthread.h>

#include <exception>

#include "userspace/base/deadlock_checks.h"
#include "userspace/library/attach_log.h"
#include "userspace/library/attach_sessions.h"
#include "userspace/library/rocattach.h"

namespace rocattach {
namespace {

// Never destroyed: threads of the host may still call while it exits.
AttachSessions* sessions = nullptr;

void BeforeFork() {
  sessions->BeforeFork();
}
void AfterForkInParent() {
  sessions->AfterForkInParent();
}
void AfterForkInChild() {
  sessions->AfterForkInChild();
}

AttachSessions& Sessions() {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, [] {
    IgnorePotentialDeadlocks();
    sessions = new AttachSessions();
    pthread_atfork(BeforeFork, AfterForkInParent, AfterForkInChild);
  });
  return *sessions;
}

// Exceptions of libraries (above all, out of memory) end here.
template <typename Call>
rocattach_status_t Guarded(Call call) {
  try {
    return call();
  } catch (const std::exception& error) {
    AttachLog(AttachLogLevel::kError, error.what());
  } catch (...) {
    AttachLog(AttachLogLevel::kError, "an unknown exception");
  }
  return ROCATTACH_STATUS_ERROR;
}

}  // namespace
}  // namespace rocattach

rocattach_status_t rocattach_attach(int pid) {
  return rocattach::Guarded(
      [pid] { return rocattach::Sessions().Attach(pid, /*tree=*/false); });
}

rocattach_status_t rocattach_attach_tree(int pid) {
  return rocattach::Guarded(
      [pid] { return rocattach::Sessions().Attach(pid, /*tree=*/true); });
}

rocattach_status_t rocattach_detach(int pid) {
  return rocattach::Guarded([pid] { return rocattach::Sessions().Detach(pid); });
}

rocattach_status_t rocattach_detach_tree(int pid) {
  return rocattach::Guarded([pid] { return rocattach::Sessions().DetachTree(pid); });
}
