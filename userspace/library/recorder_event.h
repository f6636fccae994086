// The events of `rocattach attach --json`, one per line.
#ifndef ROCATTACH_USERSPACE_LIBRARY_RECORDER_EVENT_H_
#define ROCATTACH_USERSPACE_LIBRARY_RECORDER_EVENT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "userspace/library/rocattach.h"

namespace rocattach {

struct RecorderEvent {
  enum class Kind {
    kAttached,
    kNotAttached,
    kSessionRefused,
    kReady,   // every process has had one of the above
    kFailed,  // the recording could not start
    kResult,  // the outcome for one process
    kEnd,     // the output is complete
    kOther,
  };
  Kind kind = Kind::kOther;
  int pid = 0;
  std::string reason;  // a word
  std::string detail;  // a sentence
  uint64_t dispatches = 0;
  uint64_t lost = 0;
  std::vector<std::string> files;
  std::string output_error;  // why the output is incomplete; empty: it is complete
};

// INVALID_ARGUMENT if the line is not an event. A field that is missing or has the
// wrong type counts as empty.
absl::StatusOr<RecorderEvent> ParseRecorderEvent(absl::string_view line);

// The status of the API for a reason of kNotAttached or kFailed.
rocattach_status_t StatusOfReason(absl::string_view reason);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_LIBRARY_RECORDER_EVENT_H_
