#include "userspace/doctor/self_tests.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "injector/process/maps.h"
#include "injector/process/target_memory.h"
#include "injector/tracing/tracee.h"
#include "userspace/base/clock.h"
#include "userspace/base/errno_status.h"
#include "userspace/base/human.h"
#include "userspace/base/status_macros.h"
#include "userspace/doctor/test_child.h"

namespace rocattach {
namespace {

constexpr uint64_t kDeadlineNs = 2'000'000'000;
constexpr int kChildExitMsec = 5'000;

absl::Status ToStatus(const StepResult& result) {
  if (result.ok()) return absl::OkStatus();
  const AttachFailure& failure = result.failure();
  return failure.error != 0 ? ErrnoStatus(failure.error, failure.detail)
                            : absl::UnknownError(failure.detail);
}

RemoteAddress ProbePoint() {
  return RemoteAddress(reinterpret_cast<uint64_t>(&rocattach_doctor_probe_point));
}

// The way in which a tracer can write its tracee's code here.
enum class CodeWrite { kProcMem, kPoke };

// Changes eight bytes of the child's code, checks that they have changed, and changes
// them back. The page becomes the child's own copy; it never runs this code.
absl::StatusOr<CodeWrite> WriteCode(pid_t pid, Tracee* tracee) {
  ASSIGN_OR_RETURN(TargetMemory memory, TargetMemory::Open(pid, pid));
  uint64_t before = 0, after = 0;
  RETURN_IF_ERROR(memory.Read(ProbePoint(), &before, sizeof(before)));
  const uint64_t changed = ~before;
  CodeWrite how = CodeWrite::kProcMem;
  absl::string_view bytes(reinterpret_cast<const char*>(&changed), sizeof(changed));
  if (absl::Status status = memory.Write(ProbePoint(), &changed, sizeof(changed));
      !status.ok()) {
    how = CodeWrite::kPoke;
    if (StepResult poked = tracee->Poke(ProbePoint(), bytes); !poked.ok()) {
      return absl::Status(status.code(), absl::StrCat(status.message(), "; and ",
                                                      poked.failure().detail));
    }
  }
  RETURN_IF_ERROR(memory.Read(ProbePoint(), &after, sizeof(after)));
  if (after != changed) {
    return absl::DataLossError("a write to a code page had no effect");
  }
  absl::string_view original(reinterpret_cast<const char*>(&before), sizeof(before));
  if (how == CodeWrite::kProcMem) {
    RETURN_IF_ERROR(memory.Write(ProbePoint(), &before, sizeof(before)));
  } else if (StepResult poked = tracee->Poke(ProbePoint(), original); !poked.ok()) {
    return ToStatus(poked);
  }
  return how;
}

struct PtraceResult {
  CodeWrite write = CodeWrite::kProcMem;
  uint64_t stopped_ns = 0;  // from PTRACE_SEIZE to the stop
};

void DoNothing() {}

absl::StatusOr<PtraceResult> TryPtrace() {
  PtraceResult result;
  ASSIGN_OR_RETURN(std::unique_ptr<TestChild> child, TestChild::Start(DoNothing));
  {
    Tracee tracee;
    user_regs_struct registers;
    uint64_t begin = BootNs();
    RETURN_IF_ERROR(ToStatus(tracee.Seize(child->pid(), child->pid())));
    RETURN_IF_ERROR(ToStatus(tracee.Interrupt()));
    RETURN_IF_ERROR(ToStatus(tracee.WaitForStop(begin + kDeadlineNs)));
    result.stopped_ns = BootNs() - begin;
    RETURN_IF_ERROR(ToStatus(tracee.ReadRegisters(&registers)));
    ASSIGN_OR_RETURN(result.write, WriteCode(child->pid(), &tracee));
  }
  child->Go();
  ASSIGN_OR_RETURN(int status, child->Wait(kChildExitMsec));
  if (status != 0) {
    return absl::InternalError(absl::StrCat("the child ended with wait status ", status,
                                            " after its release"));
  }
  return result;
}

struct WindowResult {
  rocattach_event event = {};
  uint64_t stopped_ns = 0;  // from the probe to the stop; 0: not held
};

// The next window event before the deadline; other events are skipped.
absl::StatusOr<rocattach_event> NextWindow(KernelProbe* probe, uint64_t deadline_ns) {
  for (;;) {
    rocattach_event event = {};
    while (probe->ConsumeOne([&](const rocattach_event& e) { event = e; })) {
      if (event.type == ROCATTACH_EVENT_WINDOW) return event;
    }
    uint64_t now = BootNs();
    if (now >= deadline_ns) {
      return absl::DeadlineExceededError("a child hit the probe, but no event arrived");
    }
    pollfd fd = {probe->events_fd(), POLLIN, 0};
    poll(&fd, 1, static_cast<int>((deadline_ns - now) / 1'000'000 + 1));
  }
}

// The signal hold mode holds only threads that are seized already; the yielding one is
// handled as the service does it: seize, interrupt, wait.
absl::StatusOr<WindowResult> TryWindow(KernelProbe* probe) {
  WindowResult result;
  ASSIGN_OR_RETURN(uint64_t offset, OwnFileOffset(rocattach_doctor_probe_point));
  RETURN_IF_ERROR(probe->AddLibrary("/proc/self/exe", offset, /*cookie=*/1));
  ASSIGN_OR_RETURN(std::unique_ptr<TestChild> child,
                   TestChild::Start(rocattach_doctor_probe_point));
  const bool signalled = probe->hold_mode() == HoldMode::kSignal;
  {
    Tracee tracee;
    if (signalled) {
      RETURN_IF_ERROR(ToStatus(tracee.Seize(child->pid(), child->pid())));
    }
    child->Go();
    const uint64_t deadline = BootNs() + kDeadlineNs;
    ASSIGN_OR_RETURN(result.event, NextWindow(probe, deadline));
    if (result.event.pid != static_cast<uint32_t>(child->pid())) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the probe's event is for process ", result.event.pid, " instead of child ",
          child->pid(), ": this is not the initial pid namespace"));
    }
    if (result.event.mode == ROCATTACH_WINDOW_HELD) {
      RETURN_IF_ERROR(ToStatus(tracee.Seize(child->pid(), child->pid())));
      RETURN_IF_ERROR(ToStatus(tracee.Interrupt()));
    }
    if (result.event.mode == ROCATTACH_WINDOW_HELD ||
        result.event.mode == ROCATTACH_WINDOW_SIGNALLED) {
      RETURN_IF_ERROR(ToStatus(tracee.WaitForStop(deadline)));
      result.stopped_ns = BootNs() - result.event.time_ns;
    }
  }
  ASSIGN_OR_RETURN(int status, child->Wait(kChildExitMsec));
  if (status != 0) {
    return absl::InternalError(absl::StrCat("the child ended with wait status ", status,
                                            " after it had been held"));
  }
  return result;
}

}  // namespace

absl::StatusOr<uint64_t> OwnFileOffset(void (*function)()) {
  ASSIGN_OR_RETURN(Maps maps, Maps::Read(getpid()));
  RemoteAddress address(reinterpret_cast<uint64_t>(function));
  const Mapping* mapping = maps.Find(address);
  if (mapping == nullptr || !mapping->is_file()) {
    return absl::NotFoundError("this program's code is not mapped from a file");
  }
  return mapping->offset + (address - mapping->start);
}

Check CheckPtrace() {
  Check check = {.name = "ptrace"};
  auto result = TryPtrace();
  if (!result.ok()) {
    check.state = CheckState::kFailed;
    check.found = std::string(result.status().message());
    check.meaning = "Not even a child process can be attached to.";
    check.remedy =
        "Run as root; in a container, allow ptrace (--cap-add=SYS_PTRACE and a seccomp "
        "profile that permits it); see the checks 'yama', 'seccomp' and 'proc-mem', "
        "and "
        "the security module's log.";
    return check;
  }
  check.found =
      absl::StrCat("a child was stopped after ", HumanDuration(result->stopped_ns),
                   ", changed and released");
  if (result->write == CodeWrite::kPoke) {
    check.state = CheckState::kNote;
    check.meaning =
        "Code pages can be written only through ptrace, not through /proc/PID/mem, "
        "which makes an attach slightly slower.";
    check.remedy = "Boot with proc_mem.force_override=ptrace to allow it.";
  } else {
    check.meaning = "The injector works.";
  }
  return check;
}

Check CheckHold(const Capabilities& capabilities, HoldMode best_hold_mode,
                std::unique_ptr<KernelProbe>* probe) {
  Check check = {.name = "hold"};
  probe->reset();
  KernelProbeOptions options;
  options.hold = true;
  options.hold_deadline_ns = kDeadlineNs;
  options.only_below = getpid();
  options.best_hold_mode = best_hold_mode;
  auto loaded = KernelProbe::Load(options);
  if (!loaded.ok()) {
    std::vector<std::string> lines = absl::StrSplit(
        std::string(loaded.status().message()), absl::MaxSplits('\n', 1));
    check.found = lines[0];
    if (lines.size() > 1) {
      check.items.push_back({"kernel log", CheckState::kFailed, lines[1]});
    }
    if (!capabilities.CanLoadBpf()) {
      check.state = CheckState::kUnchecked;
      check.meaning = "Which hold mode this kernel supports is unknown.";
      check.remedy = "Run 'rocattach doctor' as root.";
      return check;
    }
    check.state = CheckState::kFailed;
    check.meaning = "New GPU processes can be neither seen nor held.";
    check.remedy =
        "See the checks 'kernel', 'btf', 'lockdown', 'seccomp' and 'namespaces'.";
    return check;
  }
  *probe = *std::move(loaded);
  HoldMode mode = (*probe)->hold_mode();
  check.found = absl::StrCat("hold mode '", HoldModeName(mode), "'");
  check.meaning = absl::StrCat(HoldModeHelp(mode), ".");
  if (!(*probe)->hold_mode_reason().empty()) {
    absl::StrAppend(&check.found, ": ", (*probe)->hold_mode_reason());
  }
  if (mode != HoldMode::kYielding) {
    check.state = CheckState::kWarning;
    check.remedy =
        best_hold_mode == HoldMode::kYielding
            ? absl::StrCat("The yielding hold needs ",
                           DescribeFeature(KernelFeature::kYieldingHold).needs, ".")
            : "Omit --hold to check whether the yielding hold works.";
  }
  return check;
}

Check CheckFeatures(const KernelProbe* probe) {
  Check check = {.name = "features"};
  if (probe == nullptr) {
    check.state = CheckState::kUnchecked;
    check.found = "not tried: the BPF programs are not loaded";
    check.meaning = "Whether the kernel has all optional features is unknown.";
    check.remedy = "See the check 'hold'.";
    return check;
  }
  std::vector<absl::string_view> names;
  for (const MissingFeature& missing : probe->missing_features()) {
    const KernelFeatureText text = DescribeFeature(missing.feature);
    names.push_back(text.name);
    check.items.push_back(
        {std::string(text.name), CheckState::kNote,
         absl::StrCat("needs ", text.needs, ": ", missing.reason, ". ", text.without)});
  }
  if (names.empty()) {
    check.found = "all features that the BPF programs use";
    return check;
  }
  check.state = CheckState::kNote;
  check.found = absl::StrCat("without ", absl::StrJoin(names, ", "));
  check.meaning = "The BPF programs work without these features.";
  return check;
}

Check CheckWindow(const Capabilities& capabilities, KernelProbe* probe) {
  Check check = {.name = "window"};
  if (probe == nullptr) {
    check.state = CheckState::kUnchecked;
    check.found = "not tried: the BPF programs are not loaded";
    check.meaning = "Whether a process can be held is unknown.";
    check.remedy = "See the check 'hold'.";
    return check;
  }
  auto result = TryWindow(probe);
  if (!result.ok()) {
    check.found = std::string(result.status().message());
    if (!capabilities.CanAttachUprobes()) {
      check.state = CheckState::kUnchecked;
      check.meaning = "Whether a process can be held is unknown.";
      check.remedy = "Run 'rocattach doctor' as root.";
      return check;
    }
    check.state = CheckState::kFailed;
    check.meaning = "A process that calls hsa_init cannot be detected and held.";
    check.remedy = "See the checks 'uprobes', 'seccomp', 'namespaces' and 'ptrace'.";
    return check;
  }
  if (result->stopped_ns != 0) {
    check.found = absl::StrCat("a child hit a probe, was held, and stopped after ",
                               HumanDuration(result->stopped_ns));
    check.meaning = "The attach window works end to end.";
    return check;
  }
  check.state = CheckState::kWarning;
  check.found = "a child hit a probe and was seen, but not held";
  check.meaning = "GPU processes are seen when they initialise, but not attached to.";
  check.remedy = "See the check 'hold'.";
  return check;
}

}  // namespace rocattach
