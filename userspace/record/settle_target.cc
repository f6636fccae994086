#include "userspace/record/settle_target.h"

#include <algorithm>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "injector/descriptor_sender.h"
#include "injector/process/denial.h"
#include "injector/process/maps.h"
#include "userspace/record/drain/dictionary.h"
#include "userspace/record/end_verdict.h"

namespace rocattach {
namespace {

// A process that has not called the runtime for this long after a late attach is idle.
constexpr uint64_t kIdleNs = 250'000'000;

// Time limit for the stub: from its release on, it tries for 100 ms to take the
// loader's lock, then gives up.
constexpr uint64_t kStubNs = 1'000'000'000;

// A crowded machine may take longer to stop the thread than the stub's time limit.
uint64_t StubStartNs(const Window& window) {
  return std::max(window.event.time_ns, window.outcome.released_ns);
}

// A collector that is called by hsa_init is in place: the call may take long.
bool IsInPlace(const Target& target) {
  return target.has_memory() && target.memory()->control().hears_of_init();
}

CollectorProgress ProgressOf(const Target& target) {
  if (IsInPlace(target)) return CollectorProgress::kInPlace;
  return target.has_memory() ? CollectorProgress::kReported : CollectorProgress::kNone;
}

// Appends what a security module may have to do with a failed load.
void AppendDenial(pid_t pid, std::string* detail) {
  const std::string denial = ExplainLoadDenial(pid);
  if (!denial.empty()) absl::StrAppend(detail, "; ", CleanText(denial));
}

// Settles with the stub's report of why the file that it was sent was not loaded.
bool SettleFromStub(Target* target) {
  const auto& report = target->opened().outcome.load_report;
  if (report == nullptr || target->has_memory()) return false;
  const std::string error = ReadLoadError(report->get());
  if (error.empty()) return false;
  std::string detail =
      absl::StrCat("the process could not load the collector: ", CleanText(error));
  if (SpeaksOfDenial(error)) {
    AppendDenial(static_cast<pid_t>(target->opened().event.pid), &detail);
  }
  target->Settle(Verdict::kRefused, AttachReason::kCollectorUnreadable, detail);
  return true;
}

}  // namespace

bool SettleAtEnd(Target* target, const v1::ProcessEnd& end) {
  if (target->SettleFromCollector()) return true;
  if (target->verdict() != Verdict::kOpen) return false;
  if (SettleFromStub(target)) return true;
  if (IsInPlace(*target) && target->memory()->control().init_status() != 0) {
    target->Settle(Verdict::kPassed, AttachReason::kNone,
                   absl::StrFormat("hsa_init failed in this process (status %#x): it "
                                   "had no GPU to use, and there was nothing to record",
                                   target->memory()->control().init_status()));
    return true;
  }
  const EndVerdict verdict = VerdictAtEnd(target->opened(), ProgressOf(*target), end);
  target->Settle(verdict.verdict, verdict.reason, verdict.detail);
  return true;
}

bool SettleBeforeReopen(Target* target) {
  if (target->verdict() != Verdict::kOpen) return false;
  if (!target->SettleFromCollector()) {
    target->Settle(Verdict::kRefused, AttachReason::kCollectorSilent,
                   "the process opened its next window before the collector reported");
  }
  return true;
}

bool HasCollector(pid_t pid) {
  auto maps = Maps::Read(pid);
  if (!maps.ok()) return true;
  const auto& all = maps->mappings();
  return std::any_of(all.begin(), all.end(), [](const Mapping& mapping) {
    return absl::StrContains(mapping.basename(), "rocattach-collector");
  });
}

bool SettleIfNotLoaded(Target* target, uint64_t now_ns,
                       absl::FunctionRef<bool(pid_t)> has_collector) {
  const Window& window = target->opened();
  if (target->verdict() != Verdict::kOpen) return false;
  if (SettleFromStub(target)) return true;
  if (!window.outcome.ok() || target->has_memory() ||
      now_ns <= StubStartNs(window) + kStubNs || !target->TakeLoadCheck() ||
      has_collector(static_cast<pid_t>(window.event.pid))) {
    return false;
  }
  const bool was_sent = window.outcome.load_report != nullptr;
  std::string detail =
      absl::StrCat("the injected code did not get to load the collector",
                   was_sent ? ", or the process could not accept its descriptor (the "
                              "limit of open files, or a security module); "
                            : "; ",
                   AttachReasonHelp(AttachReason::kLoaderBusy));
  AppendDenial(static_cast<pid_t>(window.event.pid), &detail);
  target->Settle(Verdict::kRefused, AttachReason::kLoaderBusy, detail);
  return true;
}

bool MayBeEnteredLater(const v1::WindowEvent& window) {
  if (window.state() != v1::WINDOW_STATE_REFUSED &&
      window.state() != v1::WINDOW_STATE_MISSED) {
    return false;
  }
  switch (window.reason()) {
    case v1::ATTACH_REASON_STOP_TIMEOUT:
    case v1::ATTACH_REASON_NOT_AT_WINDOW:
    case v1::ATTACH_REASON_LOADER_BUSY:
    case v1::ATTACH_REASON_UNSAFE_CONTEXT:
    case v1::ATTACH_REASON_COLLECTOR_SILENT:
      return true;
    default:
      return false;
  }
}

bool SettleIfOverdue(Target* target, uint64_t now_ns, uint64_t timeout_ns) {
  const Window& window = target->opened();
  if (target->verdict() == Verdict::kOpen && IsLate(window.event) &&
      IsInPlace(*target) && now_ns > window.event.time_ns + kIdleNs) {
    target->SettleUnarmed(
        "the collector is in place; what the process does from its "
        "next call of the HSA runtime on is recorded");
    return true;
  }
  if (target->verdict() != Verdict::kOpen || !window.attach_tried ||
      IsInPlace(*target) || now_ns <= window.event.time_ns + timeout_ns) {
    return false;
  }
  if (target->SettleFromCollector()) return true;
  if (target->has_memory()) {
    target->Settle(Verdict::kRefused, AttachReason::kCollectorSilent,
                   "the collector was loaded, but the runtime never called it: another "
                   "tool may be registered with rocprofiler-register");
  } else if (window.outcome.ok()) {
    target->Settle(Verdict::kRefused, AttachReason::kCollectorSilent,
                   absl::StrCat("the collector did not report in; ",
                                AttachReasonHelp(AttachReason::kCollectorSilent)));
  } else {
    const EndVerdict verdict = VerdictOfLostThread(window, target->IsGone());
    target->Settle(verdict.verdict, verdict.reason, verdict.detail);
  }
  return true;
}

}  // namespace rocattach
