// What the SDK's backend does around fork().
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "userspace/collector/sdk/backend.h"

extern "C" int on_exit(void (*function)(int status, void* argument), void* argument);

namespace rocattach::collector {
namespace {

constexpr uint32_t kForkPatienceMsec = 2'000;  // for a switch that is going on

}  // namespace

void SdkBackend::BeforeFork() {
  if (!Live() || !CanCount()) return;
  ErrnoKeeper keep_errno;
  const bool alone = lock_.LockFor(kForkPatienceMsec);
  counting_.NoteFork();
  if (!alone) return;
  forking_ = static_cast<uint32_t>(syscall(SYS_gettid));
  if (LoadAcquire(&finalized_) == 0) counting_.PauseForFork();
}

void SdkBackend::AfterFork() {
  if (forking_ != static_cast<uint32_t>(syscall(SYS_gettid))) return;
  ErrnoKeeper keep_errno;
  counting_.ResumeAfterFork();
  forking_ = 0;
  lock_.Unlock();
}

// If counting could not be stopped, the program's exit handlers from before the fork
// are left out in the child, and with them the SDK's, which would never return.
void SdkBackend::AfterForkInChild() {
  g_ring_gate.StartAnewInChild();
  if (!counting_.on_at_fork()) return;
  on_exit(
      [](int status, void*) {
        fflush(nullptr);
        _exit(status);
      },
      nullptr);
}

}  // namespace rocattach::collector
