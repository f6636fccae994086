#include "userspace/cli/attach_words.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "userspace/base/human.h"
#include "userspace/stream/hold.h"

namespace rocattach {

std::string EntryOf(const v1::WindowEvent& window) {
  if (window.mode() == v1::WINDOW_MODE_TAKEN_OVER) return "armed";
  if (window.mode() == v1::WINDOW_MODE_LISTENER) return "listener";
  if (window.mode() == v1::WINDOW_MODE_BLOCKED) return "late-blocked";
  return window.collector().entry_path() == v1::ENTRY_PATH_LATE ? "late" : "window";
}

uint64_t StoppedNs(const v1::WindowEvent& window) {
  return HoldNs(window);
}

uint32_t StoppedThread(const v1::WindowEvent& window) {
  return window.mode() == v1::WINDOW_MODE_TAKEN_OVER ? 0 : window.tid();
}

std::string StopText(const v1::WindowEvent& window) {
  if (window.mode() == v1::WINDOW_MODE_TAKEN_OVER) return "no thread stopped";
  if (window.mode() == v1::WINDOW_MODE_LISTENER) {
    return "through its thread for attachers";
  }
  return absl::StrCat("one thread stopped for ", HumanDuration(StoppedNs(window)));
}

std::string ReasonName(v1::AttachReason reason) {
  std::string name = v1::AttachReason_Name(reason);
  constexpr absl::string_view kPrefix = "ATTACH_REASON_";
  if (absl::StartsWith(name, kPrefix)) name.erase(0, kPrefix.size());
  return absl::StrReplaceAll(absl::AsciiStrToLower(name), {{"_", "-"}});
}

std::string ReasonOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kNotFound:
      return "no-such-process";
    case absl::StatusCode::kInvalidArgument:
      return "not-a-process";
    case absl::StatusCode::kFailedPrecondition:
      return "no-runtime";
    case absl::StatusCode::kPermissionDenied:
      return "not-permitted";
    case absl::StatusCode::kUnimplemented:
      return "unsupported";
    case absl::StatusCode::kAborted:
      return "no-safe-point";
    case absl::StatusCode::kUnavailable:
      return "not-running";
    case absl::StatusCode::kDeadlineExceeded:
      return "timeout";
    case absl::StatusCode::kCancelled:
      return "cancelled";
    default:
      return "internal";
  }
}

}  // namespace rocattach
