// Verdicts as a stream has them.
#ifndef ROCATTACH_USERSPACE_RECORD_WINDOW_STATE_H_
#define ROCATTACH_USERSPACE_RECORD_WINDOW_STATE_H_

#include "absl/strings/string_view.h"
#include "schemas/stream.pb.h"
#include "userspace/watch/window.h"

namespace rocattach {

v1::WindowState StateOf(Verdict verdict);

// "attached". What is no verdict is "open". Output and metrics use these names: they do
// not change.
absl::string_view VerdictName(v1::WindowState state);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_WINDOW_STATE_H_
