// The numbers that name sessions, filters and buffers.
#ifndef ROCATTACH_USERSPACE_SESSION_SESSION_HANDLE_H_
#define ROCATTACH_USERSPACE_SESSION_SESSION_HANDLE_H_

#include <cstdint>

#include "userspace/session/session_types.h"

namespace rocattach {

// Part of the number, so that a filter's id is never mistaken for a session's.
enum class HandleKind : uint8_t {
  kSession = 1,
  kFilter = 2,
  kBuffer = 3,
  kDeviceSession = 4,
};

// Handles of one kind, counted from 1. Not thread-safe.
class HandleSource {
 public:
  explicit HandleSource(HandleKind kind) : kind_(kind) {}

  uint64_t Next() {
    return uint64_t{0x5257} << 48 | uint64_t{static_cast<uint8_t>(kind_)} << 40 |
           ++last_;
  }

 private:
  const HandleKind kind_;
  uint64_t last_ = 0;
};

// For users, and as in recordings: 1, 2, 3 …
inline uint64_t Number(SessionId id) {
  return static_cast<uint64_t>(id) & 0xffffffffff;
}

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SESSION_SESSION_HANDLE_H_
