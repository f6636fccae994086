#include "injector/remote_call.h"

#include <errno.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "injector/elf/symbol_lookup.h"
#include "injector/fault.h"
#include "injector/process/blocked_thread.h"
#include "injector/process/maps.h"
#include "injector/process/target_checks.h"
#include "injector/process/thread_owner.h"
#include "injector/stub/call_frame.h"
#include "injector/stub/stub.h"
#include "injector/tracing/tracee.h"
#include "userspace/base/clock.h"
#include "userspace/base/file.h"

namespace rocattach {
namespace {

// Stack for the function itself: tools load libraries and start threads there.
constexpr uint64_t kFunctionStack = 128 << 10;
// A thread that waits for calls has only few frames on its stack.
constexpr uint64_t kMaxDepth = 64 << 10;
constexpr uint64_t kBackPatienceNs = 1'000'000'000;
constexpr uint64_t kClearPatienceNs = 250'000'000;

AttachFailure Injected(const char* step) {
  return {AttachReason::kInternal, EIO, absl::StrCat("injected fault at ", step)};
}

AttachFailure Busy(const RemoteCallRequest& request, absl::string_view why) {
  return {AttachReason::kUnsafeContext, 0,
          absl::StrCat("thread ", request.tid, " of process ", request.pid,
                       " still executes an earlier call (", why,
                       "); try again when that has returned"),
          true};
}

AttachFailure NotInWait() {
  return {AttachReason::kNotAtWindow, 0, "the thread has left its wait", true};
}

// Sets `*next` to the registers with which a thread in a system call makes the same
// call again, which then waits as long, or longer where its timeout is relative. The
// kernel's restart state is not used: it is overwritten if the thread sleeps in
// between, and after a restart nothing shows which call it was. `*waits` is false if
// the call was over already.
StepResult SameCallAgain(const TargetMemory& memory, const user_regs_struct& registers,
                         user_regs_struct* next, bool* waits) {
  char before_ip[2] = {};
  absl::Status status = memory.Read(RemoteAddress(registers.rip - sizeof(before_ip)),
                                    before_ip, sizeof(before_ip));
  if (!status.ok()) return FailureFromStatus(status, AttachReason::kMemoryAccess);
  auto found = ContinueCall(registers, absl::string_view(before_ip, sizeof(before_ip)));
  *waits = found.ok() && found->rip != registers.rip;
  if (!*waits) return StepOk();
  *next = *found;
  if (next->rax == SYS_restart_syscall) next->rax = registers.orig_rax;
  return StepOk();
}

void SleepNs(uint64_t ns) {
  timespec time = {static_cast<time_t>(ns / 1'000'000'000),
                   static_cast<long>(ns % 1'000'000'000)};
  nanosleep(&time, nullptr);
}

}  // namespace

// The steps up to the redirect; nothing points to what is written before it.
class RemoteCallRun {
 public:
  explicit RemoteCallRun(const RemoteCallRequest& request) : request_(request) {}

  StepResult Begin(std::optional<RemoteCall>* call);
  StepResult FindEarlier(std::optional<EarlierCall>* earlier);

 private:
  StepResult Open();
  StepResult Stop();
  StepResult CheckIdle();
  StepResult Build();
  StepResult Write(RemoteAddress address, absl::string_view bytes);
  StepResult WriteAll();
  StepResult Redirect();
  StepResult FindCave();
  uint64_t StackTop() const;

  const RemoteCallRequest& request_;
  Tracee tracee_;
  std::optional<TargetMemory> memory_;
  std::optional<Maps> maps_;
  user_regs_struct registers_ = {};
  user_regs_struct continue_ = {};
  CodeCave cave_;
  std::optional<CallInTarget> earlier_;
  BuiltCall built_;
  bool written_ = false;
};

StepResult RemoteCallRun::Open() {
  auto memory = TargetMemory::Open(request_.pid, request_.tid);
  if (!memory.ok()) return FailureFromProc(memory.status());
  memory_.emplace(*std::move(memory));
  auto maps = Maps::Read(request_.tid);
  if (!maps.ok()) return FailureFromProc(maps.status());
  maps_.emplace(*std::move(maps));
  return FindCave();
}

StepResult RemoteCallRun::FindCave() {
  earlier_.reset();
  return FindCodeCave(request_.tid, *maps_, *memory_, nullptr, request_.function,
                      CallStubBytes(), &cave_, [this](absl::string_view room) {
                        earlier_ = CallInRoom(room);
                        return earlier_.has_value();
                      });
}

StepResult RemoteCallRun::FindEarlier(std::optional<EarlierCall>* earlier) {
  RETURN_IF_FAILED(Open());
  earlier->reset();
  if (!earlier_.has_value()) return StepOk();
  EarlierCall found;
  found.purpose = earlier_->purpose;
  CallBlock block;
  if (memory_->Read(earlier_->block, &block, sizeof(block)).ok() &&
      IsCallBlock(block)) {
    found.block = block;
  }
  *earlier = found;
  return StepOk();
}

StepResult RemoteCallRun::Stop() {
  if (FaultAt("call-seize")) return Injected("call-seize");
  RETURN_IF_FAILED(tracee_.Seize(request_.pid, request_.tid));
  // Only now: from here on the IDs cannot be reused.
  if (StepResult same = CheckIdentity(request_.pid, request_.start_ns); !same.ok()) {
    // A detach would need a stop, in which a call of another process could return EINTR.
    tracee_.ReleaseByEnd();
    return same;
  }
  if (FaultAt("call-interrupt")) return Injected("call-interrupt");
  RETURN_IF_FAILED(tracee_.Interrupt());
  RETURN_IF_FAILED(
      tracee_.WaitForStop(BootNs() + uint64_t{request_.stop_timeout_msec} * 1'000'000));
  if (FaultAt("call-stopped")) return Injected("call-stopped");
  RETURN_IF_FAILED(tracee_.ReadRegisters(&registers_));
  if (tracee_.pending_signal() != 0) {
    return AttachFailure{
        AttachReason::kUnsafeContext, 0,
        absl::StrCat("thread ", request_.tid, " is about to handle signal ",
                     tracee_.pending_signal()),
        true};
  }
  return StepOk();
}

// Address of the control block, which is above the frames of a thread that glibc has
// started; 0 on another stack, such as a stub's, where a thread is not in its own wait.
uint64_t RemoteCallRun::StackTop() const {
  const Mapping* stack = maps_->Find(RemoteAddress(registers_.rsp));
  const RemoteAddress control_block(registers_.fs_base);
  return stack != nullptr && stack->Contains(control_block) ? registers_.fs_base : 0;
}

// Checks that the thread is in no call, of this injector or of another: it would have
// code of the function's library, or of the stub, among its return addresses.
StepResult RemoteCallRun::CheckIdle() {
  bool waits = false;
  RETURN_IF_FAILED(SameCallAgain(*memory_, registers_, &continue_, &waits));
  if (!waits) return Busy(request_, "it is not waiting");
  const uint64_t top = StackTop();
  if (top <= registers_.rsp) return Busy(request_, "it is not on its own stack");
  if (top - registers_.rsp > kMaxDepth) return Busy(request_, "it is deep in calls");
  std::vector<uint64_t> words((top - registers_.rsp) / sizeof(uint64_t));
  absl::Status status = memory_->Read(RemoteAddress(registers_.rsp), words.data(),
                                      words.size() * sizeof(uint64_t));
  if (!status.ok()) return FailureFromStatus(status, AttachReason::kMemoryAccess);
  const bool in_call = std::any_of(words.begin(), words.end(), [this](uint64_t word) {
    const RemoteAddress address(word);
    return (request_.busy_begin <= address && address < request_.busy_end) ||
           (earlier_.has_value() && cave_.address <= address &&
            address < cave_.address + cave_.bytes);
  });
  return in_call ? Busy(request_, "found on its stack") : StepOk();
}

StepResult RemoteCallRun::Build() {
  CallSpec plan;
  plan.function = request_.function;
  plan.arguments = request_.arguments;
  plan.purpose = request_.purpose;
  plan.return_ip = RemoteAddress(continue_.rip);
  plan.stack_pointer = RemoteAddress(registers_.rsp);
  plan.xstate_bytes = XstateBytes();
  // If glibc's errno is not found, it is not preserved, which a wait does not need.
  LoaderFunctions functions;
  if (FindLoaderFunctions(request_.tid, *maps_, nullptr, &functions).ok()) {
    plan.errno_location = functions.errno_location;
  }
  RETURN_IF_FAILED(CheckStack(request_.tid, *maps_, RemoteAddress(registers_.rsp),
                              CallStackBytes(plan) + kFunctionStack));
  auto built = BuildCall(plan);
  if (!built.ok()) {
    return AttachFailure{absl::IsOutOfRange(built.status())
                             ? AttachReason::kResourceLimit
                             : AttachReason::kInternal,
                         0, std::string(built.status().message())};
  }
  built_ = *std::move(built);
  return StepOk();
}

StepResult RemoteCallRun::Write(RemoteAddress address, absl::string_view bytes) {
  absl::Status status = memory_->Write(address, bytes.data(), bytes.size());
  if (!status.ok()) {
    // The kernel may forbid it through /proc/PID/mem and allow it to the tracer.
    RETURN_IF_FAILED(tracee_.Poke(address, bytes));
  }
  std::string back(bytes.size(), '\0');
  status = memory_->Read(address, back.data(), back.size());
  if (!status.ok()) return FailureFromStatus(status, AttachReason::kMemoryAccess);
  if (back == bytes) return StepOk();
  return AttachFailure{AttachReason::kMemoryAccess, EIO,
                       absl::StrFormat("what was written to %#x reads back differently",
                                       address.value())};
}

StepResult RemoteCallRun::WriteAll() {
  if (FaultAt("call-stack")) return Injected("call-stack");
  RETURN_IF_FAILED(Write(built_.stack_address, built_.stack));
  if (FaultAt("call-stub")) return Injected("call-stub");
  written_ = true;
  // In pieces, so that a test can die between them.
  const size_t half = kFaultsBuiltIn ? built_.stub.size() / 2 : built_.stub.size();
  RETURN_IF_FAILED(
      Write(cave_.address, absl::string_view(built_.stub).substr(0, half)));
  if (FaultAt("call-half")) return Injected("call-half");
  return Write(cave_.address + half, absl::string_view(built_.stub).substr(half));
}

StepResult RemoteCallRun::Redirect() {
  if (FaultAt("call-redirect")) return Injected("call-redirect");
  user_regs_struct registers = continue_;
  registers.rip = cave_.address.value();
  RETURN_IF_FAILED(tracee_.SetRegisters(registers));
  (void)FaultAt("call-redirected");
  tracee_.Release();
  (void)FaultAt("call-released");
  return StepOk();
}

StepResult RemoteCallRun::Begin(std::optional<RemoteCall>* call) {
  RETURN_IF_FAILED(Stop());
  // Reads everything again: the thread is stopped, and no other tracer may write here.
  RETURN_IF_FAILED(Open());
  RETURN_IF_FAILED(CheckMappings(*maps_, "", /*attached_before=*/true));
  RETURN_IF_FAILED(CheckLibcThread(request_.pid, request_.tid, registers_.fs_base,
                                   *memory_, /*has_threads=*/true));
  RETURN_IF_FAILED(tracee_.CheckNotDispatched());
  RETURN_IF_FAILED(CheckIdle());
  RETURN_IF_FAILED(Build());
  StepResult result = WriteAll();
  if (result.ok()) result = Redirect();
  if (!result.ok()) {
    if (written_) (void)Write(cave_.address, cave_.before);
    return result;
  }
  RemoteCall begun(*std::move(memory_), request_);
  begun.cave_ = std::move(cave_);
  begun.built_ = std::move(built_);
  begun.stack_pointer_ = registers_.rsp;
  call->emplace(std::move(begun));
  return StepOk();
}

StepResult RemoteCall::Begin(const RemoteCallRequest& request,
                             std::optional<RemoteCall>* call) {
  StepResult result;
  // The end of this thread releases the target's where nothing else does.
  std::thread([&] { result = RemoteCallRun(request).Begin(call); }).join();
  return UnlessEnded(request.pid, request.tid, std::move(result));
}

StepResult RemoteCall::FindEarlier(const RemoteCallRequest& request,
                                   std::optional<EarlierCall>* earlier) {
  return RemoteCallRun(request).FindEarlier(earlier);
}

RemoteCall::State RemoteCall::Wait(uint64_t deadline_ns,
                                   const std::function<bool()>& cancelled) {
  constexpr uint64_t kShortestNs = 200'000, kLongestNs = 20'000'000;
  const std::string task = absl::StrCat("/proc/", pid_, "/task/", tid_);
  for (uint64_t pause_ns = kShortestNs;;
       pause_ns = std::min(2 * pause_ns, kLongestNs)) {
    // In this order: the thread may complete the call and end between the two checks.
    struct stat info;
    const bool gone = stat(task.c_str(), &info) != 0;
    CallBlock block;
    if (!memory_.Read(built_.block, &block, sizeof(block)).ok()) return State::kGone;
    if (IsCallBlock(block) && block.state == CALL_RETURNED) {
      result_ = block.result;
      return State::kReturned;
    }
    if (gone) return State::kGone;
    if (cancelled && cancelled()) return State::kCancelled;
    if (ClockNs(CLOCK_MONOTONIC) >= deadline_ns) return State::kRunning;
    SleepNs(pause_ns);
  }
}

// "NUMBER ARGUMENTS… SP PC" of a thread that sleeps in a system call.
bool RemoteCall::IsBack() const {
  auto text = ReadFile(absl::StrCat("/proc/", pid_, "/task/", tid_, "/syscall"), 4096);
  if (!text.ok()) return false;
  const std::vector<absl::string_view> words =
      absl::StrSplit(absl::StripAsciiWhitespace(*text), ' ');
  uint64_t stack_pointer = 0;
  return words.size() > 3 &&
         absl::SimpleHexAtoi(words[words.size() - 2], &stack_pointer) &&
         stack_pointer == stack_pointer_;
}

bool RemoteCall::Clear(bool keep_stub) {
  if (!WaitUntilBack()) return false;
  StepResult cleared;
  // The end of this thread releases the target's where nothing else does.
  std::thread([&] { cleared = ClearStopped(keep_stub); }).join();
  // It must be in its wait again for the next call.
  (void)WaitUntilBack();
  return cleared.ok();
}

bool RemoteCall::WaitUntilBack() const {
  constexpr uint64_t kPauseNs = 200'000;
  const uint64_t deadline_ns = ClockNs(CLOCK_MONOTONIC) + kBackPatienceNs;
  while (!IsBack()) {
    if (ClockNs(CLOCK_MONOTONIC) >= deadline_ns) return false;
    SleepNs(kPauseNs);
  }
  return true;
}

// Stops the thread, if it is in its wait.
StepResult RemoteCall::StopInWait(Tracee* tracee) const {
  if (FaultAt("clear-seize")) return Injected("clear-seize");
  RETURN_IF_FAILED(tracee->Seize(pid_, tid_));
  StepResult same = CheckIdentity(pid_, start_ns_);
  if (!same.ok() || !IsBack() || !FindBlockedCall(pid_, tid_).has_value()) {
    tracee->ReleaseByEnd();  // as above
    return same.ok() ? NotInWait() : same;
  }
  RETURN_IF_FAILED(tracee->Interrupt());
  RETURN_IF_FAILED(tracee->WaitForStop(BootNs() + kClearPatienceNs));
  if (FaultAt("clear-stopped")) return Injected("clear-stopped");
  user_regs_struct registers = {};
  RETURN_IF_FAILED(tracee->ReadRegisters(&registers));
  if (registers.rsp != stack_pointer_) return NotInWait();
  // A signal that is about to be handled must find the call as it is.
  if (tracee->pending_signal() != 0) return StepOk();
  user_regs_struct next;
  bool waits = false;
  RETURN_IF_FAILED(SameCallAgain(memory_, registers, &next, &waits));
  return waits ? tracee->SetRegisters(next) : StepOk();
}

StepResult RemoteCall::ClearStopped(bool keep_stub) const {
  Tracee tracee;
  RETURN_IF_FAILED(StopInWait(&tracee));
  const auto zero = [&](RemoteAddress begin, uint64_t bytes) -> StepResult {
    const std::string zeros(bytes, '\0');
    if (memory_.Write(begin, zeros.data(), bytes).ok()) return StepOk();
    return tracee.Poke(begin, zeros);
  };
  StepResult removed;
  if (!keep_stub) removed = zero(cave_.address, cave_.bytes);
  // A stub that stays keeps its block, which says how the call ended.
  const bool stays = keep_stub || !removed.ok();
  const RemoteAddress begin =
      stays ? built_.block + sizeof(CallBlock) : built_.stack_address;
  RETURN_IF_FAILED(zero(begin, built_.stack_address + built_.stack.size() - begin));
  return removed;
}

}  // namespace rocattach
