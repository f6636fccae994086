#include "injector/stub/stub_removal.h"

#include <errno.h>
#include <sys/stat.h>

#include <algorithm>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "injector/process/blocked_thread.h"
#include "injector/process/maps.h"
#include "injector/process/target_checks.h"
#include "injector/process/target_memory.h"
#include "injector/stub/remote_address.h"
#include "injector/stub/stub.h"
#include "injector/tracing/tracee.h"
#include "userspace/base/clock.h"
#include "userspace/base/file.h"

namespace rocattach {
namespace {

constexpr uint64_t kRemovalPatienceNs = 100'000'000;
// No more stack than this is searched between hsa_init and the thread's position.
constexpr uint64_t kMaxUsedStackBytes = 1u << 20;

struct Position {
  uint64_t ip = 0;
  uint64_t stack_pointer = 0;
};

AttachFailure InUse(absl::string_view why) {
  return {AttachReason::kNotAtWindow, 0,
          absl::StrCat("the stub may still be in use: ", why), true};
}

std::string TaskPath(const StubLocation& location) {
  return absl::StrCat("/proc/", location.pid, "/task/", location.tid);
}

bool IsGone(const StubLocation& location) {
  struct stat info;
  return stat(TaskPath(location).c_str(), &info) != 0 && errno == ENOENT;
}

// Position of a sleeping thread: "NUMBER ARGUMENTS… SP PC", or "-1 SP PC". Empty if the
// thread runs, or where the kernel does not provide it.
std::optional<Position> SleepingAt(const StubLocation& location) {
  auto text = ReadFile(absl::StrCat(TaskPath(location), "/syscall"), 4096);
  if (!text.ok()) return std::nullopt;
  std::vector<absl::string_view> words =
      absl::StrSplit(absl::StripAsciiWhitespace(*text), ' ');
  Position position;
  if (words.size() < 3 ||
      !absl::SimpleHexAtoi(words[words.size() - 2], &position.stack_pointer) ||
      !absl::SimpleHexAtoi(words.back(), &position.ip)) {
    return std::nullopt;
  }
  return position;
}

// Size of the larger one of the two kinds of stub.
size_t MostBytes() {
  return std::max(StubBytes(StubKind::kByPath), StubBytes(StubKind::kByDescriptor));
}

bool InStub(const StubLocation& location, uint64_t address) {
  return address - location.address < MostBytes();
}

// Checks that a thread at `position` has left the stub. While it is in a function that
// the stub has called, its stack pointer is on the stub's own stack; while it is in a
// signal handler that interrupted the stub itself, the stub's address is on its stack.
StepResult CheckLeft(const StubLocation& location, const TargetMemory& memory,
                     Position position) {
  if (InStub(location, position.ip)) return InUse("its thread is in it");
  auto maps = Maps::ReadFiles(location.pid, RemoteAddress(position.stack_pointer));
  if (!maps.ok()) {
    return FailureFromStatus(maps.status(), AttachReason::kMemoryAccess);
  }
  const Mapping* stack = maps->Find(RemoteAddress(position.stack_pointer));
  if (stack == nullptr || !stack->Contains(RemoteAddress(location.stack_pointer - 1))) {
    return InUse("its thread is on another stack");
  }
  if (position.stack_pointer >= location.stack_pointer) return StepOk();
  const uint64_t begin = position.stack_pointer & ~uint64_t{7};
  const uint64_t bytes = location.stack_pointer - begin;
  if (bytes > kMaxUsedStackBytes) return InUse("its thread uses much stack");
  std::vector<uint64_t> words(bytes / sizeof(uint64_t));
  absl::Status status =
      memory.Read(RemoteAddress(begin), words.data(), words.size() * sizeof(uint64_t));
  if (!status.ok()) {
    return FailureFromStatus(status, AttachReason::kMemoryAccess);
  }
  if (std::any_of(words.begin(), words.end(),
                  [&](uint64_t word) { return InStub(location, word); })) {
    return InUse("its address is on its thread's stack");
  }
  return StepOk();
}

// `tracee` holds the thread, or is null.
StepResult Zero(const StubLocation& location, const TargetMemory& memory,
                Tracee* tracee) {
  // At most up to the end of the page, where the room ends too.
  std::string room(
      std::min<uint64_t>(MostBytes(), kPageBytes - location.address % kPageBytes),
      '\0');
  const RemoteAddress address(location.address);
  absl::Status status = memory.Read(address, room.data(), room.size());
  const FoundStub stub = FindStub(room);
  // The stub is gone, or that of another window is in its place.
  if (!status.ok() || stub.bytes == 0 || stub.window_id != location.window_id) {
    return StepOk();
  }
  room.assign(stub.bytes, '\0');
  status = memory.Write(address, room.data(), room.size());
  if (status.ok()) return StepOk();
  if (tracee != nullptr) return tracee->Poke(address, room);
  AttachFailure failure = FailureFromStatus(status, AttachReason::kMemoryAccess);
  failure.retryable = true;
  return failure;
}

// Checks a thread that has been seized: by now it may be in a call that an interruption
// would end, or belong to another process.
StepResult CheckSeized(const StubLocation& location) {
  RETURN_IF_FAILED(CheckIdentity(location.pid, location.start_ns));
  if (SleepingAt(location).has_value() &&
      !FindBlockedCall(location.pid, location.tid).has_value()) {
    return InUse("its thread is in a call that would end with EINTR");
  }
  return StepOk();
}

StepResult RemoveStopped(const StubLocation& location, const TargetMemory& memory) {
  Tracee tracee;
  RETURN_IF_FAILED(tracee.Seize(location.pid, location.tid));
  StepResult may_stop = CheckSeized(location);
  if (!may_stop.ok()) {
    // A detach would need a stop.
    tracee.ReleaseByEnd();
    return may_stop;
  }
  RETURN_IF_FAILED(tracee.Interrupt());
  RETURN_IF_FAILED(tracee.WaitForStop(BootNs() + kRemovalPatienceNs));
  user_regs_struct registers;
  RETURN_IF_FAILED(tracee.ReadRegisters(&registers));
  RETURN_IF_FAILED(CheckLeft(location, memory, {registers.rip, registers.rsp}));
  return Zero(location, memory, &tracee);
}

StepResult Remove(const StubLocation& location) {
  auto memory = TargetMemory::Open(location.pid, location.tid);
  if (!memory.ok() && IsGone(location)) {
    memory = TargetMemory::Open(location.pid, location.pid);
  }
  if (!memory.ok()) {
    return AttachFailure{AttachReason::kTargetExited, ErrnoOf(memory.status()),
                         std::string(memory.status().message())};
  }
  RETURN_IF_FAILED(CheckIdentity(location.pid, location.start_ns));
  if (IsGone(location)) return Zero(location, *memory, nullptr);
  if (std::optional<Position> position = SleepingAt(location)) {
    StepResult removed = CheckLeft(location, *memory, *position);
    if (removed.ok()) removed = Zero(location, *memory, nullptr);
    // A kernel that forbids the write may still allow it to a tracer.
    if (removed.ok() || removed.failure().reason == AttachReason::kNotAtWindow) {
      return removed;
    }
  }
  return RemoveStopped(location, *memory);
}

}  // namespace

StepResult RemoveStub(const StubLocation& location) {
  if (location.address == 0) return StepOk();
  // On a new thread: its end releases the target where nothing else does.
  StepResult result;
  std::thread([&] { result = Remove(location); }).join();
  return result;
}

}  // namespace rocattach
