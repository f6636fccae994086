// The verdict of a window whose process ended, or that was still open when the
// recording ended, before the collector had reported.
#ifndef ROCATTACH_USERSPACE_RECORD_END_VERDICT_H_
#define ROCATTACH_USERSPACE_RECORD_END_VERDICT_H_

#include <string>

#include "absl/status/status.h"
#include "injector/failure.h"
#include "schemas/stream.pb.h"
#include "userspace/watch/windows/window.h"

namespace rocattach {

// The progress that the collector has made.
enum class CollectorProgress {
  kNone,
  kReported,  // it waits for the runtime's call
  kInPlace,   // its hooks are in the live table; hsa_init has not returned
};

struct EndVerdict {
  Verdict verdict = Verdict::kMissed;
  AttachReason reason = AttachReason::kTargetExited;
  std::string detail;  // what happened, and what it may mean
};

EndVerdict VerdictAtEnd(const Window& window, CollectorProgress collector,
                        const v1::ProcessEnd& end);

// The same if the fate of the thread is not known. `has_ended`: the process has ended.
EndVerdict VerdictOfLostThread(const Window& window, bool has_ended);

// "SIGSEGV"; "signal 99" for a signal without a name.
std::string SignalName(uint32_t signal);

// The failure of an attach whose collector reported memory that cannot be used;
// opening it returned `status`.
AttachFailure UnusableMemory(const absl::Status& status);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_END_VERDICT_H_
