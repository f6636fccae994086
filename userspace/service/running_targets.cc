#include "userspace/service/running_targets.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "userspace/base/clock.h"
#include "userspace/base/process.h"
#include "userspace/base/status_macros.h"
#include "userspace/watch/late/running_process.h"

namespace rocattach {
namespace {

// Reading a process takes some milliseconds.
constexpr absl::Duration kReadPatience = absl::Seconds(1);

uint64_t NowMsec() {
  return ClockNs(CLOCK_MONOTONIC) / 1'000'000;
}

}  // namespace

RunningTargets::RunningTargets(KernelProbe* probe, RunningTargetsOptions options)
    : probe_(probe),
      options_(std::move(options)),
      readers_("rwa-follow", /*most_per_user=*/1),
      awaited_({.has_window = [probe](pid_t pid) { return probe->HasWindow(pid); },
                .read_start = [this](pid_t pid) { return ReadStart(pid); },
                .read_start_ticks = ReadStartTicks,
                .now = NowMsec},
               options_.wait_timeout_msec),
      safe_points_({.read_start_ticks = ReadStartTicks, .now = NowMsec},
                   options_.wait_timeout_msec) {}

absl::StatusOr<RuntimeStart> RunningTargets::ReadStart(pid_t pid) {
  const auto start = std::make_shared<absl::StatusOr<RuntimeStart>>();
  const bool is_kept =
      !ReadProcesses(&readers_, kReadPatience, {pid}, [start](pid_t p) {
         *start = ReadRuntimeStart(p);
       }).empty();
  if (is_kept) return RuntimeStart::kUnknown;
  return *start;
}

absl::Status RunningTargets::CheckStart(pid_t pid) {
  const auto status = std::make_shared<absl::Status>();
  const bool is_kept =
      !ReadProcesses(&readers_, kReadPatience, {pid}, [status](pid_t p) {
         *status = CheckRuntimeStarted(p);
       }).empty();
  return is_kept ? absl::OkStatus() : *status;
}

absl::Status RunningTargets::FollowOne(pid_t pid) {
  auto ticks = ReadStartTicks(pid);
  auto start = ReadStart(pid);
  if (!ticks.ok() || !start.ok()) return absl::OkStatus();  // it has ended
  // A process whose runtime is open is attached to late, and has no window.
  const bool starts = *start != RuntimeStart::kStarted;
  if (!starts && !options_.children) return absl::OkStatus();
  return probe_->followed().Add({pid, *ticks},
                                {.itself = starts, .children = options_.children});
}

absl::Status RunningTargets::Follow(std::vector<pid_t>* running) {
  named_.insert(running->begin(), running->end());
  std::set<pid_t> followed;
  bool grows = true;
  // Children of a followed process are followed from their fork on. A child that was
  // forked before that is found in the next round.
  while (grows) {
    if (options_.children) *running = WithDescendants(*running);
    grows = false;
    for (pid_t pid : *running) {
      if (!followed.insert(pid).second) continue;
      RETURN_IF_ERROR(FollowOne(pid));
      grows = options_.children;
    }
  }
  return absl::OkStatus();
}

absl::Status RunningTargets::CheckStarted(pid_t pid) {
  absl::Status status = CheckStart(pid);
  if (absl::IsFailedPrecondition(status)) return status;
  // It is no failure if a descendant has ended. Any other error is left to the attach
  // to report.
  return named_.count(pid) == 0 && absl::IsNotFound(status) ? status : absl::OkStatus();
}

std::vector<pid_t> RunningTargets::Started(const std::vector<pid_t>& running) {
  if (!follows()) return running;
  std::vector<pid_t> started;
  for (pid_t pid : running) {
    absl::Status status = CheckStarted(pid);
    if (options_.wait && status.ok() && !probe_->HasWindow(pid) &&
        ReadStart(pid).value_or(RuntimeStart::kStarted) == RuntimeStart::kUnknown) {
      status = absl::FailedPreconditionError(absl::StrCat(
          "process ", pid, " has loaded the HSA runtime, but may not have started it"));
    }
    if (status.ok()) {
      // If it has a window, that was opened in time.
      if (!probe_->HasWindow(pid)) started.push_back(pid);
      continue;
    }
    const bool awaited = options_.wait && !absl::IsNotFound(status);
    // If the process has just ended, the next look finds another start time.
    if (awaited) awaited_.Add({pid, ReadStartTicks(pid).value_or(0)});
    options_.on_not_started(pid, status, awaited);
  }
  return started;
}

bool RunningTargets::AwaitSafePoint(pid_t pid, const absl::Status& why, bool* is_new) {
  if (!options_.wait) return false;
  const auto ticks = ReadStartTicks(pid);
  if (!ticks.ok()) return false;
  *is_new = safe_points_.Add({pid, *ticks}, std::string(why.message()));
  return true;
}

std::vector<pid_t> RunningTargets::Poll() {
  if (!waits()) return {};
  AwaitedStarts::Changes starts = awaited_.Poll();
  for (pid_t pid : starts.loaded) options_.on_loaded(pid);
  AwaitedSafePoints::Changes points = safe_points_.Poll();
  for (const auto* given_up : {&starts.given_up, &points.given_up}) {
    for (const auto& [pid, why] : *given_up) options_.on_given_up(pid, why);
  }
  std::vector<pid_t> to_enter = std::move(starts.started);
  to_enter.insert(to_enter.end(), points.due.begin(), points.due.end());
  return to_enter;
}

bool RunningTargets::FollowsAny() const {
  const std::vector<ProcessId> followed = probe_->followed().List();
  return std::any_of(followed.begin(), followed.end(), [](const ProcessId& process) {
    auto ticks = ReadStartTicks(process.pid);
    return ticks.ok() && *ticks == process.start_ticks &&
           CheckIsProcess(process.pid).ok();
  });
}

bool RunningTargets::IsFollowed(pid_t pid) const {
  auto ticks = ReadStartTicks(pid);
  return ticks.ok() && probe_->followed().Contains({pid, *ticks});
}

}  // namespace rocattach
