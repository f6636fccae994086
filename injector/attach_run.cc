#include "injector/attach_run.h"

#include <errno.h>
#include <sched.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "injector/descriptor_sender.h"
#include "injector/fault.h"
#include "injector/process/blocked_thread.h"
#include "injector/process/call_context.h"
#include "injector/process/seccomp_filter.h"
#include "injector/process/target_checks.h"
#include "injector/process/target_memory.h"
#include "injector/process/thread_owner.h"
#include "userspace/base/clock.h"

namespace rocattach {
namespace {

// The fault-injection build writes the stub in pieces, with a fault point for each.
constexpr size_t kWritePiece = kFaultsBuiltIn ? 64 : TargetMemory::kMaxTransfer;

// Time limit for another thread to release the loader's lock; then the attach fails.
constexpr uint64_t kLoaderPatienceNs = 100'000'000;
// The same for a caller that serves the stops of many processes.
constexpr uint64_t kShortPatienceNs = 10'000'000;

// Time limit for the thread to reach the stub's first calls, for such a caller.
constexpr uint64_t kSendPatienceNs = 100'000'000;

// The functions that are probed for a late attach begin with `mov DISTANCE(%rip), %rax`
// (48 8b 05), whose first byte the probe has replaced. The thread stops behind it.
constexpr char kLoadFromTable[] = {'\x8b', '\x05'};
constexpr uint64_t kLoadFromTableBytes = 7;

}  // namespace

AttachFailure InjectedFault(absl::string_view step) {
  return {AttachReason::kInternal, EIO, absl::StrCat("injected fault at ", step)};
}

StepResult AttachRun::Prepare(PreparedTarget* prepared) {
  RETURN_IF_FAILED(CheckRequest());
  return inspection_.Prepare(prepared);
}

AttachOutcome AttachRun::Run() {
  return Finish(Steps());
}

AttachOutcome AttachRun::Finish(StepResult result) {
  if (!result.ok()) RestoreCave(&result.failure());
  tracee_->Release();
  outcome_.tracer_must_exit = tracee_->tracer_must_exit();
  outcome_.released_ns = tracee_->released_ns();
  if (!inspection_.learned().empty() && request_.callbacks.on_learned) {
    request_.callbacks.on_learned(inspection_.learned());
  }
  if (result.ok()) {
    if (outcome_.tracer_must_exit) {
      // The stub is in place and runs as soon as the tracer ends.
      outcome_.detail = "PTRACE_DETACH failed; the end of the calling thread detaches";
    }
    outcome_.stage = AttachStage::kDone;
    return outcome_;
  }
  AttachFailure& failure = result.failure();
  outcome_.reason = failure.reason;
  outcome_.error = failure.error;
  outcome_.detail = std::move(failure.detail);
  outcome_.retryable = failure.retryable;
  return outcome_;
}

StepResult AttachRun::Steps() {
  RETURN_IF_FAILED(CheckRequest());
  if (begun_ == nullptr) {
    outcome_.seized_ns = outcome_.stopped_ns = BootNs();
    RETURN_IF_FAILED(CheckIdentity(request_.point.pid, request_.point.start_ns));
  } else {
    RETURN_IF_FAILED(Seize());
    if (!SharesCpu() && inspection_.MayInspect()) {
      RETURN_IF_FAILED(InspectTarget());
    }
    RETURN_IF_FAILED(WaitForStop());
  }
  RETURN_IF_FAILED(request_.point.blocked ? CheckBlocked() : CheckWindow());
  if (!inspection_.inspected()) {
    RETURN_IF_FAILED(InspectTarget());
  }
  outcome_.stage = AttachStage::kCheck;
  RETURN_IF_FAILED(CheckOwner());
  RETURN_IF_FAILED(CheckRoom());
  RETURN_IF_FAILED(CheckFilters());
  RemoteAddress loader_state;
  RETURN_IF_FAILED(CheckContext(&loader_state));
  RETURN_IF_FAILED(CheckLocks(loader_state));
  if (request_.point.blocked) RETURN_IF_FAILED(CheckSignals());
  RETURN_IF_FAILED(WriteStub());
  RETURN_IF_FAILED(Redirect());
  if (facts_.stub_kind == StubKind::kByDescriptor) {
    RETURN_IF_FAILED(SendCollector());
  }
  outcome_.stage = AttachStage::kRelease;
  (void)FaultAt("before-detach");
  return StepOk();
}

// Address at which the thread continues behind the probed instruction; 0: not known.
uint64_t AttachRun::ReturnAddress() const {
  char code[sizeof(kLoadFromTable)];
  const uint64_t ip = request_.point.window_ip;
  if (!facts_.memory->Read(RemoteAddress(ip + 1), code, sizeof(code)).ok() ||
      std::memcmp(code, kLoadFromTable, sizeof(code)) != 0) {
    return 0;
  }
  return ip + kLoadFromTableBytes;
}

StepResult AttachRun::WriteAhead(uint64_t stack_pointer) {
  RETURN_IF_FAILED(CheckRequest());
  RETURN_IF_FAILED(CheckIdentity(request_.point.pid, request_.point.start_ns));
  RETURN_IF_FAILED(InspectTarget());
  if (facts_.stub_kind != StubKind::kByPath) {
    return AttachFailure{AttachReason::kUnsupported, 0,
                         "the collector has to be sent to the stopped thread"};
  }
  // The checks are made here as at the stop, so that nothing is done there for the
  // first time. Results that depend on where the running thread is do not count.
  registers_.rsp = stack_pointer;
  RETURN_IF_FAILED(CheckRoom());
  RemoteAddress loader_state;
  (void)CheckContext(&loader_state);
  RETURN_IF_FAILED(CheckLocks(loader_state));
  continue_.rip = ReturnAddress();
  // If it is not known, the stub is written again at the stop.
  if (continue_.rip == 0) continue_.rip = request_.point.window_ip;
  RETURN_IF_FAILED(WriteStub());
  absl::Status status = ahead_.AddFunctions(facts_.functions, *facts_.memory);
  if (!status.ok()) return FailureFromStatus(status, AttachReason::kMemoryAccess);
  std::string stub(written_, '\0');
  status = facts_.memory->Read(facts_.cave.address, stub.data(), stub.size());
  if (!status.ok()) return FailureFromStatus(status, AttachReason::kMemoryAccess);
  ahead_.Add(facts_.cave.address, std::move(stub));
  return StepOk();
}

void AttachRun::WarmUpEntry() {
  RemoteAddress loader_state;
  (void)CheckRoom();
  (void)CheckContext(&loader_state);
  (void)CheckLocks(loader_state);
  (void)ahead_.StillHold(*facts_.memory);
}

StepResult AttachRun::SeizeAhead() {
  outcome_.stage = AttachStage::kSeize;
  const auto [pid, tid] = std::pair(request_.point.pid, request_.point.tid);
  RETURN_IF_FAILED(tracee_->Seize(pid, tid));
  outcome_.seized_ns = BootNs();
  // Only from here on does the ID mean this thread and no later one.
  outcome_.stage = AttachStage::kCheck;
  RETURN_IF_FAILED(CheckIdentity(pid, request_.point.start_ns));
  auto status = ReadThreadStatus(pid, tid);
  if (!status.ok()) return FailureFromProc(status.status());
  RETURN_IF_FAILED(CheckSeccomp(*status));
  if (facts_.functions.mutex_trylock.is_null()) return StepOk();
  StepResult owner = CheckHasRobustList(tid);
  if (!owner.ok()) owner.failure().retryable = true;  // at the call of another thread
  return owner;
}

StepResult AttachRun::Enter() {
  outcome_.stage = AttachStage::kStop;
  outcome_.stopped_ns = BootNs();
  RETURN_IF_FAILED(CheckWindow());
  outcome_.stage = AttachStage::kCheck;
  RETURN_IF_FAILED(CheckOwner());
  RETURN_IF_FAILED(CheckRoom());
  RETURN_IF_FAILED(CheckFilters());
  RemoteAddress loader_state;
  StepResult context = CheckContext(&loader_state);
  // The thread's next call may come from elsewhere.
  if (!context.ok()) {
    context.failure().retryable |=
        context.failure().reason == AttachReason::kUnsafeContext;
    return context;
  }
  RETURN_IF_FAILED(CheckLocks(loader_state));
  if (!ahead_.StillHold(*facts_.memory)) {
    return AttachFailure{AttachReason::kMemoryAccess, 0,
                         "the process has changed what was prepared in it"};
  }
  if (stub_return_ != RemoteAddress(continue_.rip) || stub_lock_ != locks_.load) {
    RETURN_IF_FAILED(WriteStub());
  }
  RETURN_IF_FAILED(Redirect());
  outcome_.stage = AttachStage::kRelease;
  (void)FaultAt("before-detach");
  return StepOk();
}

bool AttachRun::SharesCpu() const {
  return request_.known.cpu >= 0 && request_.known.cpu == sched_getcpu();
}

StepResult AttachRun::InspectTarget() {
  StepResult result = inspection_.Inspect();
  outcome_.stage = inspection_.stage();
  return result;
}

StepResult AttachRun::CheckRequest() {
  outcome_.stage = AttachStage::kCheck;
  if (request_.point.pid <= 0 || request_.point.tid <= 0 ||
      request_.point.window_ip == 0) {
    return AttachFailure{
        AttachReason::kInternal, EINVAL,
        absl::StrCat("request without pid (", request_.point.pid, "), tid (",
                     request_.point.tid, ") or window_ip")};
  }
  for (const std::string* path :
       {&request_.collector.path, &request_.other_collector.path}) {
    if (path->empty() && path != &request_.collector.path) continue;
    if (path->empty() || path->front() != '/' || path->find('\0') != path->npos ||
        path->size() >= sizeof(request_.config.collector_path)) {
      return AttachFailure{
          AttachReason::kInternal, EINVAL,
          absl::StrCat("the collector's path must be absolute and shorter than ",
                       sizeof(request_.config.collector_path), ": ", *path)};
    }
  }
  if (XstateBytes() == 0) {
    return AttachFailure{AttachReason::kUnsupported, 0,
                         "the processor or the kernel has no XSAVE"};
  }
  return StepOk();
}

StepResult AttachRun::Seize() {
  if (begun_->seized_ns == 0 && begun_->result.ok()) {
    begun_->blocked = request_.point.blocked;
    BeginAttach(
        request_.point.pid, request_.point.tid, request_.point.start_ns,
        request_.stop_timeout_msec, [] { return false; }, begun_);
  }
  outcome_.stage = begun_->stage;
  outcome_.seized_ns = begun_->seized_ns;
  return begun_->result;
}

StepResult AttachRun::WaitForStop() {
  outcome_.stage = AttachStage::kStop;
  if (FaultAt("stop")) return InjectedFault("stop");
  RETURN_IF_FAILED(tracee_->WaitForStop(begun_->stop_deadline_ns, SharesCpu(),
                                        request_.callbacks.on_wait));
  outcome_.stopped_ns = BootNs();
  if (request_.callbacks.on_stopped) request_.callbacks.on_stopped();
  if (FaultAt("after-stop")) return InjectedFault("after-stop");
  return StepOk();
}

StepResult AttachRun::CheckWindow() {
  RETURN_IF_FAILED(tracee_->ReadRegisters(&registers_));
  // Inside a system call the kernel owns the restart state, so a call cannot safely be
  // inserted.
  if (registers_.orig_rax != static_cast<unsigned long long>(-1)) {
    return AttachFailure{AttachReason::kNotAtWindow, 0,
                         absl::StrCat("thread ", request_.point.tid,
                                      " is in system call ", registers_.orig_rax)};
  }
  // One comparison suffices: below the window the difference wraps.
  if (registers_.rip - request_.point.window_ip > kWindowBytes) {
    return AttachFailure{
        AttachReason::kNotAtWindow, 0,
        absl::StrFormat("thread %d is at %#x, the window at %#x", request_.point.tid,
                        registers_.rip, request_.point.window_ip),
        true};
  }
  continue_ = registers_;
  return StepOk();
}

StepResult AttachRun::CheckBlocked() {
  RETURN_IF_FAILED(tracee_->ReadRegisters(&registers_));
  if (tracee_->pending_signal() != 0) {
    // Its handler interrupts the call, which the program may rely on.
    return AttachFailure{
        AttachReason::kNotAtWindow, 0,
        absl::StrCat("thread ", request_.point.tid, " is about to handle signal ",
                     tracee_->pending_signal()),
        true};
  }
  if (!inspection_.inspected()) {
    RETURN_IF_FAILED(InspectTarget());
  }
  char before_ip[2] = {};
  absl::Status status = facts_.memory->Read(
      RemoteAddress(registers_.rip - sizeof(before_ip)), before_ip, sizeof(before_ip));
  if (!status.ok()) return FailureFromStatus(status, AttachReason::kMemoryAccess);
  auto registers =
      ContinueCall(registers_, absl::string_view(before_ip, sizeof(before_ip)));
  // In another call it might hold locks that dlopen takes.
  if (!registers.ok() || begun_ == nullptr || !begun_->call.IsOf(registers_)) {
    return AttachFailure{
        AttachReason::kNotAtWindow, 0,
        absl::StrCat("thread ", request_.point.tid, " has left its system call"), true};
  }
  continue_ = *registers;
  return StepOk();
}

// A thread that is not the C library's must not call dlopen.
StepResult AttachRun::CheckOwner() const {
  const auto [pid, tid] = std::pair(request_.point.pid, request_.point.tid);
  StepResult owner = CheckLibcThread(pid, tid, registers_.fs_base, *facts_.memory,
                                     !facts_.functions.mutex_trylock.is_null());
  if (owner.ok() && request_.point.blocked) {
    owner = CheckStorageIsNotShared(pid, tid, registers_.fs_base, *facts_.memory);
  }
  // Another thread of a running process will do as well.
  if (!owner.ok() && owner.failure().reason == AttachReason::kForeignThread) {
    owner.failure().retryable = request_.point.blocked || !ahead_.empty();
  }
  return owner;
}

StepResult AttachRun::CheckRoom() {
  const RemoteAddress stack_pointer(registers_.rsp);
  RETURN_IF_FAILED(inspection_.CoverAddress(stack_pointer - 1));
  return CheckStack(request_.point.tid, *facts_.maps, stack_pointer, StubFrameBytes());
}

// Checks that no seccomp filter would end the process at a system call of the stub or
// the loader, and that these calls are not turned into SIGSYS for a handler of the
// program. Both can be read only while the thread is stopped.
StepResult AttachRun::CheckFilters() const {
  RETURN_IF_FAILED(tracee_->CheckNotDispatched());
  return CheckSeccompOfThread(
      [this](uint32_t index, SeccompProgram* program) {
        return ReadSeccompFilterOf(request_.point.tid, index, program);
      },
      [this] {
        const auto status = ReadThreadStatus(request_.point.pid, request_.point.tid);
        return !status.ok() || status->seccomp_mode != SECCOMP_MODE_DISABLED;
      },
      facts_.stub_kind, request_.point.blocked, HasRseq(request_.point.tid));
}

// Checks that dlopen may be called here and now.
StepResult AttachRun::CheckContext(RemoteAddress* loader_state) const {
  CallContext context;
  context.pid = request_.point.tid;
  context.registers = registers_;
  context.maps = &*facts_.maps;
  context.memory = &*facts_.memory;
  context.libc = &facts_.libc;
  return CheckCallContext(context, loader_state);
}

// This thread is stopped but others run, so the stub tries the lock again.
StepResult AttachRun::CheckLocks(RemoteAddress loader_state) {
  if (facts_.functions.mutex_trylock.is_null()) return StepOk();
  locks_ = FindLoaderLocks(*facts_.memory, loader_state, facts_.libc.facts.get());
  if (FaultAt("loader-wait")) return StepOk();
  return WaitForLoaderLocks(request_.point.pid, request_.point.tid, *facts_.memory,
                            locks_, LoaderDeadline(), request_.point.blocked);
}

// A signal that is queued already is delivered before the stub's first instruction, and
// its handler does not see the call that it interrupts, so it must run first. This
// check comes as late as possible, but before anything is written.
StepResult AttachRun::CheckSignals() const {
  auto status = ReadThreadStatus(request_.point.pid, request_.point.tid);
  if (!status.ok()) return FailureFromProc(status.status());
  const uint64_t due = status->pending & ~status->blocked;
  if (due == 0) return StepOk();
  return AttachFailure{
      AttachReason::kNotAtWindow, 0,
      absl::StrCat("signal ", std::countr_zero(due) + 1,
                   " is about to be delivered to thread ", request_.point.tid),
      true};
}

uint64_t AttachRun::LoaderDeadline() const {
  const uint64_t now_ns = BootNs();
  // No wait: the thread will make other calls.
  if (!ahead_.empty()) return now_ns;
  if (begun_ == nullptr) return now_ns + kShortPatienceNs;
  return std::min(now_ns + kLoaderPatienceNs, begun_->stop_deadline_ns);
}

StepResult AttachRun::BuildTheStub(std::string* stub) {
  StubSpec plan;
  plan.kind = facts_.stub_kind;
  if (facts_.stub_kind == StubKind::kByDescriptor) {
    auto socket = StubSocket::Random();
    if (!socket.ok()) {
      return FailureFromStatus(socket.status(), AttachReason::kInternal);
    }
    plan.socket = socket_ = *socket;
  }
  plan.return_ip = stub_return_ = RemoteAddress(continue_.rip);
  if (request_.point.blocked) plan.ending_handlers = HandlersThatEnd(registers_);
  plan.functions = facts_.functions;
  plan.locks = locks_;
  stub_lock_ = locks_.load;
  plan.xstate_bytes = XstateBytes();
  plan.config = request_.config;
  plan.config.size = sizeof(plan.config);
  plan.config.version = ROCATTACH_SHM_VERSION;
  plan.config.window_address = request_.point.window_ip;
  plan.config.clock_offset_ns = facts_.clock_offset_ns;
  std::memset(plan.config.collector_path, 0, sizeof(plan.config.collector_path));
  std::memcpy(plan.config.collector_path, facts_.collector_path.data(),
              facts_.collector_path.size());
  auto built = BuildStub(plan);
  if (!built.ok()) {
    return AttachFailure{AttachReason::kInternal, 0,
                         std::string(built.status().message())};
  }
  *stub = *std::move(built);
  return StepOk();
}

StepResult AttachRun::WriteAt(RemoteAddress address, absl::string_view bytes) {
  absl::Status status = facts_.memory->Write(address, bytes.data(), bytes.size());
  if (status.ok()) return StepOk();
  if (ErrnoOf(status) == ESRCH) {
    return FailureFromStatus(status, AttachReason::kTargetExited);
  }
  // Writing by ptrace needs a stop.
  if (!tracee_->stopped()) {
    return FailureFromStatus(status, AttachReason::kMemoryAccess);
  }
  // EIO: this kernel forbids forced writes through /proc/PID/mem
  // (proc_mem.force_override=never); it allows those by ptrace.
  StepResult result = tracee_->Poke(address, bytes);
  if (!result.ok()) {
    result.failure().detail =
        absl::StrCat(status.message(), "; ", result.failure().detail);
  }
  return result;
}

StepResult AttachRun::WritePieces(const std::string& stub) {
  int piece = 0;
  for (size_t done = 0; done < stub.size(); done += kWritePiece) {
    const size_t bytes = std::min(kWritePiece, stub.size() - done);
    if (kFaultsBuiltIn) {
      const std::string name = absl::StrCat("write-", piece++);
      if (FaultAt(name.c_str())) return InjectedFault("write");
    }
    outcome_.target_modified = true;
    written_ = done + bytes;
    RETURN_IF_FAILED(WriteAt(facts_.cave.address + done,
                             absl::string_view(stub).substr(done, bytes)));
  }
  return StepOk();
}

// Nothing points to the stub, so its bytes can be put back as they were.
void AttachRun::RestoreCave(AttachFailure* failure) {
  if (written_ == 0 || failure->reason == AttachReason::kTargetExited) return;
  const auto bytes = absl::string_view(facts_.cave.before).substr(0, written_);
  if (StepResult again = WriteAt(facts_.cave.address, bytes); !again.ok()) {
    absl::StrAppend(&failure->detail, "; ", written_, " bytes of code at ",
                    absl::Hex(facts_.cave.address.value()),
                    " could not be restored: ", again.failure().detail);
  }
}

StepResult AttachRun::WriteStub() {
  outcome_.stage = AttachStage::kWrite;
  // The cave may have been chosen before the thread stopped.
  if (FreeBytesBegin(facts_.cave.before) != 0 &&
      ReturnAddressOf(facts_.cave.before, facts_.stub_kind).value() != continue_.rip) {
    RETURN_IF_FAILED(inspection_.FindCave(continue_.rip));
  }
  std::string stub;
  RETURN_IF_FAILED(BuildTheStub(&stub));
  RETURN_IF_FAILED(WritePieces(stub));
  // Nothing points to the stub yet: an incomplete write is found here.
  std::string back(stub.size(), '\0');
  absl::Status status =
      facts_.memory->Read(facts_.cave.address, back.data(), back.size());
  if (!status.ok()) {
    return FailureFromStatus(status, AttachReason::kMemoryAccess);
  }
  if (back != stub) {
    return AttachFailure{AttachReason::kMemoryAccess, EIO,
                         absl::StrFormat("the stub at %#x reads back differently",
                                         facts_.cave.address.value())};
  }
  if (FaultAt("after-write")) return InjectedFault("after-write");
  return StepOk();
}

StepResult AttachRun::Redirect() {
  outcome_.stage = AttachStage::kRedirect;
  if (FaultAt("redirect")) return InjectedFault("redirect");
  if (request_.point.blocked) {
    user_regs_struct registers = continue_;
    registers.rip = facts_.cave.address.value();
    RETURN_IF_FAILED(tracee_->SetRegisters(registers));
  } else {
    RETURN_IF_FAILED(tracee_->SetInstructionPointer(facts_.cave.address));
  }
  outcome_.stub_address = facts_.cave.address.value();
  outcome_.stub_stack_pointer = registers_.rsp;
  written_ = 0;
  (void)FaultAt("after-redirect");
  return StepOk();
}

StepResult AttachRun::SendCollector() {
  const uint64_t patience_ns = begun_ == nullptr
                                   ? kSendPatienceNs
                                   : uint64_t{request_.stop_timeout_msec} * 1'000'000;
  UniqueFd report;
  StepResult sent = SendDescriptor(
      {request_.point.tid, facts_.cave.address, socket_, tracee_},
      request_.collector_fd, BootNs() + patience_ns, SharesCpu(), &report);
  if (!sent.ok()) {
    sent.failure().detail = absl::StrCat("the collector was not sent to the process (",
                                         facts_.why_sent, "): ", sent.failure().detail);
    return sent;
  }
  outcome_.load_report = std::make_shared<const UniqueFd>(std::move(report));
  return StepOk();
}

}  // namespace rocattach
