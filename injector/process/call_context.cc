#include "injector/process/call_context.h"

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "injector/process/allocator_frames.h"
#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

constexpr uint64_t kMaxStackBytes = 32 * 1024;
constexpr int kMaxSignalFrames = 8;
constexpr uint64_t kUserCode = 0x33;  // the code segment of 64-bit programs

// struct ucontext and sigcontext of the kernel (arch/x86/include/uapi/asm), in words
// after the return address of a handler.
constexpr size_t kRegisters = 5;
constexpr size_t kStackPointer = kRegisters + 15;
constexpr size_t kInstruction = kRegisters + 16;
constexpr size_t kSegments = kRegisters + 18;
constexpr size_t kSiginfo = 304 / 8;
constexpr size_t kFrameWords = kSiginfo + 2;

// Calls that wait or send a signal: no lock of the C library is held in them.
constexpr uint32_t kHarmlessCalls[] = {
    SYS_tgkill, SYS_tkill,         SYS_kill,      SYS_rt_sigqueueinfo,
    SYS_pause,  SYS_rt_sigsuspend, SYS_nanosleep, SYS_clock_nanosleep,
    SYS_poll,   SYS_ppoll,         SYS_select,    SYS_pselect6};

// The state of the thread that a signal handler interrupted.
struct Interrupted {
  uint64_t stack_pointer = 0;
  uint64_t ip = 0;
  int signal = 0;
};

struct StackPart {
  uint64_t begin = 0;
  size_t count = 0;
  std::unique_ptr<uint64_t[]> words;

  absl::Span<const uint64_t> span() const { return {words.get(), count}; }
};

// Room for the stack above `from`.
StackPart StackAt(const Maps& maps, uint64_t from) {
  StackPart part;
  part.begin = from & ~uint64_t{7};
  const Mapping* mapping = maps.Find(RemoteAddress(part.begin));
  if (mapping == nullptr) return part;
  part.count =
      std::min(mapping->end.value() - part.begin, kMaxStackBytes) / sizeof(uint64_t);
  part.words = std::make_unique_for_overwrite<uint64_t[]>(part.count);
  return part;
}

TargetMemory::Part PartOf(const StackPart& part) {
  return {RemoteAddress(part.begin), part.words.get(), part.count * sizeof(uint64_t)};
}

// Reads the stack and, in the same call, `others`. The mapping may end with another
// thread's stack, behind an unreadable guard: only the part before that is this one's.
absl::Status ReadStack(const TargetMemory& memory, StackPart* part,
                       std::vector<TargetMemory::Part> others) {
  std::vector<TargetMemory::Part> all = others;
  all.push_back(PartOf(*part));
  if (memory.ReadParts(all).ok()) return absl::OkStatus();
  RETURN_IF_ERROR(memory.ReadParts(others));
  const TargetMemory::Part stack = PartOf(*part);
  ASSIGN_OR_RETURN(const size_t bytes,
                   memory.ReadFront(stack.address, stack.buffer, stack.bytes));
  part->count = bytes / sizeof(uint64_t);
  return absl::OkStatus();
}

// The next signal frame from `*at` upwards. Anything that looks like one is taken for
// one; a false match (stale data in an uninitialized buffer) can only cause a refusal.
std::optional<Interrupted> NextSignalFrame(const LibcState& libc, const StackPart& part,
                                           size_t* at) {
  for (; *at + kFrameWords <= part.count; ++*at) {
    const uint64_t* words = part.words.get() + *at;
    const bool returns = std::any_of(
        libc.signal_returns.begin(), libc.signal_returns.end(),
        [words](RemoteAddress address) { return address.value() == words[0]; });
    if (!returns) continue;
    const uint64_t* frame = words + 1;
    const int signal = static_cast<int>(frame[kSiginfo] & 0xffffffffu);
    if ((frame[kSegments] & 0xffff) != kUserCode || signal < 1 || signal > 64) continue;
    ++*at;
    return Interrupted{frame[kStackPointer], frame[kInstruction], signal};
  }
  return std::nullopt;
}

// True if the instruction before `ip` has made one of the harmless calls. glibc sets
// the number at most two instructions before.
bool IsHarmlessCall(const CallContext& context, uint64_t ip) {
  constexpr size_t kBytes = 16;
  unsigned char code[kBytes];
  if (!context.memory->Read(RemoteAddress(ip - kBytes), code, kBytes).ok())
    return false;
  if (code[kBytes - 2] != 0x0f || code[kBytes - 1] != 0x05) return false;
  for (size_t i = 0; i + 5 <= kBytes - 2; ++i) {
    uint32_t number;
    std::memcpy(&number, code + i + 1, sizeof(number));
    if (code[i] == 0xb8 /* mov $NUMBER, %eax */ &&
        std::find(std::begin(kHarmlessCalls), std::end(kHarmlessCalls), number) !=
            std::end(kHarmlessCalls)) {
      return true;
    }
  }
  return false;
}

AttachFailure Unsafe(std::string detail) {
  return {AttachReason::kUnsafeContext, 0, std::move(detail)};
}

StepResult CheckInterrupted(const CallContext& context, const Maps& maps,
                            const AllocatorFrames& allocator,
                            const Interrupted& interrupted) {
  const std::string where = absl::StrFormat(
      "hsa_init was called in a handler of signal %d (%s)", interrupted.signal,
      sigabbrev_np(interrupted.signal) ? sigabbrev_np(interrupted.signal) : "realtime");
  if (interrupted.signal == SIGABRT) {
    return Unsafe(absl::StrCat(where, ", which ends the program"));
  }
  const Mapping* mapping = maps.Find(RemoteAddress(interrupted.ip));
  if (mapping == nullptr) return StepOk();
  if (allocator.IsPart(*mapping)) {
    return Unsafe(absl::StrCat(where, " that interrupted the program's allocator in ",
                               mapping->path));
  }
  if (!IsLoaderOrGlibc(mapping->basename()) ||
      IsHarmlessCall(context, interrupted.ip)) {
    return StepOk();
  }
  return Unsafe(
      absl::StrFormat("%s that interrupted %s at %#x, where dlopen could wait "
                      "for a lock that the thread holds itself",
                      where, std::string(mapping->path), interrupted.ip));
}

}  // namespace

StepResult CheckCallContext(const CallContext& context, RemoteAddress* loader_state) {
  const LibcState& libc = *context.libc;
  uint64_t malloc = 0, state = 0;
  StackPart part = StackAt(*context.maps, context.registers.rsp);
  std::vector<TargetMemory::Part> parts;
  if (!libc.malloc_slot.is_null()) {
    parts.push_back({libc.malloc_slot, &malloc, sizeof(malloc)});
  }
  if (!libc.loader_state_slot.is_null()) {
    parts.push_back({libc.loader_state_slot, &state, sizeof(state)});
  }
  if (absl::Status status = ReadStack(*context.memory, &part, std::move(parts));
      !status.ok()) {
    return FailureFromStatus(status, AttachReason::kMemoryAccess);
  }
  *loader_state = RemoteAddress(state);
  const Mapping* mapping = context.maps->Find(RemoteAddress(malloc));
  const bool own_malloc =
      malloc != 0 && (mapping == nullptr || !IsGlibcLibrary(mapping->basename()));

  size_t at = 0;
  std::optional<Interrupted> interrupted = NextSignalFrame(libc, part, &at);
  if (!own_malloc && !interrupted.has_value()) return StepOk();

  // This is rare, so from here on it may take time.
  auto maps = Maps::Read(context.pid);
  if (!maps.ok()) {
    return FailureFromStatus(maps.status(), AttachReason::kMemoryAccess);
  }
  AllocatorFrames allocator(context.pid, *maps, *context.memory);
  if (own_malloc) allocator.SetMalloc(RemoteAddress(malloc));
  bool in_handler = interrupted.has_value();
  for (int frames = 0; interrupted.has_value(); ++frames) {
    if (frames >= kMaxSignalFrames) return Unsafe("too many nested signal handlers");
    RETURN_IF_FAILED(CheckInterrupted(context, *maps, allocator, *interrupted));
    const uint64_t next = interrupted->stack_pointer;
    if (next - part.begin < part.count * sizeof(uint64_t)) {
      at = std::max<size_t>(at, (next - part.begin) / sizeof(uint64_t));
    } else {
      part = StackAt(*maps, next);
      at = 0;
      // A stack that is not mapped has no frames.
      if (part.count == 0 || !ReadStack(*context.memory, &part, {}).ok()) break;
    }
    interrupted = NextSignalFrame(libc, part, &at);
  }
  if (!own_malloc) return StepOk();
  // The unwinder cannot unwind signal frames; any address counts there.
  std::optional<std::string> call = in_handler ? allocator.FindAddress(part.span())
                                               : allocator.FindCall(context.registers);
  if (!call.has_value()) return StepOk();
  return Unsafe(
      absl::StrCat("hsa_init was called by the program's own allocator: ", *call));
}

}  // namespace rocattach
