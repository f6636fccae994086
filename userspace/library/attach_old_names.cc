// The two functions of librocprofv3-attach, for one target at a time.
#include <atomic>
#include <cstdint>

#include "userspace/library/attach_log.h"
#include "userspace/library/rocattach.h"

namespace {

std::atomic<int> target = 0;

}  // namespace

// They return nothing; errors are printed on standard error (ROCATTACH_LOG_LEVEL).
extern "C" {

ROCATTACH_API void attach(uint32_t pid);
ROCATTACH_API void detach();

void attach(uint32_t pid) {
  const int number = pid <= INT32_MAX ? static_cast<int>(pid) : -1;
  int none = 0;
  if (!target.compare_exchange_strong(none, number)) {
    rocattach::AttachLog(rocattach::AttachLogLevel::kError,
                         "attached to another process already; detach() first");
    return;
  }
  if (rocattach_attach(number) != ROCATTACH_STATUS_SUCCESS) target = 0;
}

void detach() {
  const int number = target.exchange(0);
  if (number > 0) (void)rocattach_detach(number);
}

}  // extern "C"
