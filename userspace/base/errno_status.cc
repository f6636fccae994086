#include "userspace/base/errno_status.h"

#include <errno.h>

#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace rocattach {
namespace {

constexpr char kErrnoPayload[] = "rocattach/errno";

}  // namespace

absl::Status ErrnoStatus(int error, absl::string_view message) {
  absl::Status status = absl::ErrnoToStatus(error, message);  // allowed: kept next
  status.SetPayload(kErrnoPayload, absl::Cord(absl::StrCat(error)));
  return status;
}

int ErrnoOf(const absl::Status& status) {
  int error = 0;
  auto payload = status.GetPayload(kErrnoPayload);
  if (!payload.has_value() || !absl::SimpleAtoi(std::string(*payload), &error)) {
    return 0;
  }
  return error;
}

bool IsOwnShortage(int error) {
  return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS;
}

}  // namespace rocattach
