#include "userspace/control/session_wire.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "userspace/base/session_status.h"

namespace rocattach {
namespace {

// A message travels in a header, of which there is room for 8 KiB; beyond that, the
// call fails without any status of ours. Other characters than ASCII take three times
// their bytes.
constexpr size_t kMostMessageBytes = 2000;

}  // namespace

std::string WireMessage(absl::string_view message) {
  if (message.size() <= kMostMessageBytes) return std::string(message);
  size_t end = kMostMessageBytes;
  // Not within a character.
  while (end > 0 && (static_cast<unsigned char>(message[end]) & 0xc0) == 0x80) --end;
  return absl::StrCat(message.substr(0, end), "…");
}

v1::TargetProcess ToProto(ProcessId target) {
  v1::TargetProcess out;
  out.set_pid(static_cast<uint32_t>(target.pid));
  out.set_start_ticks(target.start_ticks);
  return out;
}

ProcessId FromProto(const v1::TargetProcess& process) {
  return {static_cast<pid_t>(process.pid()), process.start_ticks()};
}

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  v1::SessionErrorDetail detail;
  detail.set_status(static_cast<int>(SessionStatusOf(status)));
  detail.set_owner(SessionOwnerOf(status));
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()),
                      WireMessage(status.message()), detail.SerializeAsString());
}

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  v1::SessionErrorDetail detail;
  int number = static_cast<int>(SessionStatus::kError);
  const bool told = !status.error_details().empty() &&
                    detail.ParseFromString(status.error_details()) &&
                    !SessionStatusName(detail.status()).empty() && detail.status() != 0;
  if (told) number = detail.status();
  const std::string sent = status.error_message();
  absl::string_view message = sent;
  if (!told && status.error_code() == grpc::StatusCode::UNAVAILABLE) {
    message =
        "rocattach-watch has closed the connection: it is ending, it has too many "
        "connections, or you are neither root nor the user that runs it";
  } else if (!told && status.error_code() == grpc::StatusCode::UNIMPLEMENTED) {
    message = "this rocattach-watch is older than the library";
  } else if (!told && status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    message = "rocattach-watch has not carried this out in time";
  }
  absl::Status result = SessionError(static_cast<SessionStatus>(number), message);
  if (detail.owner() != 0) SetSessionOwner(detail.owner(), &result);
  return result;
}

}  // namespace rocattach
