#include "userspace/library/recorder_event.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace rocattach {
namespace {

using Json = nlohmann::json;

std::string TextOf(const Json& object, const char* key) {
  const auto field = object.find(key);
  return field != object.end() && field->is_string() ? field->get<std::string>() : "";
}

uint64_t NumberOf(const Json& object, const char* key) {
  const auto field = object.find(key);
  if (field == object.end() || !field->is_number_unsigned()) return 0;
  return field->get<uint64_t>();
}

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
  const Json json =
      Json::parse(line.begin(), line.end(), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return absl::InvalidArgumentError("not a JSON object");
  RecorderEvent event;
  event.kind = KindOf(TextOf(json, "event"));
  const uint64_t pid = NumberOf(json, "pid");
  event.pid = pid <= INT32_MAX ? static_cast<int>(pid) : 0;
  event.reason = TextOf(json, "reason");
  event.detail = TextOf(json, "detail");
  event.output_error = TextOf(json, "output_error");
  event.dispatches = NumberOf(json, "dispatches");
  event.lost = NumberOf(json, "lost");
  if (const auto files = json.find("files"); files != json.end() && files->is_array()) {
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
