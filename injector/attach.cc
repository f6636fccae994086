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
#include "injector/code_cave.h"
#include "injector/collector_name.h"
#include "injector/descriptor_sender.h"
#include "injector/failure.h"
#include "injector/fault.h"
#include "injector/loader_lock.h"
#include "injector/maps.h"
#include "injector/stub.h"
#include "injector/symbol_lookup.h"
#include "injector/target_checks.h"
#include "injector/target_memory.h"
#include "injector/thread_status.h"
#include "injector/tracee.h"
#include "userspace/base/clock.h"

namespace rocattach {
namespace {

// The thread is stopped right after the probed instruction, which has at most 15 bytes;
// in a window entered by other means it may be slightly further on.
constexpr uint64_t kWindowBytes = 16;

// The fault-injection build writes the stub in pieces, with a fault point for each.
constexpr size_t kWritePiece = kFaultsBuiltIn ? 64 : TargetMemory::kMaxTransfer;

// How long another thread may hold the loader's lock before the attach is abandoned.
constexpr uint64_t kLoaderPatienceNs = 100'000'000;
// The same for a caller that serves the stops of many processes.
constexpr uint64_t kShortPatienceNs = 10'000'000;

// How long the thread may take to the stub's first calls, for such a caller.
constexpr uint64_t kSendPatienceNs = 100'000'000;

// Reasons for which the file is sent instead: the process does not see it, sees another
// one, or may not use it.
bool IsOfCollectorFile(AttachReason reason) {
  return reason == AttachReason::kCollectorMissing ||
         reason == AttachReason::kCollectorUnreadable ||
         reason == AttachReason::kCollectorChanged;
}

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
// /proc is read under the thread's ID, which works as well as the process's: once the
// first thread has exited while others run on, everything that depends on the memory is
// empty under the process's ID. Nothing points to the stub until it is completely
// written and verified; once rip is set, the thread no longer depends on the service.
class AttachRun {
 public:
  // `tracee` is stopped at the window already, or has been asked to stop through
  // `begun`, or is this object's own where nothing has begun.
  AttachRun(const AttachRequest& request, LibraryCache* cache, Tracee* tracee,
            AttachStart* begun)
      : request_(request),
        cache_(cache),
        collector_path_(request.collector.path),
        tracee_(tracee),
        begun_(begun) {}

  AttachOutcome Run() {
    StepResult result = Steps();
    if (!result.ok()) RestoreCave(&result.failure());
    tracee_->Release();
    outcome_.tracer_must_exit = tracee_->tracer_must_exit();
    outcome_.released_ns = tracee_->released_ns();
    if (!learned_.empty() && request_.callbacks.on_learned)
      request_.callbacks.on_learned(learned_);
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
  StepResult CheckTarget();
  StepResult ChooseCollector(const ThreadStatus& status);
  bool IsDescribed();
  StepResult Resolve();
  bool ResolveFromLayout();
  StepResult ResolveFromProc();
  StepResult ResolveIn(Maps maps);
  StepResult WaitForStop();
  StepResult CheckWindow();
  StepResult CheckBlocked();
  StepResult CheckRoom();
  StepResult CheckCalls();
  StepResult FindCave();
  StepResult WriteStub();
  StepResult Redirect();
  StepResult SendCollector();

  StepResult BuildTheStub(std::string* stub);
  StepResult WriteAt(RemoteAddress address, absl::string_view bytes);
  StepResult WritePieces(const std::string& stub);
  void RestoreCave(AttachFailure* failure);

  const AttachRequest& request_;
  LibraryCache* cache_;
  // The one of the request's that the target can load, or the library's name.
  std::string collector_path_;
  StubKind stub_kind_ = StubKind::kByPath;
  StubSocket socket_;
  std::string why_sent_;  // why none of the paths will do
  AttachOutcome outcome_;
  Tracee* tracee_;
  AttachStart* begun_;  // null: the thread is stopped
  std::optional<Maps> maps_;
  rocattach_layout layout_;  // valid as far as it states, once described_
  bool described_ = false;
  std::vector<KnownFiles::Judgement> learned_;
  std::optional<TargetMemory> memory_;
  LoaderFunctions functions_;
  LibcState libc_;
  LoaderLocks locks_;
  CodeCave cave_;
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
    if (!SharesCpu() && (!request_.known.read_layout || IsDescribed())) {
      RETURN_IF_FAILED(InspectTarget());
    }
    RETURN_IF_FAILED(WaitForStop());
  }
  RETURN_IF_FAILED(request_.point.blocked ? CheckBlocked() : CheckWindow());
  if (!maps_.has_value()) {
    RETURN_IF_FAILED(InspectTarget());
  }
  RETURN_IF_FAILED(CheckRoom());
  RETURN_IF_FAILED(CheckCalls());
  RETURN_IF_FAILED(WriteStub());
  RETURN_IF_FAILED(Redirect());
  if (stub_kind_ == StubKind::kByDescriptor) {
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
  RETURN_IF_FAILED(CheckTarget());
  return Resolve();
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

StepResult AttachRun::CheckTarget() {
  outcome_.stage = AttachStage::kCheck;
  if (!request_.known.unlimited) {
    RETURN_IF_FAILED(CheckLimits(request_.point.tid, request_.memory_bytes));
  }
  if (request_.known.harmless && request_.known.filesystem_views != nullptr &&
      request_.known.filesystem_view_id != 0 &&
      request_.known.filesystem_views->EverybodyMayLoad(
          request_.point.tid, request_.known.filesystem_view_id,
          request_.collector.path, request_.collector.file)) {
    return StepOk();
  }
  RETURN_IF_FAILED(CheckNotSecure(request_.point.tid));
  auto status = ReadThreadStatus(request_.point.pid, request_.point.tid);
  if (!status.ok()) {
    AttachFailure failure = FailureFromProc(status.status());
    if (failure.reason == AttachReason::kTargetExited) {
      failure.detail =
          absl::StrCat("thread ", request_.point.tid, " is not in process ",
                       request_.point.pid, ": ", failure.detail);
    }
    return failure;
  }
  RETURN_IF_FAILED(CheckSeccomp(*status));
  return ChooseCollector(*status);
}

// By a path if there is one: that costs the held thread nothing.
StepResult AttachRun::ChooseCollector(const ThreadStatus& status) {
  StepResult result;
  for (const CollectorImage* image : {&request_.collector, &request_.other_collector}) {
    if (image->path.empty()) continue;
    result = CheckCollector(request_.point.tid, status, image->path, image->file);
    if (result.ok()) {
      collector_path_ = image->path;
      return result;
    }
  }
  if (request_.collector_fd < 0 || !IsOfCollectorFile(result.failure().reason)) {
    return result;
  }
  if (StepResult proc = CheckDescriptorPaths(request_.point.tid); !proc.ok()) {
    absl::StrAppend(&result.failure().detail,
                    "; it cannot be sent either: ", proc.failure().detail);
    return result;
  }
  stub_kind_ = StubKind::kByDescriptor;
  collector_path_ = ROCATTACH_COLLECTOR_NAME;
  why_sent_ = std::move(result.failure().detail);
  return StepOk();
}

bool AttachRun::IsDescribed() {
  if (!described_ && request_.known.read_layout && request_.known.files != nullptr) {
    described_ = request_.known.read_layout(&layout_);
  }
  return described_;
}

StepResult AttachRun::Resolve() {
  outcome_.stage = AttachStage::kResolve;
  if (FaultAt("resolve")) return Injected("resolve");
  if (ResolveFromLayout()) return StepOk();
  return ResolveFromProc();
}

// False for any reason: /proc is read then, which knows more.
bool AttachRun::ResolveFromLayout() {
  if (!IsDescribed()) return false;
  std::optional<Maps> maps = request_.known.files->MapsOf(layout_);
  if (!maps.has_value() || !ResolveIn(*std::move(maps)).ok()) return false;
  // A file is identified by numbers that could, very rarely, mean another one.
  return HaveTheirCode(functions_, *maps_, *memory_);
}

StepResult AttachRun::ResolveFromProc() {
  const RemoteAddress stack(request_.known.stack != 0 ? request_.known.stack - 1 : 0);
  auto maps = Maps::ReadFiles(request_.point.tid, stack);
  if (!maps.ok()) return FailureFromProc(maps.status());
  RETURN_IF_FAILED(ResolveIn(*std::move(maps)));
  if (described_) {
    learned_ = request_.known.files->Learn(request_.point.tid, layout_, *maps_,
                                           collector_path_, cache_);
  }
  return StepOk();
}

StepResult AttachRun::ResolveIn(Maps maps) {
  maps_.emplace(std::move(maps));
  RETURN_IF_FAILED(
      CheckMappings(*maps_, collector_path_, request_.earlier != EarlierAttach::kNone));

  if (!memory_.has_value()) {
    auto memory = TargetMemory::Open(request_.point.pid, request_.point.tid);
    if (!memory.ok()) return FailureFromProc(memory.status());
    memory_.emplace(*std::move(memory));
  }
  RETURN_IF_FAILED(
      FindLoaderFunctions(request_.point.tid, *maps_, cache_, &functions_, &libc_));
  return FindCave();
}

// A process that starts its runtime again still has our stub from the last time. The
// thread that ran it has reported from inside the collector, but may still be restoring
// its registers in the stub. The only parameter that it still needs is its return
// address, so a stub with the same return address can be written over the old one at
// any time.
StepResult AttachRun::FindCave() {
  return FindCodeCave(
      request_.point.tid, *maps_, *memory_, cache_,
      RemoteAddress(request_.point.window_ip), StubBytes(stub_kind_), &cave_,
      [this](absl::string_view room) {
        const RemoteAddress back = ReturnAddressOf(room, stub_kind_);
        if (request_.earlier != EarlierAttach::kReplaceStub || back.is_null()) {
          return false;
        }
        if (continue_.rip != 0) return back.value() == continue_.rip;
        return back.value() - request_.point.window_ip <= kWindowBytes;
      });
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
  if (!memory_.has_value()) {
    RETURN_IF_FAILED(InspectTarget());
  }
  char before_ip[2] = {};
  absl::Status status = memory_->Read(RemoteAddress(registers_.rip - sizeof(before_ip)),
                                      before_ip, sizeof(before_ip));
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
  if (!maps_->whole() && maps_->Find(stack_pointer - 1) == nullptr) {
    auto around = Maps::ReadFiles(request_.point.tid, stack_pointer - 1);
    if (!around.ok()) return FailureFromProc(around.status());
    maps_.emplace(*std::move(around));
  }
  return CheckStack(request_.point.tid, *maps_, stack_pointer, StubFrameBytes());
}

// May dlopen be called here and now? This thread is stopped but others run, so the stub
// tries the lock again.
StepResult AttachRun::CheckCalls() {
  outcome_.stage = AttachStage::kCheck;
  CallContext context;
  context.pid = request_.point.tid;
  context.registers = registers_;
  context.maps = &*maps_;
  context.memory = &*memory_;
  context.libc = &libc_;
  RemoteAddress loader_state;
  RETURN_IF_FAILED(CheckCallContext(context, &loader_state));
  if (functions_.mutex_trylock.is_null()) return StepOk();
  locks_ = FindLoaderLocks(*memory_, loader_state, libc_.facts.get());
  const uint64_t now_ns = BootNs();
  const uint64_t deadline_ns = begun_ == nullptr ? now_ns + kShortPatienceNs
                                                 : std::min(now_ns + kLoaderPatienceNs,
                                                            begun_->stop_deadline_ns);
  if (FaultAt("loader-wait")) return StepOk();
  return WaitForLoaderLocks(request_.point.pid, request_.point.tid, *memory_, locks_,
                            deadline_ns, request_.point.blocked);
}

StepResult AttachRun::BuildTheStub(std::string* stub) {
  StubPlan plan;
  plan.kind = stub_kind_;
  if (stub_kind_ == StubKind::kByDescriptor) {
    auto socket = StubSocket::Random();
    if (!socket.ok()) {
      return FailureFromStatus(socket.status(), AttachReason::kInternal);
    }
    plan.socket = socket_ = *socket;
  }
  plan.return_ip = RemoteAddress(continue_.rip);
  plan.functions = functions_;
  plan.locks = locks_;
  plan.xstate_bytes = XstateBytes();
  plan.config = request_.config;
  plan.config.size = sizeof(plan.config);
  plan.config.version = ROCATTACH_SHM_VERSION;
  plan.config.window_address = request_.point.window_ip;
  std::memset(plan.config.collector_path, 0, sizeof(plan.config.collector_path));
  std::memcpy(plan.config.collector_path, collector_path_.data(),
              collector_path_.size());
  auto built = BuildStub(plan);
  if (!built.ok()) {
    return AttachFailure{AttachReason::kInternal, 0,
                         std::string(built.status().message())};
  }
  *stub = *std::move(built);
  return StepOk();
}

StepResult AttachRun::WriteAt(RemoteAddress address, absl::string_view bytes) {
  absl::Status status = memory_->Write(address, bytes.data(), bytes.size());
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
    RETURN_IF_FAILED(
        WriteAt(cave_.address + done, absl::string_view(stub).substr(done, bytes)));
  }
  return StepOk();
}

// Nothing points to the stub, so its bytes can be put back as they were.
void AttachRun::RestoreCave(AttachFailure* failure) {
  if (written_ == 0 || failure->reason == AttachReason::kTargetExited) return;
  const auto bytes = absl::string_view(cave_.before).substr(0, written_);
  if (StepResult again = WriteAt(cave_.address, bytes); !again.ok()) {
    absl::StrAppend(&failure->detail, "; ", written_, " bytes of code at ",
                    absl::Hex(cave_.address.value()),
                    " could not be restored: ", again.failure().detail);
  }
}

StepResult AttachRun::WriteStub() {
  outcome_.stage = AttachStage::kWrite;
  // The cave may have been chosen before the thread stopped.
  if (FreeBytesBegin(cave_.before) != 0 &&
      ReturnAddressOf(cave_.before, stub_kind_).value() != continue_.rip) {
    RETURN_IF_FAILED(FindCave());
  }
  std::string stub;
  RETURN_IF_FAILED(BuildTheStub(&stub));
  RETURN_IF_FAILED(WritePieces(stub));
  // Nothing points to the stub yet: an incomplete write is found here.
  std::string back(stub.size(), '\0');
  absl::Status status = memory_->Read(cave_.address, back.data(), back.size());
  if (!status.ok()) {
    return FailureFromStatus(status, AttachReason::kMemoryAccess);
  }
  if (back != stub) {
    return AttachFailure{AttachReason::kMemoryAccess, EIO,
                         absl::StrFormat("the stub at %#x reads back differently",
                                         cave_.address.value())};
  }
  if (FaultAt("after-write")) return Injected("after-write");
  return StepOk();
}

StepResult AttachRun::Redirect() {
  outcome_.stage = AttachStage::kRedirect;
  if (FaultAt("redirect")) return Injected("redirect");
  if (request_.point.blocked) {
    user_regs_struct registers = continue_;
    registers.rip = cave_.address.value();
    RETURN_IF_FAILED(tracee_->SetRegisters(registers));
  } else {
    RETURN_IF_FAILED(tracee_->SetInstructionPointer(cave_.address));
  }
  outcome_.stub_address = cave_.address.value();
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
      {request_.point.tid, cave_.address, socket_, tracee_}, request_.collector_fd,
      BootNs() + patience_ns, SharesCpu(), &report);
  if (!sent.ok()) {
    sent.failure().detail = absl::StrCat("the collector was not sent to the process (",
                                         why_sent_, "): ", sent.failure().detail);
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
    outcome.reason = AttachReason::kTargetExited;
    outcome.error = ErrnoOf(threads.status());
    outcome.detail = std::string(threads.status().message());
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
