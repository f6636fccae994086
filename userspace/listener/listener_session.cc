#include "userspace/listener/listener_session.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/functional/bind_front.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "injector/process/denial.h"
#include "injector/process/target_checks.h"
#include "injector/process/thread_status.h"
#include "injector/stub/call_frame.h"
#include "userspace/base/clock.h"
#include "userspace/base/file.h"
#include "userspace/base/process.h"
#include "userspace/listener/tool_library.h"
#include "userspace/watch/discovery/library_search.h"

namespace rocattach {
namespace {

constexpr char kListener[] = "rocp-bg-attach";
constexpr char kAttachLibrary[] = "librocprofiler-sdk-attach.so";
constexpr char kSdkLibrary[] = "librocprofiler-sdk.so";
// Stored in the stub, so that a later session knows the purpose of the call.
constexpr uint64_t kAttachCall = 1, kDetachCall = 2, kEnvironmentCall = 3;
// getenv() and the like wait only for each other.
constexpr uint32_t kEnvironmentMsec = 5'000;

ToolFailure FromStep(const AttachFailure& failure) {
  const bool busy = failure.reason == AttachReason::kUnsafeContext ||
                    failure.reason == AttachReason::kForeignThread;
  return {busy ? "listener-busy" : std::string(AttachReasonName(failure.reason)),
          failure.detail};
}

ToolFailure FromStatus(const absl::Status& status) {
  return FromStep(FailureFromProc(status));
}

#define RETURN_IF_STEP_FAILED(step) \
  if (StepResult step_ = (step); !step_.ok()) return FromStep(step_.failure())

#define RETURN_IF_RESULT(call) \
  if (Result result_ = (call); result_.has_value()) return result_

// The meaning of rocprofiler-register's status numbers.
std::string RegisterStatus(uint32_t status) {
  switch (status) {
    case 1:
      return "it finds no rocprofiler-sdk that can attach tools (NO_TOOLS)";
    case 2:
      return "it is in a registration (DEADLOCK); try again";
    case 6:
      return "rocprofiler-sdk reports an error: the tool could not be loaded, has no "
             "rocprofiler_configure or no rocprofiler_configure_attach, or failed "
             "(ROCPROFILER_ERROR)";
    case 8:
      return "the process has had another tool, which only the end of the process "
             "removes; give the same library, spelt in the same way (INVALID_ARGUMENT)";
    case 9:
      return "the attach library has not registered (ATTACHMENT_NOT_AVAILABLE)";
    default:
      return absl::StrCat("error ", status);
  }
}

// True if the tool of an earlier session is still attached, as far as can be told. If
// that is unknown, true: one detach too many does less harm than one attach too many.
bool IsStillAttached(const EarlierCall& earlier) {
  // Such calls are made before an attach or after a detach.
  if (earlier.purpose == kEnvironmentCall) return false;
  const bool returned =
      earlier.block.has_value() && earlier.block->state == CALL_RETURNED;
  if (earlier.purpose == kDetachCall) return !returned;
  if (!earlier.block.has_value() || earlier.block->state == CALL_ENTERED) return true;
  return returned && static_cast<uint32_t>(earlier.block->result) == 0;
}

}  // namespace

ToolFailure ListenerSession::Ended(const char* name) const {
  return {"died-during-attach",
          absl::StrCat("process ", pid_,
                       " has ended, or replaced its program, while it "
                       "executed ",
                       name,
                       "; if the tool crashed, its own output says "
                       "why"),
          true};
}

ToolFailure ListenerSession::StillRunning(const char* name,
                                          absl::string_view limit) const {
  auto status = ReadThreadStatus(pid_, listener_);
  const bool stopped = status.ok() && (status->state == 'T' || status->state == 't');
  return {limit.empty() ? "cancelled" : "call-timeout",
          absl::StrCat(
              name, " has not returned in process ", pid_, limit, ": ",
              stopped ? "the process is stopped" : "the tool takes long, or hangs",
              ". Nothing else in the process waits for it; the call goes on in its "
              "thread ",
              kListener, ", and until it returns, no tool can be attached or detached"),
          true};
}

bool ListenerSession::target_ended() const {
  pollfd ended = {pidfd_.get(), POLLIN, 0};
  return pidfd_.valid() && poll(&ended, 1, 0) > 0;
}

ListenerSession::Result ListenerSession::Open() {
  auto pidfd = OpenPidFd(pid_);
  if (!pidfd.ok()) return FromStatus(pidfd.status());
  pidfd_ = *std::move(pidfd);
  auto ticks = ReadStartTicks(pid_);
  if (!ticks.ok()) return FromStatus(ticks.status());
  start_ns_ = *ticks * ClockTickNs();
  // Opening it takes the right to trace the process; the lock ends with this program.
  auto lock = OpenFile(absl::StrCat("/proc/", pid_, "/mem"), O_RDONLY);
  if (!lock.ok()) {
    ToolFailure failure = FromStatus(lock.status());
    if (absl::IsPermissionDenied(lock.status())) {
      absl::StrAppend(&failure.detail, "; ", ExplainTraceDenial(pid_));
    }
    return failure;
  }
  lock_ = *std::move(lock);
  if (flock(lock_.get(), LOCK_EX | LOCK_NB) == 0) return std::nullopt;
  return ToolFailure{"already-attached",
                     absl::StrCat("another rocattach has attached a tool to process ",
                                  pid_, "; detach that one first")};
}

// An attached tool starts threads of its own, which have the name of the thread that
// starts them, so the listener is the oldest one.
ListenerSession::Result ListenerSession::FindListener() {
  const auto threads = ListThreads(pid_);
  if (!threads.ok()) return FromStatus(threads.status());
  listener_ = 0;
  std::pair<uint64_t, pid_t> oldest;
  for (pid_t tid : *threads) {
    auto name = ReadFile(absl::StrCat("/proc/", pid_, "/task/", tid, "/comm"), 256);
    if (!name.ok() || absl::StripSuffix(*name, "\n") != kListener) continue;
    auto ticks = ReadStartTicks(tid);
    if (!ticks.ok()) continue;  // it has ended
    const std::pair<uint64_t, pid_t> found(*ticks, tid);
    if (listener_ != 0 && oldest < found) continue;
    oldest = found;
    listener_ = tid;
  }
  if (listener_ != 0) return std::nullopt;
  // A version that cannot attach ignores ROCP_TOOL_ATTACH, which may have been set.
  if (auto maps = Maps::Read(pid_); maps.ok()) {
    RegisterLibrary found;
    StepResult result = FindRegisterLibrary(pid_, *maps, &found);
    if (found.cannot_attach) RETURN_IF_STEP_FAILED(std::move(result));
  }
  return ToolFailure{
      "no-listener",
      absl::StrCat(
          "process ", pid_, " has no thread ", kListener,
          ": tool libraries can be attached only to processes that were started "
          "with ROCP_TOOL_ATTACH=1 and have initialised their runtime (not to "
          "forked children of these). Without a tool library, rocattach needs "
          "no such preparation")};
}

ListenerSession::Result ListenerSession::CheckTarget() const {
  RETURN_IF_STEP_FAILED(CheckNotSecure(pid_));
  auto status = ReadThreadStatus(pid_, listener_);
  if (!status.ok()) return FromStatus(status.status());
  RETURN_IF_STEP_FAILED(CheckSeccomp(*status));
  return std::nullopt;
}

// The path of the loaded library, or else of the one that would be loaded.
std::string ListenerSession::SdkPath(const Maps& maps) const {
  if (const Mapping* mapped = FindMappedLibrary(maps, kSdkLibrary)) {
    return DecodeMapsPath(mapped->path);
  }
  const std::string proc = absl::StrCat("/proc/", pid_);
  auto environment = ReadEnvironment(pid_);
  return FindLibrary(
      absl::StrCat(proc, "/root"), library_.path, environment.value_or(""),
      {kSdkLibrary, absl::StrCat(kSdkLibrary, ".1"), absl::StrCat(kSdkLibrary, ".0")});
}

ListenerSession::Result ListenerSession::FindSdk(const Maps& maps) {
  RETURN_IF_STEP_FAILED(FindRegisterLibrary(pid_, maps, &library_));
  if (FindMappedLibrary(maps, kAttachLibrary) == nullptr) {
    return ToolFailure{"no-listener",
                       absl::StrCat("process ", pid_, " has a thread ", kListener,
                                    " but has not loaded ", kAttachLibrary,
                                    ": it is not the thread of rocprofiler-register")};
  }
  sdk_ = SdkPath(maps);
  sdk_is_loaded_ = FindMappedLibrary(maps, kSdkLibrary) != nullptr;
  // Some releases of rocprofiler-register abort the process without rocprofiler-sdk.
  if (sdk_.empty()) {
    return ToolFailure{"tool-refused",
                       absl::StrCat("process ", pid_, " would not find ", kSdkLibrary,
                                    ", which loads tools; install rocprofiler-sdk, or "
                                    "set LD_LIBRARY_PATH for the process")};
  }
  return std::nullopt;
}

ListenerSession::Result ListenerSession::FindTools(
    const std::vector<std::string>& tools) {
  std::vector<std::string> paths;
  if (tools_are_loaded_) paths = tools;
  for (const std::string& tool : tools) {
    if (tools_are_loaded_) break;
    auto path = FindToolLibrary(pid_, tool, sdk_);
    if (!path.ok()) {
      return ToolFailure{"tool-invalid", std::string(path.status().message())};
    }
    paths.push_back(*std::move(path));
  }
  if (tools.size() > 1 && AttachesOneTool(pid_, sdk_)) {
    return ToolFailure{"tool-refused",
                       absl::StrCat(sdk_, " of process ", pid_,
                                    " attaches one tool library only; lists are for "
                                    "ROCm 7")};
  }
  tool_ = absl::StrJoin(paths, ":");
  // Releases that read a list ignore the part after its last colon.
  if (paths.size() > 1) tool_.push_back(':');
  return std::nullopt;
}

ListenerSession::Result ListenerSession::WaitForCall(
    const char* name, RemoteCall* call, uint64_t purpose, uint32_t limit_msec,
    const std::function<bool()>& cancelled) {
  const uint64_t begin_ns = ClockNs(CLOCK_MONOTONIC);
  const auto state = call->Wait(begin_ns + uint64_t{limit_msec} * 1'000'000, cancelled);
  call_ns_ = ClockNs(CLOCK_MONOTONIC) - begin_ns;
  switch (state) {
    case RemoteCall::State::kGone:
      return Ended(name);
    case RemoteCall::State::kRunning:
      return StillRunning(name, absl::StrCat(" within ", limit_msec, " ms"));
    case RemoteCall::State::kCancelled:
      return StillRunning(name, "");
    case RemoteCall::State::kReturned:
      break;
  }
  // The enumeration is 32 bits wide; the upper bits are undefined.
  const auto status = static_cast<uint32_t>(call->result());
  (void)call->Clear(/*keep_stub=*/purpose == kAttachCall && status == 0);
  if (status == 0) return std::nullopt;
  return ToolFailure{"tool-refused",
                     absl::StrCat(name, " of process ", pid_, " returned ", status,
                                  ": ", RegisterStatus(status)),
                     true};
}

StepResult ListenerSession::Begin(RemoteAddress function,
                                  std::array<CallArgument, 2> arguments,
                                  uint64_t purpose,
                                  std::optional<RemoteCall>* call) const {
  RemoteCallRequest request;
  request.pid = pid_;
  request.tid = listener_;
  request.start_ns = start_ns_;
  request.function = function;
  request.arguments = std::move(arguments);
  request.purpose = purpose;
  request.busy_begin = library_.code_begin;
  request.busy_end = library_.code_end;
  return RemoteCall::Begin(request, call);
}

ListenerSession::Result ListenerSession::Call(const char* name, RemoteAddress function,
                                              std::array<CallArgument, 2> arguments,
                                              uint64_t purpose, uint32_t limit_msec,
                                              const std::function<bool()>& cancelled) {
  std::optional<RemoteCall> call;
  RETURN_IF_STEP_FAILED(Begin(function, std::move(arguments), purpose, &call));
  return WaitForCall(name, &*call, purpose, limit_msec, cancelled);
}

absl::StatusOr<uint64_t> ListenerSession::CallLibc(
    const std::function<bool()>& cancelled, const char* name, RemoteAddress function,
    std::array<CallArgument, 2> arguments) {
  std::optional<RemoteCall> call;
  StepResult begun = Begin(function, std::move(arguments), kEnvironmentCall, &call);
  if (!begun.ok()) return absl::UnavailableError(begun.failure().detail);
  const uint32_t limit_msec = std::min(kEnvironmentMsec, limits_.attach_msec);
  const auto state = call->Wait(
      ClockNs(CLOCK_MONOTONIC) + uint64_t{limit_msec} * 1'000'000, cancelled);
  if (state != RemoteCall::State::kReturned) {
    const bool is_cancelled = state == RemoteCall::State::kCancelled;
    const std::string limit =
        is_cancelled ? "" : absl::StrCat(" within ", limit_msec, " ms");
    unfinished_call_ =
        state == RemoteCall::State::kGone ? Ended(name) : StillRunning(name, limit);
    return absl::DeadlineExceededError(unfinished_call_->detail);
  }
  (void)call->Clear(/*keep_stub=*/false);
  return call->result();
}

ListenerSession::Result ListenerSession::RememberEnvironment(
    const Maps& maps, const Variables& variables,
    const std::function<bool()>& cancelled) {
  if (variables.empty()) return std::nullopt;
  absl::Status status;
  if (auto environment = ToolEnvironment::Open(pid_, maps); environment.ok()) {
    environment_ = *std::move(environment);
    status = environment_->Remember(
        variables, absl::bind_front(&ListenerSession::CallLibc, this, cancelled));
  } else {
    status = environment.status();
  }
  if (status.ok()) return std::nullopt;
  environment_.reset();
  variables_kept_ = std::string(status.message());
  // If the listener has not come back, nothing else can be called either.
  return std::exchange(unfinished_call_, std::nullopt);
}

void ListenerSession::RestoreEnvironment() {
  if (!environment_.has_value()) return;
  const absl::Status status = environment_->Restore(
      absl::bind_front(&ListenerSession::CallLibc, this, nullptr));
  environment_.reset();
  if (!status.ok() && !target_ended()) variables_kept_ = std::string(status.message());
}

// Detaches what a killed session has left attached: tools do not expect a second attach
// without a detach.
ListenerSession::Result ListenerSession::DetachEarlier(
    const std::function<bool()>& cancelled) {
  RemoteCallRequest request;
  request.pid = pid_;
  request.tid = listener_;
  request.function = library_.attach;
  std::optional<EarlierCall> earlier;
  RETURN_IF_STEP_FAILED(RemoteCall::FindEarlier(request, &earlier));
  if (!earlier.has_value() || !IsStillAttached(*earlier)) return std::nullopt;
  Result result = Call("rocprofiler_register_detach", library_.detach, {}, kDetachCall,
                       limits_.detach_msec, cancelled);
  // If the tool was not attached, the attach can go on.
  if (!result.has_value() || result->reason == "tool-refused") return std::nullopt;
  return result;
}

ListenerSession::Result ListenerSession::Prepare() {
  if (prepared_) return std::nullopt;
  RETURN_IF_RESULT(Open());
  RETURN_IF_RESULT(FindListener());
  RETURN_IF_RESULT(CheckTarget());
  auto maps = Maps::Read(pid_);
  if (!maps.ok()) return FromStatus(maps.status());
  RETURN_IF_RESULT(FindSdk(*maps));
  prepared_ = true;
  return std::nullopt;
}

ListenerSession::Result ListenerSession::Steps(const std::vector<std::string>& tools,
                                               const Variables& variables,
                                               const std::function<bool()>& cancelled) {
  RETURN_IF_RESULT(Prepare());
  auto maps = Maps::Read(pid_);
  if (!maps.ok()) return FromStatus(maps.status());
  RETURN_IF_RESULT(FindTools(tools));
  RETURN_IF_RESULT(DetachEarlier(cancelled));
  RETURN_IF_RESULT(RememberEnvironment(*maps, variables, cancelled));
  RETURN_IF_RESULT(Call("rocprofiler_register_attach", library_.attach,
                        {EnvironmentBuffer(variables), tool_ + '\0'}, kAttachCall,
                        limits_.attach_msec, cancelled));
  attached_ = true;
  return std::nullopt;
}

ListenerSession::Result ListenerSession::Attach(
    const std::vector<std::string>& tools, const Variables& variables,
    const std::function<bool()>& cancelled) {
  Result result = Steps(tools, variables, cancelled);
  // Data read from a process that is ending is not reliable.
  if (result.has_value() && target_ended() && result->reason != "died-during-attach") {
    return ToolFailure{"target-exited", absl::StrCat("process ", pid_, " has ended"),
                       result->target_modified};
  }
  return result;
}

ListenerSession::Result ListenerSession::Detach() {
  if (!attached_) return std::nullopt;
  attached_ = false;
  if (target_ended()) return std::nullopt;
  Result result = Call("rocprofiler_register_detach", library_.detach, {}, kDetachCall,
                       limits_.detach_msec, nullptr);
  if (result.has_value() && result->reason != "target-exited") return result;
  RestoreEnvironment();
  return std::nullopt;
}

}  // namespace rocattach
