#include "userspace/base/session_status.h"

#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace rocattach {
namespace {

constexpr char kPayloadUrl[] = "rocattach.session_status";
constexpr char kOwnerUrl[] = "rocattach.session_owner";

struct StatusWords {
  const char* name;
  const char* text;
  absl::StatusCode code;
};

using absl::StatusCode;

// Indexed by -status.
constexpr StatusWords kWords[] = {
    {"SUCCESS", "success", StatusCode::kOk},
    {"ERROR", "the operation failed", StatusCode::kInternal},
    {"ALREADY_INITIALIZED", "initialize was called before",
     StatusCode::kFailedPrecondition},
    {"NOT_INITIALIZED", "initialize was not called, or finalize was",
     StatusCode::kFailedPrecondition},
    {"SESSION_MISSING_BUFFER", "a filter of the session has no buffer to write to",
     StatusCode::kFailedPrecondition},
    {"TIMESTAMP_NOT_APPLICABLE", "there is no timestamp", StatusCode::kNotFound},
    {"AGENT_NOT_FOUND", "no such GPU", StatusCode::kNotFound},
    {"AGENT_INFORMATION_MISSING", "the GPU does not have this information",
     StatusCode::kNotFound},
    {"QUEUE_NOT_FOUND", "no such queue", StatusCode::kNotFound},
    {"QUEUE_INFORMATION_MISSING", "the queue does not have this information",
     StatusCode::kNotFound},
    {"KERNEL_NOT_FOUND", "no such kernel", StatusCode::kNotFound},
    {"KERNEL_INFORMATION_MISSING", "the kernel does not have this information",
     StatusCode::kNotFound},
    {"COUNTER_NOT_FOUND", "no such counter", StatusCode::kNotFound},
    {"COUNTER_INFORMATION_MISSING", "the counter's hardware needs are not known",
     StatusCode::kNotFound},
    {"TRACER_API_DATA_NOT_FOUND", "no such API data", StatusCode::kNotFound},
    {"TRACER_API_DATA_INFORMATION_MISSING", "the API data is incomplete",
     StatusCode::kNotFound},
    {"INCORRECT_DOMAIN", "this API domain cannot be traced",
     StatusCode::kInvalidArgument},
    {"SESSION_NOT_FOUND", "no such session", StatusCode::kNotFound},
    {"CORRUPTED_SESSION_BUFFER", "the session's records could not be flushed",
     StatusCode::kDataLoss},
    {"RECORD_CORRUPTED", "this is not a record of the buffer that is being delivered",
     StatusCode::kDataLoss},
    {"INCORRECT_REPLAY_MODE", "only the replay mode NONE is offered",
     StatusCode::kInvalidArgument},
    {"SESSION_MISSING_FILTER", "the session has no filter",
     StatusCode::kFailedPrecondition},
    {"INCORRECT_SIZE", "the buffer is smaller than one record",
     StatusCode::kInvalidArgument},
    {"INCORRECT_FLUSH_INTERVAL", "the flush interval is out of range",
     StatusCode::kInvalidArgument},
    {"SESSION_FILTER_DATA_MISMATCH", "the data do not apply to this kind of filter",
     StatusCode::kInvalidArgument},
    {"FILTER_DATA_CORRUPTED", "the data cannot be read or are invalid",
     StatusCode::kInvalidArgument},
    {"CORRUPTED_LABEL_DATA", "the label cannot be read", StatusCode::kInvalidArgument},
    {"RANGE_STACK_IS_EMPTY", "no range was pushed", StatusCode::kFailedPrecondition},
    {"PASS_NOT_STARTED", "no pass was started", StatusCode::kFailedPrecondition},
    {"HAS_ACTIVE_SESSION", "another session is active there",
     StatusCode::kAlreadyExists},
    {"SESSION_NOT_ACTIVE", "the session is not active",
     StatusCode::kFailedPrecondition},
    {"FILTER_NOT_FOUND", "no such filter in this session", StatusCode::kNotFound},
    {"BUFFER_NOT_FOUND", "no such buffer in this session", StatusCode::kNotFound},
    {"FILTER_NOT_SUPPORTED", "this kind of filter does not offer that",
     StatusCode::kUnimplemented},
    {"INVALID_ARGUMENTS", "an argument is not valid", StatusCode::kInvalidArgument},
    {"INVALID_OPERATION_ID", "no such API function", StatusCode::kInvalidArgument},
    {"INVALID_DOMAIN_ID", "no such API domain", StatusCode::kInvalidArgument},
    {"NOT_IMPLEMENTED", "this is not implemented", StatusCode::kUnimplemented},
    {"MISMATCHED_EXTERNAL_CORRELATION_ID", "the correlation id does not match",
     StatusCode::kInvalidArgument},
};
static_assert(sizeof(kWords) / sizeof(kWords[0]) == 1 - kLastSessionStatus,
              "every status has its words");

const StatusWords* Words(int status) {
  if (status > 0 || status < kLastSessionStatus) return nullptr;
  return &kWords[-status];
}

}  // namespace

absl::string_view SessionStatusName(int status) {
  const StatusWords* words = Words(status);
  return words == nullptr ? absl::string_view() : absl::string_view(words->name);
}

const char* SessionStatusText(int status) {
  const StatusWords* words = Words(status);
  return words == nullptr ? "not a status of this library" : words->text;
}

absl::Status SessionError(SessionStatus status, absl::string_view message) {
  const StatusWords* words = Words(static_cast<int>(status));
  if (words == nullptr || words->code == StatusCode::kOk) {
    return absl::InternalError(absl::StrCat("not an error status: ", message));
  }
  absl::Status result(words->code, message);
  result.SetPayload(kPayloadUrl, absl::Cord(absl::StrCat(static_cast<int>(status))));
  return result;
}

SessionStatus SessionStatusOf(const absl::Status& status) {
  if (status.ok()) return SessionStatus::kSuccess;
  auto payload = status.GetPayload(kPayloadUrl);
  int value = 0;
  if (payload.has_value() && absl::SimpleAtoi(std::string(*payload), &value) &&
      value < 0 && value >= kLastSessionStatus) {
    return static_cast<SessionStatus>(value);
  }
  return SessionStatus::kError;
}

void SetSessionOwner(uint64_t number, absl::Status* status) {
  status->SetPayload(kOwnerUrl, absl::Cord(absl::StrCat(number)));
}

uint64_t SessionOwnerOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kOwnerUrl);
  uint64_t number = 0;
  if (payload.has_value() && absl::SimpleAtoi(std::string(*payload), &number)) {
    return number;
  }
  return 0;
}

}  // namespace rocattach
