// The numbers that name sessions, filters and buffers.
#ifndef ROCATTACH_USERSPACE_SESSION_SESSION_HANDLE_H_
#define ROCATTACH_USERSPACE_SESSION_SESSION_HANDLE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "userspace/session/session_types.h"

namespace rocattach {

// Part of the number, so that a filter's id is never mistaken for a session's.
enum class HandleKind : uint8_t {
  kSession = 1,
  kFilter = 2,
  kBuffer = 3,
  kDeviceSession = 4,
};

// The kind is in the bits above the number.
inline constexpr int kHandleNumberBits = 40;

// Handles of one kind, counted from 1. Not thread-safe, except for the count.
class HandleSource {
 public:
  using Count = std::atomic<uint64_t>;

  // Sources that share a count never give the same number, whatever their kinds.
  explicit HandleSource(HandleKind kind,
                        std::shared_ptr<Count> last = std::make_shared<Count>(0))
      : kind_(kind), last_(std::move(last)) {}

  uint64_t Next() {
    return uint64_t{static_cast<uint8_t>(kind_)} << kHandleNumberBits | ++*last_;
  }

 private:
  const HandleKind kind_;
  const std::shared_ptr<Count> last_;
};

// The number that recordings and users of the service see: 1, 2, 3 …
inline uint64_t Number(SessionId id) {
  return static_cast<uint64_t>(id) & ((uint64_t{1} << kHandleNumberBits) - 1);
}
inline SessionId SessionOfNumber(uint64_t number) {
  return static_cast<SessionId>(uint64_t{static_cast<uint8_t>(HandleKind::kSession)}
                                    << kHandleNumberBits |
                                number);
}

// The name of a session for the program that has the handle.
inline std::string HandleName(SessionId id) {
  return absl::StrCat("session ", static_cast<uint64_t>(id));
}

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SESSION_SESSION_HANDLE_H_
