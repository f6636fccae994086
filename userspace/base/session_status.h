// The status values of ROCProfiler sessions, and absl::Statuses that carry them.
//
// Numbers and names are those of ROCProfiler's version 2 API (rocprofiler_status_t), so
// that programs written against it compare as before. The documentation also cites
// names that its enum does not have; they are reported as the value that means the
// same:
//   SESSION_MODE_NOT_ADDED       SESSION_MISSING_FILTER
//   MISSING_SESSION_CALLBACK     SESSION_MISSING_BUFFER
//   SESSION_MODE_FILTER_MISMATCH SESSION_FILTER_DATA_MISMATCH
//   SESSION_PROPERTIES_MISMATCH  SESSION_FILTER_DATA_MISMATCH
//   PROPERTY_DATA_CORRUPTED      FILTER_DATA_CORRUPTED
#ifndef ROCATTACH_USERSPACE_BASE_SESSION_STATUS_H_
#define ROCATTACH_USERSPACE_BASE_SESSION_STATUS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace rocattach {

enum class SessionStatus : int {
  kSuccess = 0,
  kError = -1,
  kAlreadyInitialized = -2,
  kNotInitialized = -3,
  kSessionMissingBuffer = -4,
  kTimestampNotApplicable = -5,
  kAgentNotFound = -6,
  kAgentInformationMissing = -7,
  kQueueNotFound = -8,
  kQueueInformationMissing = -9,
  kKernelNotFound = -10,
  kKernelInformationMissing = -11,
  kCounterNotFound = -12,
  kCounterInformationMissing = -13,
  kTracerApiDataNotFound = -14,
  kTracerApiDataInformationMissing = -15,
  kIncorrectDomain = -16,
  kSessionNotFound = -17,
  kCorruptedSessionBuffer = -18,
  kRecordCorrupted = -19,
  kIncorrectReplayMode = -20,
  kSessionMissingFilter = -21,
  kIncorrectSize = -22,
  kIncorrectFlushInterval = -23,
  kSessionFilterDataMismatch = -24,
  kFilterDataCorrupted = -25,
  kCorruptedLabelData = -26,
  kRangeStackIsEmpty = -27,
  kPassNotStarted = -28,
  kHasActiveSession = -29,
  kSessionNotActive = -30,
  kFilterNotFound = -31,
  kBufferNotFound = -32,
  kFilterNotSupported = -33,
  kInvalidArguments = -34,
  kInvalidOperationId = -35,
  kInvalidDomainId = -36,
  kNotImplemented = -37,
  kMismatchedExternalCorrelationId = -38,
};

// Smallest value of the enum; everything in [kLastSessionStatus, 0] is a status.
inline constexpr int kLastSessionStatus = -38;

// "ROCPROFILER_STATUS_ERROR_SESSION_NOT_FOUND" without the prefix: "SESSION_NOT_FOUND".
// Empty for a number that is no status.
absl::string_view SessionStatusName(int status);

// One sentence for users. Never null, even for unknown numbers.
const char* SessionStatusText(int status);

// An error that carries `status` (never kSuccess). Its absl code is the nearest one.
absl::Status SessionError(SessionStatus status, absl::string_view message);

// The session status of any absl::Status: kSuccess for OK, the carried one where there
// is one, kError for every other error.
SessionStatus SessionStatusOf(const absl::Status& status);

// The session that causes a HAS_ACTIVE_SESSION error, by its number in the recording;
// 0: not known.
void SetSessionOwner(uint64_t number, absl::Status* status);
uint64_t SessionOwnerOf(const absl::Status& status);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_BASE_SESSION_STATUS_H_
