// The stub with which a waiting thread of the target calls one function: its code, its
// parameters, and its data on the thread's stack.
#ifndef ROCATTACH_INJECTOR_STUB_CALL_STUB_H_
#define ROCATTACH_INJECTOR_STUB_CALL_STUB_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "injector/stub/remote_address.h"

namespace rocattach {

// An argument: bytes to which the function gets a pointer, or nothing for a null
// pointer. After its two arguments, the function gets the number 1 as a third one.
using CallArgument = std::optional<std::string>;

struct CallSpec {
  RemoteAddress function;
  std::array<CallArgument, 2> arguments;
  RemoteAddress errno_location;  // null: errno is not preserved
  RemoteAddress return_ip;       // where the thread continues
  RemoteAddress stack_pointer;   // the thread's, where it is interrupted
  uint32_t xstate_bytes = 0;     // from XstateBytes()
  uint64_t purpose = 0;          // the caller's; CallInRoom() returns it
};

// The bytes for a spec. Both are written before the thread is sent to the stub.
struct BuiltCall {
  std::string stub;   // for any 16-byte aligned address; its first byte is its entry
  std::string stack;  // for stack_address, below the thread's stack pointer
  RemoteAddress stack_address;
  RemoteAddress block;  // a CallBlock within `stack`
};

// The state and the result of the call, as the stub reports them.
struct CallBlock {
  uint64_t mark = 0;
  uint32_t state = 0;  // one of those in call_frame.h
  uint32_t pad = 0;
  uint64_t result = 0;  // rax, once the state is CALL_RETURNED
};

// Number of bytes of BuiltCall::stub; constant.
size_t CallStubBytes();

// Maximum size of both arguments together, in bytes.
inline constexpr size_t kMaxCallArguments = 256 << 10;

// Bytes of stack that a call needs below the thread's stack pointer, not counting what
// the function itself uses.
uint64_t CallStackBytes(const CallSpec& spec);

// INVALID_ARGUMENT for a null address or without xstate. OUT_OF_RANGE if the arguments
// are too long.
absl::StatusOr<BuiltCall> BuildCall(const CallSpec& spec);

// A call that an injector has left in a target.
struct CallInTarget {
  RemoteAddress return_ip;
  RemoteAddress block;
  uint64_t purpose = 0;
};

// Reads `room`, the contents of a code cave of CallStubBytes(), rounded up to 16; empty
// if it does not hold a call stub.
std::optional<CallInTarget> CallInRoom(absl::string_view room);

// True if the bytes of a CallBlock are still those of one.
bool IsCallBlock(const CallBlock& block);

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_STUB_CALL_STUB_H_
