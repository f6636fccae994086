#include "injector/stub/call_stub.h"

#include <cstddef>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "injector/stub/call_frame.h"
#include "userspace/base/status_macros.h"

extern "C" {
// call_stub_code.S
extern const char rocattach_call_stub_begin[];
extern const char rocattach_call_stub_parameters[];
extern const char rocattach_call_stub_end[];
}

namespace rocattach {
namespace {

// "RWACALLS" and "RWABLOCK" as bytes in memory.
constexpr uint64_t kCallEndMark = 0x534c4c4143415752ull;
constexpr uint64_t kBlockMark = 0x4b434f4c42415752ull;

// Must agree with the labels at the end of call_stub_code.S.
struct CallParameters {
  uint64_t return_ip;
  uint64_t block;
  uint64_t xstate;
  uint64_t errno_location;
  uint64_t function;
  uint64_t first;
  uint64_t second;
  uint64_t purpose;
  uint64_t end_mark;
};

static_assert(offsetof(CallBlock, state) == CALL_STATE &&
              offsetof(CallBlock, result) == CALL_RESULT);

constexpr uint64_t kXstateAlignment = 64;  // of an xstate area

uint64_t RoundUp(uint64_t bytes) {
  return (bytes + kXstateAlignment - 1) & ~(kXstateAlignment - 1);
}

size_t CodeBytes() {
  return static_cast<size_t>(rocattach_call_stub_parameters -
                             rocattach_call_stub_begin);
}

size_t ArgumentBytes(const CallSpec& spec) {
  size_t bytes = 0;
  for (const CallArgument& argument : spec.arguments) {
    if (argument.has_value()) bytes += RoundUp(argument->size());
  }
  return bytes;
}

}  // namespace

size_t CallStubBytes() {
  return static_cast<size_t>(rocattach_call_stub_end - rocattach_call_stub_begin);
}

uint64_t CallStackBytes(const CallSpec& spec) {
  return CALL_GAP + kXstateAlignment + RoundUp(sizeof(CallBlock)) +
         ArgumentBytes(spec) + RoundUp(spec.xstate_bytes);
}

absl::StatusOr<BuiltCall> BuildCall(const CallSpec& spec) {
  if (spec.function.is_null() || spec.return_ip.is_null() ||
      spec.stack_pointer.value() <= CallStackBytes(spec) || spec.xstate_bytes == 0) {
    return absl::InvalidArgumentError("a call with a null address or no xstate size");
  }
  if (const size_t bytes = ArgumentBytes(spec); bytes > kMaxCallArguments) {
    return absl::OutOfRangeError(absl::StrCat(
        "the arguments have ", bytes, " bytes, at most ", kMaxCallArguments, " fit"));
  }
  BuiltCall built;
  // From the lowest address on: xstate area, block, arguments.
  built.stack_address = RemoteAddress(
      (spec.stack_pointer.value() - CallStackBytes(spec)) & ~(kXstateAlignment - 1));
  built.stack.assign(RoundUp(spec.xstate_bytes), '\0');
  built.block = built.stack_address + built.stack.size();
  CallBlock block;
  block.mark = kBlockMark;
  built.stack.append(reinterpret_cast<const char*>(&block), sizeof(block));

  CallParameters parameters = {};
  // Appends an argument to the stack and returns its address; 0 for a null pointer.
  const auto place = [&built](const CallArgument& argument) -> uint64_t {
    if (!argument.has_value()) return 0;
    built.stack.resize(RoundUp(built.stack.size()));
    const RemoteAddress address = built.stack_address + built.stack.size();
    built.stack.append(*argument);
    return address.value();
  };
  parameters.first = place(spec.arguments[0]);
  parameters.second = place(spec.arguments[1]);
  parameters.return_ip = spec.return_ip.value();
  parameters.block = built.block.value();
  parameters.xstate = built.stack_address.value();
  parameters.errno_location = spec.errno_location.value();
  parameters.function = spec.function.value();
  parameters.purpose = spec.purpose;
  parameters.end_mark = kCallEndMark;
  if (CodeBytes() + sizeof(parameters) != CallStubBytes()) {
    return absl::InternalError("call_stub_code.S and CallParameters disagree");
  }
  built.stub.assign(rocattach_call_stub_begin, CodeBytes());
  built.stub.append(reinterpret_cast<const char*>(&parameters), sizeof(parameters));
  return built;
}

std::optional<CallInTarget> CallInRoom(absl::string_view room) {
  CallParameters parameters;
  if (room.size() < CallStubBytes() ||
      room.substr(0, CodeBytes()) !=
          absl::string_view(rocattach_call_stub_begin, CodeBytes())) {
    return std::nullopt;
  }
  std::memcpy(&parameters, room.data() + CodeBytes(), sizeof(parameters));
  if (parameters.end_mark != kCallEndMark) return std::nullopt;
  return CallInTarget{RemoteAddress(parameters.return_ip),
                      RemoteAddress(parameters.block), parameters.purpose};
}

bool IsCallBlock(const CallBlock& block) {
  return block.mark == kBlockMark && block.state <= CALL_RETURNED;
}

}  // namespace rocattach
