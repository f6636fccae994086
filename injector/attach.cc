#include "injector/attach.h"

#include <errno.h>
#include <sched.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "injector/blocked_thread.h"
#include "injector/call_context.h"
#include "injector/descriptor_sender.h"
#include "injector/failure.h"
#include "injector/fault.h"
#include "injector/loader_lock.h"
#include "injector/stub.h"
#include "injector/target_checks.h"
#include "injector/target_inspection.h"
#include "injector/target_memory.h"
#include "injector/tracee.h"
#include "userspace/base/clock.h"

namespace rocattach {
namespace {

// The fault-injection build writes the stub in pieces, with a fault point for each.
constexpr size_t kWritePiece = kFaultsBuiltIn ? 64 : TargetMemory::kMaxTransfer;

// How long another thread may hold the loader's lock before the attach is abandoned.
constexpr uint64_t kLoaderPatienceNs = 100'000'000;
// The same for a caller that serves the stops of many processes.
constexpr uint64_t kShortPatienceNs = 10'000'000;

// How long the thread may take to the stub's first calls, for such a caller.
constexpr uint64_t kSendPatienceNs = 100'000'000;

AttachFailure Injected(const char* step) {
  return {AttachReason::kInternal, EIO, absl::StrCat("injected fault at ", step)};
}

// One attach, step by step. The order:
// 1. Seize. From here on the thread ID cannot be reused; the target sees nothing.
// 2. Check that it is the right process. Only then is the thread asked to stop: a
//    thread of another process could see EINTR.
// 3. While the thread is stopping, everything is looked up and checked. If it is held
//    on our own CPU, it makes no progress while we work, so this follows the stop.
// 4. Write the stub, set rip, detach.
// Nothing points to the stub until it is completely written and verified; once rip is
// set, the thread no longer depends on the service.
class AttachRun {
 public:
  // `tracee` is stopped at the window already, or has been asked to stop through
  // `begun`, or is this object's own where nothing has begun.
  AttachRun(const AttachRequest& request, LibraryCache* cache, Tracee* tracee,
            AttachStart* begun)
      : request_(request),
        tracee_(tracee),
        begun_(begun),
        inspection_(request, cache) {}

  // What Run does before the thread is stopped, for a process that runs on meanwhile.
  StepResult Prepare(PreparedTarget* prepared) {
    RETURN_IF_FAILED(CheckRequest());
    return inspection_.Prepare(prepared);
  }

  AttachOutcome Run() {
    StepResult result = Steps();
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
        outcome_.detail =
            "PTRACE_DETACH failed; the end of the calling thread detaches";
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

 private:
  StepResult Steps();
  StepResult CheckRequest();
  StepResult Seize();
  bool SharesCpu() const;
  StepResult InspectTarget();
  StepResult WaitForStop();
  StepResult CheckWindow();
  StepResult CheckBlocked();
  StepResult CheckRoom();
  StepResult CheckCalls();
  StepResult WriteStub();
  StepResult Redirect();
  StepResult SendCollector();

  StepResult BuildTheStub(std::string* stub);
  StepResult WriteAt(RemoteAddress address, absl::string_view bytes);
  StepResult WritePieces(const std::string& stub);
  void RestoreCave(AttachFailure* failure);

  const AttachRequest& request_;
  StubSocket socket_;
  AttachOutcome outcome_;
  Tracee* tracee_;
  AttachStart* begun_;  // null: the thread is stopped
  TargetInspection inspection_;
  TargetFacts& facts_ = inspection_.facts();
  LoaderLocks locks_;
  // Bytes of the cave that may have been changed, until something points to them.
  size_t written_ = 0;
  user_regs_struct registers_ = {};
  // With what the thread continues after the stub.
  user_regs_struct continue_ = {};
};

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
  RETURN_IF_FAILED(CheckRoom());
  RETURN_IF_FAILED(CheckCalls());
  RETURN_IF_FAILED(WriteStub());
  RETURN_IF_FAILED(Redirect());
  if (facts_.stub_kind == StubKind::kByDescriptor) {
    RETURN_IF_FAILED(SendCollector());
  }
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
  if (FaultAt("stop")) return Injected("stop");
  RETURN_IF_FAILED(tracee_->WaitForStop(begun_->stop_deadline_ns, SharesCpu(),
                                        request_.callbacks.on_wait));
  outcome_.stopped_ns = BootNs();
  if (request_.callbacks.on_stopped) request_.callbacks.on_stopped();
  if (FaultAt("after-stop")) return Injected("after-stop");
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
  if (!registers.ok()) {
    return AttachFailure{
        AttachReason::kNotAtWindow, 0,
        absl::StrCat("thread ", request_.point.tid, " has left its system call"), true};
  }
  continue_ = *registers;
  return StepOk();
}

StepResult AttachRun::CheckRoom() {
  const RemoteAddress stack_pointer(registers_.rsp);
  RETURN_IF_FAILED(inspection_.CoverAddress(stack_pointer - 1));
  return CheckStack(request_.point.tid, *facts_.maps, stack_pointer, StubFrameBytes());
}

// May dlopen be called here and now? This thread is stopped but others run, so the stub
// tries the lock again.
StepResult AttachRun::CheckCalls() {
  outcome_.stage = AttachStage::kCheck;
  CallContext context;
  context.pid = request_.point.tid;
  context.registers = registers_;
  context.maps = &*facts_.maps;
  context.memory = &*facts_.memory;
  context.libc = &facts_.libc;
  RemoteAddress loader_state;
  RETURN_IF_FAILED(CheckCallContext(context, &loader_state));
  if (facts_.functions.mutex_trylock.is_null()) return StepOk();
  locks_ = FindLoaderLocks(*facts_.memory, loader_state, facts_.libc.facts.get());
  const uint64_t now_ns = BootNs();
  const uint64_t deadline_ns = begun_ == nullptr ? now_ns + kShortPatienceNs
                                                 : std::min(now_ns + kLoaderPatienceNs,
                                                            begun_->stop_deadline_ns);
  if (FaultAt("loader-wait")) return StepOk();
  return WaitForLoaderLocks(request_.point.pid, request_.point.tid, *facts_.memory,
                            locks_, deadline_ns, request_.point.blocked);
}

StepResult AttachRun::BuildTheStub(std::string* stub) {
  StubPlan plan;
  plan.kind = facts_.stub_kind;
  if (facts_.stub_kind == StubKind::kByDescriptor) {
    auto socket = StubSocket::Random();
    if (!socket.ok()) {
      return FailureFromStatus(socket.status(), AttachReason::kInternal);
    }
    plan.socket = socket_ = *socket;
  }
  plan.return_ip = RemoteAddress(continue_.rip);
  plan.functions = facts_.functions;
  plan.locks = locks_;
  plan.xstate_bytes = XstateBytes();
  plan.config = request_.config;
  plan.config.size = sizeof(plan.config);
  plan.config.version = ROCATTACH_SHM_VERSION;
  plan.config.window_address = request_.point.window_ip;
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
      if (FaultAt(name.c_str())) return Injected("write");
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
  if (FaultAt("after-write")) return Injected("after-write");
  return StepOk();
}

StepResult AttachRun::Redirect() {
  outcome_.stage = AttachStage::kRedirect;
  if (FaultAt("redirect")) return Injected("redirect");
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

StepResult Begin(pid_t pid, pid_t tid, uint64_t start_ns,
                 absl::FunctionRef<bool()> is_same_process, AttachStart* start) {
  start->stage = AttachStage::kSeize;
  if (FaultAt("seize")) return Injected("seize");
  RETURN_IF_FAILED(start->tracee.Seize(pid, tid));
  start->seized_ns = BootNs();
  if (FaultAt("after-seize")) return Injected("after-seize");

  start->stage = AttachStage::kCheck;
  if (!is_same_process()) {
    RETURN_IF_FAILED(CheckIdentity(pid, start_ns));
  }

  start->stage = AttachStage::kStop;
  if (FaultAt("interrupt")) return Injected("interrupt");
  RETURN_IF_FAILED(start->tracee.Interrupt());
  if (FaultAt("after-interrupt")) return Injected("after-interrupt");
  return StepOk();
}

}  // namespace

void BeginAttach(pid_t pid, pid_t tid, uint64_t start_ns, uint32_t stop_timeout_msec,
                 absl::FunctionRef<bool()> is_same_process, AttachStart* start) {
  start->result = Begin(pid, tid, start_ns, is_same_process, start);
  start->stop_deadline_ns = BootNs() + uint64_t{stop_timeout_msec} * 1'000'000;
}

StepResult PrepareAttach(const AttachRequest& request, LibraryCache* cache,
                         PreparedTarget* prepared) {
  return AttachRun(request, cache, nullptr, nullptr).Prepare(prepared);
}

AttachOutcome AttachAtWindow(const AttachRequest& request, LibraryCache* cache,
                             AttachStart* begun) {
  AttachStart own;
  if (begun == nullptr) begun = &own;
  return AttachRun(request, cache, &begun->tracee, begun).Run();
}

AttachOutcome AttachStopped(const AttachRequest& request, Tracee* stopped,
                            LibraryCache* cache) {
  return AttachRun(request, cache, stopped, nullptr).Run();
}

AttachOutcome AttachBlockedThread(AttachRequest& request, LibraryCache* cache) {
  AttachOutcome outcome;
  auto threads = BlockedThreads(request.point.pid);
  if (!threads.ok()) {
    AttachFailure failure = FailureFromProc(threads.status());
    outcome.reason = failure.reason;
    outcome.error = failure.error;
    outcome.detail = std::move(failure.detail);
    outcome.retryable = failure.retryable;
    return outcome;
  }
  outcome.reason = AttachReason::kNoSafePoint;
  outcome.detail = "no thread is blocked in a call that continues unnoticed";
  for (pid_t tid : *threads) {
    request.point.tid = tid;
    outcome = AttachOnOwnThread(request, cache);
    if (outcome.ok() || outcome.target_modified || !outcome.retryable) break;
  }
  return outcome;
}

AttachOutcome AttachOnOwnThread(const AttachRequest& request, LibraryCache* cache) {
  AttachOutcome outcome;
  std::thread([&] { outcome = AttachAtWindow(request, cache); }).join();
  outcome.tracer_must_exit = false;
  return outcome;
}

}  // namespace rocattach
