#include "injector/attach.h"

#include <errno.h>
#include <sched.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "injector/call_context.h"
#include "injector/code_cave.h"
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

// The thread stands behind the probed instruction, whose length is at most 15; a window
// entered by other means may stand a little further on.
constexpr uint64_t kWindowBytes = 16;

// In the fault-injection build the stub is written in pieces with a fault point each.
constexpr size_t kWritePiece = kFaultsBuiltIn ? 64 : TargetMemory::kMaxTransfer;

// How long another thread may keep the loader's lock until the attach is given up.
constexpr uint64_t kLoaderPatienceNs = 100'000'000;
// The same for a caller that serves the stops of many processes.
constexpr uint64_t kShortPatienceNs = 10'000'000;

AttachFailure Injected(const char* step) {
  return {AttachReason::kInternal, EIO, absl::StrCat("injected fault at ", step)};
}

// One attach, step by step. The order:
// 1. Seize. From here the thread and its number stay together; the target sees nothing.
// 2. Is it the right process? Only then is the thread asked to stop: an innocent one
//    could see EINTR.
// 3. While the thread comes to its stop, everything is looked up and checked; but if it
//    is held on our own processor it comes no further while we work, and so that
//    follows the stop.
// 4. The stub, rip, detach.
// /proc is asked by the thread's number, which it knows as well as the process's: where
// the first thread has exited and others go on, all that hangs on the memory is empty
// under the process's.
// Until the stub is written in full and verified nothing points to it; once rip is set
// the thread needs nobody any more.
class AttachRun {
 public:
  // `tracee` stands at the window already, or has been asked to by `begun`, or is the
  // own one of `begun`, where nothing has begun.
  AttachRun(const AttachRequest& request, LibraryCache* cache, Tracee* tracee,
            AttachStart* begun)
      : request_(request),
        cache_(cache),
        collector_path_(request.collector_path),
        tracee_(tracee),
        begun_(begun) {}

  AttachOutcome Run() {
    StepResult failure = Steps();
    if (failure) RestoreCave(&*failure);
    tracee_->Release();
    outcome_.tracer_must_exit = tracee_->tracer_must_exit();
    outcome_.released_ns = tracee_->released_ns();
    if (!learned_.empty() && request_.on_learned) request_.on_learned(learned_);
    if (!failure && outcome_.tracer_must_exit) {
      // The stub is in place and runs as soon as the tracer ends.
      outcome_.detail = "PTRACE_DETACH failed; the end of the calling thread detaches";
    }
    if (!failure) {
      outcome_.stage = AttachStage::kDone;
      return outcome_;
    }
    outcome_.reason = failure->reason;
    outcome_.error = failure->error;
    outcome_.detail = std::move(failure->detail);
    outcome_.retryable = failure->retryable;
    return outcome_;
  }

 private:
  StepResult Steps();
  StepResult CheckRequest();
  StepResult Seize();
  bool SharesCpu() const;
  StepResult InspectTarget();
  StepResult CheckTarget();
  bool IsDescribed();
  StepResult Resolve();
  bool ResolveFromLayout();
  StepResult ResolveFromProc();
  StepResult ResolveIn(Maps maps);
  StepResult WaitForStop();
  StepResult CheckWindow();
  StepResult CheckRoom();
  StepResult CheckCalls();
  StepResult FindCave();
  StepResult WriteStub();
  StepResult Redirect();

  StepResult BuildTheStub(std::string* stub) const;
  StepResult WriteAt(RemoteAddress address, absl::string_view bytes);
  StepResult WritePieces(const std::string& stub);
  void RestoreCave(AttachFailure* failure);

  const AttachRequest& request_;
  LibraryCache* cache_;
  std::string collector_path_;  // the one of the request's that the target can load
  AttachOutcome outcome_;
  Tracee* tracee_;
  AttachStart* begun_;  // null: the thread stands
  std::optional<Maps> maps_;
  rocattach_layout layout_;  // as far as it says itself, once described_
  bool described_ = false;
  std::vector<KnownFiles::Judgement> learned_;
  std::optional<TargetMemory> memory_;
  LoaderFunctions functions_;
  LibcState libc_;
  LoaderLocks locks_;
  CodeCave cave_;
  size_t written_ = 0;  // bytes of the cave that may have been changed
  user_regs_struct registers_ = {};
};

StepResult AttachRun::Steps() {
  if (auto failure = CheckRequest()) return failure;
  if (begun_ == nullptr) {
    outcome_.seized_ns = outcome_.stopped_ns = BootNs();
    if (auto failure = CheckIdentity(request_.pid, request_.start_ns)) return failure;
  } else {
    if (auto failure = Seize()) return failure;
    if (!SharesCpu() && (!request_.read_layout || IsDescribed())) {
      if (auto failure = InspectTarget()) return failure;
    }
    if (auto failure = WaitForStop()) return failure;
  }
  if (auto failure = CheckWindow()) return failure;
  if (!maps_.has_value()) {
    if (auto failure = InspectTarget()) return failure;
  }
  if (auto failure = CheckRoom()) return failure;
  if (auto failure = CheckCalls()) return failure;
  if (auto failure = WriteStub()) return failure;
  if (auto failure = Redirect()) return failure;
  outcome_.stage = AttachStage::kRelease;
  (void)FaultAt("before-detach");
  return std::nullopt;
}

bool AttachRun::SharesCpu() const {
  return request_.cpu >= 0 && request_.cpu == sched_getcpu();
}

StepResult AttachRun::InspectTarget() {
  if (auto failure = CheckTarget()) return failure;
  return Resolve();
}

StepResult AttachRun::CheckRequest() {
  outcome_.stage = AttachStage::kCheck;
  if (request_.pid <= 0 || request_.tid <= 0 || request_.window_ip == 0) {
    return AttachFailure{AttachReason::kInternal, EINVAL,
                         absl::StrCat("request without pid (", request_.pid, "), tid (",
                                      request_.tid, ") or window_ip")};
  }
  for (const std::string* path :
       {&request_.collector_path, &request_.other_collector_path}) {
    if (path->empty() && path != &request_.collector_path) continue;
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
  return std::nullopt;
}

StepResult AttachRun::Seize() {
  if (begun_->seized_ns == 0 && !begun_->failure.has_value()) {
    BeginAttach(
        request_.pid, request_.tid, request_.start_ns, request_.stop_timeout_msec,
        [] { return false; }, begun_);
  }
  outcome_.stage = begun_->stage;
  outcome_.seized_ns = begun_->seized_ns;
  return begun_->failure;
}

StepResult AttachRun::CheckTarget() {
  outcome_.stage = AttachStage::kCheck;
  if (!request_.known_unlimited) {
    if (auto failure = CheckLimits(request_.tid, request_.memory_bytes)) return failure;
  }
  if (request_.known_harmless && request_.filesystem_views != nullptr &&
      request_.filesystem_view_id != 0 &&
      request_.filesystem_views->EverybodyMayLoad(
          request_.tid, request_.filesystem_view_id, request_.collector_path,
          request_.collector_file)) {
    return std::nullopt;
  }
  if (auto failure = CheckNotSecure(request_.tid)) return failure;
  auto status = ReadThreadStatus(request_.pid, request_.tid);
  if (!status.ok()) {
    AttachFailure failure = FailedLookAtProc(status.status());
    if (failure.reason == AttachReason::kTargetExited) {
      failure.detail = absl::StrCat("thread ", request_.tid, " is not in process ",
                                    request_.pid, ": ", failure.detail);
    }
    return failure;
  }
  if (auto failure = CheckSeccomp(*status)) return failure;
  auto failure = CheckCollector(request_.tid, *status, request_.collector_path,
                                request_.collector_file);
  if (!failure || request_.other_collector_path.empty()) return failure;
  collector_path_ = request_.other_collector_path;
  return CheckCollector(request_.tid, *status, collector_path_,
                        request_.other_collector_file);
}

bool AttachRun::IsDescribed() {
  if (!described_ && request_.read_layout && request_.known_files != nullptr) {
    described_ = request_.read_layout(&layout_);
  }
  return described_;
}

StepResult AttachRun::Resolve() {
  outcome_.stage = AttachStage::kResolve;
  if (FaultAt("resolve")) return Injected("resolve");
  if (ResolveFromLayout()) return std::nullopt;
  return ResolveFromProc();
}

// False, whatever the reason: then /proc is asked, which knows more.
bool AttachRun::ResolveFromLayout() {
  if (!IsDescribed()) return false;
  std::optional<Maps> maps = request_.known_files->MapsOf(layout_);
  if (!maps.has_value() || ResolveIn(*std::move(maps)).has_value()) return false;
  // A file is known by numbers that could, once in a great while, mean another one.
  return HaveTheirCode(functions_, *maps_, *memory_);
}

StepResult AttachRun::ResolveFromProc() {
  const RemoteAddress stack(request_.stack != 0 ? request_.stack - 1 : 0);
  auto maps = Maps::ReadFiles(request_.tid, stack);
  if (!maps.ok()) return FailedLookAtProc(maps.status());
  if (auto failure = ResolveIn(*std::move(maps))) return failure;
  if (described_) {
    learned_ = request_.known_files->Learn(request_.tid, layout_, *maps_,
                                           collector_path_, cache_);
  }
  return std::nullopt;
}

StepResult AttachRun::ResolveIn(Maps maps) {
  maps_.emplace(std::move(maps));
  if (auto failure = CheckMappings(*maps_, collector_path_, request_.attached_before))
    return failure;

  if (!memory_.has_value()) {
    auto memory = TargetMemory::Open(request_.pid, request_.tid);
    if (!memory.ok()) return FailedLookAtProc(memory.status());
    memory_.emplace(*std::move(memory));
  }
  if (auto failure =
          FindLoaderFunctions(request_.tid, *maps_, cache_, &functions_, &libc_)) {
    return failure;
  }
  return FindCave();
}

// A process that starts its runtime again has our stub from the last time. The thread
// that ran it has reported from inside the collector, but may still be on its way out
// of it, with nothing but restoring to do. Of the parameters it needs the address that
// it goes back to, so a stub that goes back to the same place can be written over the
// old one at any time: what the thread still reads stays the same.
StepResult AttachRun::FindCave() {
  return FindCodeCave(
      request_.tid, *maps_, *memory_, cache_, RemoteAddress(request_.window_ip),
      StubBytes(), &cave_, [this](absl::string_view room) {
        const RemoteAddress back = ReturnAddressOf(room);
        if (!request_.attached_before || request_.keep_old_stub || back.is_null()) {
          return false;
        }
        if (registers_.rip != 0) return back.value() == registers_.rip;
        return back.value() - request_.window_ip <= kWindowBytes;
      });
}

StepResult AttachRun::WaitForStop() {
  outcome_.stage = AttachStage::kStop;
  if (FaultAt("stop")) return Injected("stop");
  if (auto failure = tracee_->WaitForStop(begun_->stop_deadline_ns, SharesCpu(),
                                          request_.on_wait)) {
    return failure;
  }
  outcome_.stopped_ns = BootNs();
  if (request_.on_stopped) request_.on_stopped();
  if (FaultAt("after-stop")) return Injected("after-stop");
  return std::nullopt;
}

StepResult AttachRun::CheckWindow() {
  if (auto failure = tracee_->ReadRegisters(&registers_)) return failure;
  // Inside a system call the kernel owns what is to be restarted; there is no safe
  // place for a call then.
  if (registers_.orig_rax != static_cast<unsigned long long>(-1)) {
    return AttachFailure{AttachReason::kNotAtWindow, 0,
                         absl::StrCat("thread ", request_.tid, " is in system call ",
                                      registers_.orig_rax)};
  }
  // As one comparison: below the window the difference wraps.
  if (registers_.rip - request_.window_ip > kWindowBytes) {
    return AttachFailure{
        AttachReason::kNotAtWindow, 0,
        absl::StrFormat("thread %d is at %#x, the window at %#x", request_.tid,
                        registers_.rip, request_.window_ip),
        true};
  }
  return std::nullopt;
}

StepResult AttachRun::CheckRoom() {
  const RemoteAddress stack_pointer(registers_.rsp);
  if (!maps_->whole() && maps_->Find(stack_pointer - 1) == nullptr) {
    auto around = Maps::ReadFiles(request_.tid, stack_pointer - 1);
    if (!around.ok()) return FailedLookAtProc(around.status());
    maps_.emplace(*std::move(around));
  }
  return CheckStack(request_.tid, *maps_, stack_pointer, StubFrameBytes());
}

// May dlopen be called here and now? The thread stands, but others run on: the stub
// tries the lock once more.
StepResult AttachRun::CheckCalls() {
  outcome_.stage = AttachStage::kCheck;
  CallContext context;
  context.pid = request_.tid;
  context.registers = registers_;
  context.maps = &*maps_;
  context.memory = &*memory_;
  context.libc = &libc_;
  RemoteAddress loader_state;
  if (auto failure = CheckCallContext(context, &loader_state)) return failure;
  if (functions_.mutex_trylock.is_null()) return std::nullopt;
  locks_ = FindLoaderLocks(*memory_, loader_state, libc_.facts.get());
  const uint64_t now_ns = BootNs();
  const uint64_t deadline_ns = begun_ == nullptr ? now_ns + kShortPatienceNs
                                                 : std::min(now_ns + kLoaderPatienceNs,
                                                            begun_->stop_deadline_ns);
  if (FaultAt("loader-wait")) return std::nullopt;
  return WaitForLoaderLocks(request_.pid, request_.tid, *memory_, locks_, deadline_ns);
}

StepResult AttachRun::BuildTheStub(std::string* stub) const {
  StubPlan plan;
  plan.return_ip = RemoteAddress(registers_.rip);
  plan.functions = functions_;
  plan.locks = locks_;
  plan.xstate_bytes = XstateBytes();
  plan.config = request_.config;
  plan.config.size = sizeof(plan.config);
  plan.config.version = ROCATTACH_SHM_VERSION;
  plan.config.window_address = request_.window_ip;
  std::memset(plan.config.collector_path, 0, sizeof(plan.config.collector_path));
  std::memcpy(plan.config.collector_path, collector_path_.data(),
              collector_path_.size());
  auto built = BuildStub(plan);
  if (!built.ok()) {
    return AttachFailure{AttachReason::kInternal, 0,
                         std::string(built.status().message())};
  }
  *stub = *std::move(built);
  return std::nullopt;
}

StepResult AttachRun::WriteAt(RemoteAddress address, absl::string_view bytes) {
  absl::Status status = memory_->Write(address, bytes.data(), bytes.size());
  if (status.ok()) return std::nullopt;
  const int error = errno;
  if (error == ESRCH) {
    return AttachFailure{AttachReason::kTargetExited, error,
                         std::string(status.message())};
  }
  // EIO: this kernel forbids forced writes through /proc/PID/mem
  // (proc_mem.force_override=never); ptrace's own writes it allows.
  auto failure = tracee_->Poke(address, bytes);
  if (failure) failure->detail = absl::StrCat(status.message(), "; ", failure->detail);
  return failure;
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
    if (auto failure = WriteAt(cave_.address + done,
                               absl::string_view(stub).substr(done, bytes))) {
      return failure;
    }
  }
  return std::nullopt;
}

// Nothing points to the stub: its bytes go, as if they had never been there.
void AttachRun::RestoreCave(AttachFailure* failure) {
  if (written_ == 0 || failure->reason == AttachReason::kTargetExited) return;
  const auto bytes = absl::string_view(cave_.before).substr(0, written_);
  if (auto again = WriteAt(cave_.address, bytes)) {
    absl::StrAppend(&failure->detail, "; ", written_, " bytes of code at ",
                    absl::Hex(cave_.address.value()),
                    " could not be restored: ", again->detail);
  }
}

StepResult AttachRun::WriteStub() {
  outcome_.stage = AttachStage::kWrite;
  // The cave may have been chosen before the thread stood.
  if (FreeBytesBegin(cave_.before) != 0 &&
      ReturnAddressOf(cave_.before).value() != registers_.rip) {
    if (auto failure = FindCave()) return failure;
  }
  std::string stub;
  if (auto failure = BuildTheStub(&stub)) return failure;
  if (auto failure = WritePieces(stub)) return failure;
  // Nothing points to the stub yet: a write that did not arrive whole is found here.
  std::string back(stub.size(), '\0');
  absl::Status status = memory_->Read(cave_.address, back.data(), back.size());
  if (!status.ok()) {
    return AttachFailure{ReasonForErrno(errno, AttachReason::kMemoryAccess), errno,
                         std::string(status.message())};
  }
  if (back != stub) {
    return AttachFailure{AttachReason::kMemoryAccess, 0,
                         absl::StrFormat("the stub at %#x reads back differently",
                                         cave_.address.value())};
  }
  if (FaultAt("after-write")) return Injected("after-write");
  return std::nullopt;
}

StepResult AttachRun::Redirect() {
  outcome_.stage = AttachStage::kRedirect;
  if (FaultAt("redirect")) return Injected("redirect");
  if (auto failure = tracee_->SetInstructionPointer(cave_.address)) return failure;
  outcome_.stub_address = cave_.address.value();
  outcome_.stub_stack_pointer = registers_.rsp;
  (void)FaultAt("after-redirect");
  return std::nullopt;
}

StepResult Begin(pid_t pid, pid_t tid, uint64_t start_ns,
                 absl::FunctionRef<bool()> is_same_process, AttachStart* start) {
  start->stage = AttachStage::kSeize;
  if (FaultAt("seize")) return Injected("seize");
  if (auto failure = start->tracee.Seize(pid, tid)) return failure;
  start->seized_ns = BootNs();
  if (FaultAt("after-seize")) return Injected("after-seize");

  start->stage = AttachStage::kCheck;
  if (!is_same_process()) {
    if (auto failure = CheckIdentity(pid, start_ns)) return failure;
  }

  start->stage = AttachStage::kStop;
  if (FaultAt("interrupt")) return Injected("interrupt");
  if (auto failure = start->tracee.Interrupt()) return failure;
  if (FaultAt("after-interrupt")) return Injected("after-interrupt");
  return std::nullopt;
}

}  // namespace

void BeginAttach(pid_t pid, pid_t tid, uint64_t start_ns, uint32_t stop_timeout_msec,
                 absl::FunctionRef<bool()> is_same_process, AttachStart* start) {
  start->failure = Begin(pid, tid, start_ns, is_same_process, start);
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

AttachOutcome AttachOnOwnThread(const AttachRequest& request, LibraryCache* cache) {
  AttachOutcome outcome;
  std::thread([&] { outcome = AttachAtWindow(request, cache); }).join();
  outcome.tracer_must_exit = false;
  return outcome;
}

}  // namespace rocattach
