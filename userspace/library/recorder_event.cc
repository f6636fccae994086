#include "userspace/library/recorder_event.h"

#include <utility>

#include "userspace/base/json.h"

namespace rocattach {
namespace {

RecorderEvent::Kind KindOf(const std::string& name) {
  using Kind = RecorderEvent::Kind;
  static constexpr std::pair<const char*, Kind> kNames[] = {
      {"attached", Kind::kAttached},
      {"not_attached", Kind::kNotAttached},
      {"ready", Kind::kReady},
      {"session_refused", Kind::kSessionRefused},
      {"failed", Kind::kFailed},
      {"result", Kind::kResult},
      {"end", Kind::kEnd}};
  for (const auto& [known, kind] : kNames) {
    if (name == known) return kind;
  }
  return Kind::kOther;
}

}  // namespace

absl::StatusOr<RecorderEvent> ParseRecorderEvent(absl::string_view line) {
  const std::optional<Json> json = ParseJsonObject(line);
  if (!json) return absl::InvalidArgumentError("not a JSON object");
  RecorderEvent event;
  event.kind = KindOf(JsonString(*json, "event"));
  const uint64_t pid = JsonUnsigned(*json, "pid");
  event.pid = pid <= INT32_MAX ? static_cast<int>(pid) : 0;
  event.reason = JsonString(*json, "reason");
  event.detail = JsonString(*json, "detail");
  event.output_error = JsonString(*json, "output_error");
  event.dispatches = JsonUnsigned(*json, "dispatches");
  event.lost = JsonUnsigned(*json, "lost");
  if (const auto files = json->find("files");
      files != json->end() && files->is_array()) {
    for (const Json& file : *files) {
      if (file.is_string()) event.files.push_back(file.get<std::string>());
    }
  }
  return event;
}

rocattach_status_t StatusOfReason(absl::string_view reason) {
  static constexpr std::pair<const char*, rocattach_status_t> kStatuses[] = {
      {"no-such-process", ROCATTACH_STATUS_ERROR_PTRACE_PROCESS_NOT_FOUND},
      {"target-exited", ROCATTACH_STATUS_ERROR_PTRACE_PROCESS_NOT_FOUND},
      {"pid-reused", ROCATTACH_STATUS_ERROR_PTRACE_PROCESS_NOT_FOUND},
      {"died-during-attach", ROCATTACH_STATUS_ERROR_PTRACE_PROCESS_NOT_FOUND},
      {"not-a-process", ROCATTACH_STATUS_ERROR_INVALID_ARGUMENT},
      {"tool-invalid", ROCATTACH_STATUS_ERROR_INVALID_ARGUMENT},
      {"not-permitted", ROCATTACH_STATUS_ERROR_PTRACE_OPERATION_NOT_PERMITTED},
      // The error that ptrace reports if another process traces the target.
      {"already-traced", ROCATTACH_STATUS_ERROR_PTRACE_OPERATION_NOT_PERMITTED},
      {"already-attached", ROCATTACH_STATUS_ERROR_PTRACE_OPERATION_NOT_PERMITTED},
      {"not-running", ROCATTACH_STATUS_ERROR_PTRACE_ERROR},
      {"stop-timeout", ROCATTACH_STATUS_ERROR_PTRACE_ERROR},
      {"memory-access", ROCATTACH_STATUS_ERROR_PTRACE_ERROR},
      {"registers", ROCATTACH_STATUS_ERROR_PTRACE_ERROR},
      {"unsupported", ROCATTACH_STATUS_ERROR_NOT_SUPPORTED},
      {"secure-exec", ROCATTACH_STATUS_ERROR_NOT_SUPPORTED},
      {"no-dlopen", ROCATTACH_STATUS_ERROR_NOT_SUPPORTED},
      {"bad-elf", ROCATTACH_STATUS_ERROR_NOT_SUPPORTED}};
  for (const auto& [known, status] : kStatuses) {
    if (reason == known) return status;
  }
  return ROCATTACH_STATUS_ERROR;
}

}  // namespace rocattach
