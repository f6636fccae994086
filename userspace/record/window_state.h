// Verdicts as they are written to a stream.
#ifndef ROCATTACH_USERSPACE_RECORD_WINDOW_STATE_H_
#define ROCATTACH_USERSPACE_RECORD_WINDOW_STATE_H_

#include "absl/strings/string_view.h"
#include "schemas/stream.pb.h"
#include "userspace/watch/windows/window.h"

namespace rocattach {

v1::WindowState StateOf(Verdict verdict);

// The name of a verdict, such as "attached"; "open" if it is none. Output and metrics
// use these names, so they must not change.
absl::string_view VerdictName(v1::WindowState state);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_WINDOW_STATE_H_
