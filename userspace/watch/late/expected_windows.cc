#include "userspace/watch/late/expected_windows.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace rocattach {

absl::string_view MissReasonName(MissReason reason) {
  switch (reason) {
    case MissReason::kLate:
      return "late";
    case MissReason::kUncertain:
      return "uncertain";
    case MissReason::kTooManyCopies:
      return "too_many_copies";
    case MissReason::kNotProbed:
      return "not_probed";
    case MissReason::kUnknownCopy:
      return "unknown_copy";
  }
  return "";
}

void ExpectedWindows::Add(pid_t pid) {
  const uint64_t ticks = functions_.read_start_ticks(pid).value_or(0);
  absl::MutexLock lock(&mutex_);
  const bool seen =
      std::any_of(recent_.begin(), recent_.end(), [pid, ticks](const ProcessId& p) {
        return p.pid == pid && (ticks == 0 || p.start_ticks == ticks);
      });
  if (seen) return;
  auto found = expected_.find(pid);
  if (found != expected_.end() && found->second.start_ticks == ticks) {
    // A further copy in the same process.
    found->second.probed = false;
    return;
  }
  // Another process had this ID, and its end was not noticed.
  if (found != expected_.end()) Miss(pid, found->second, MissReason::kUncertain);
  expected_[pid] = {.start_ticks = ticks};
}

void ExpectedWindows::Miss(pid_t pid, const Expected& expected, MissReason why) {
  ++missed_[why];
  missing_.push_back({pid, expected.start_ticks});
  if (missing_.size() > kMostRecent) missing_.pop_front();
  if (functions_.on_missed != nullptr) {
    functions_.on_missed({pid, expected.start_ticks}, why);
  }
}

void ExpectedWindows::OnProbed(pid_t pid) {
  absl::MutexLock lock(&mutex_);
  if (auto found = expected_.find(pid); found != expected_.end()) {
    found->second.probed = true;
  }
}

void ExpectedWindows::OnNotProbed(pid_t pid, MissReason why) {
  absl::MutexLock lock(&mutex_);
  const auto found = expected_.find(pid);
  if (found == expected_.end()) return;
  Miss(pid, found->second, why);
  expected_.erase(found);
}

void ExpectedWindows::Dismiss(pid_t pid) {
  absl::MutexLock lock(&mutex_);
  expected_.erase(pid);
}

bool ExpectedWindows::OnDriverUse(const ProcessId& process) {
  if (functions_.has_window(process.pid)) return false;
  absl::MutexLock lock(&mutex_);
  const auto has = [&process](const std::deque<ProcessId>& list) {
    return std::find(list.begin(), list.end(), process) != list.end();
  };
  if (has(recent_) || has(missing_) || expected_.count(process.pid) > 0) return false;
  Miss(process.pid, {.start_ticks = process.start_ticks}, MissReason::kUnknownCopy);
  return true;
}

void ExpectedWindows::OnWindow(const ProcessId& process) {
  absl::MutexLock lock(&mutex_);
  recent_.push_back(process);
  if (recent_.size() > kMostRecent) recent_.pop_front();
  auto found = expected_.find(process.pid);
  if (found == expected_.end()) return;
  const uint64_t ticks = found->second.start_ticks;
  if (ticks == 0 || ticks == process.start_ticks) expected_.erase(found);
}

ExpectedWindows::Fate ExpectedWindows::Decide(pid_t pid, Expected* expected) const {
  const uint64_t now = functions_.now_msec();
  if (functions_.has_window(pid)) return Fate::kSettled;
  // In this order: a runtime that is open and has no window afterwards never had one.
  const auto start = functions_.read_start(pid);
  const auto ticks = functions_.read_start_ticks(pid);
  const bool gone = !ticks.ok() || *ticks != expected->start_ticks ||
                    absl::IsNotFound(start.status());
  if (gone) {
    if (expected->gone_msec == 0) expected->gone_msec = now;
    return now - expected->gone_msec >= kNewsMsec ? Fate::kUncertain : Fate::kOpen;
  }
  expected->started = !start.ok() || *start != RuntimeStart::kNotStarted;
  if (!expected->probed) return Fate::kOpen;
  // Read after the probe was in place.
  if (!start.ok() || *start == RuntimeStart::kNotLoaded) return Fate::kUncertain;
  if (*start == RuntimeStart::kNotStarted) return Fate::kSettled;
  if (*start == RuntimeStart::kUnknown) {
    if (expected->unknown_since_msec == 0) expected->unknown_since_msec = now;
    if (now - expected->unknown_since_msec < kLoadingMsec) return Fate::kOpen;
  }
  // Its window may have opened since the first check.
  return functions_.has_window(pid) ? Fate::kSettled : Fate::kLate;
}

std::vector<pid_t> ExpectedWindows::Open() {
  std::vector<pid_t> open;
  absl::MutexLock lock(&mutex_);
  for (auto& [pid, expected] : expected_) {
    if (!std::exchange(expected.polling, true)) open.push_back(pid);
  }
  return open;
}

void ExpectedWindows::Postpone(pid_t pid) {
  absl::MutexLock lock(&mutex_);
  if (auto found = expected_.find(pid); found != expected_.end()) {
    found->second.polling = false;
  }
}

std::optional<ProcessId> ExpectedWindows::Poll(pid_t pid) {
  Expected expected;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = expected_.find(pid);
    if (found == expected_.end()) return std::nullopt;
    expected = found->second;
  }
  // Reads the process, so without the lock: threads that serve windows take it.
  const Fate fate = Decide(pid, &expected);
  absl::MutexLock lock(&mutex_);
  const auto found = expected_.find(pid);
  if (found == expected_.end()) return std::nullopt;
  found->second.polling = false;
  if (found->second.start_ticks != expected.start_ticks) return std::nullopt;
  if (fate == Fate::kOpen) {
    found->second.gone_msec = expected.gone_msec;
    found->second.unknown_since_msec = expected.unknown_since_msec;
    found->second.started = expected.started;
    return std::nullopt;
  }
  expected_.erase(found);
  if (fate == Fate::kUncertain) Miss(pid, expected, MissReason::kUncertain);
  if (fate != Fate::kLate) return std::nullopt;
  Miss(pid, expected, MissReason::kLate);
  return ProcessId{pid, expected.start_ticks};
}

void ExpectedWindows::Finish() {
  absl::MutexLock lock(&mutex_);
  for (const auto& [pid, expected] : expected_) {
    // A process that lives and has not started its runtime has missed nothing.
    const auto ticks = functions_.read_start_ticks(pid);
    if (ticks.ok() && *ticks == expected.start_ticks && !expected.started) continue;
    Miss(pid, expected, MissReason::kUncertain);
  }
  expected_.clear();
}

bool ExpectedWindows::empty() const {
  absl::MutexLock lock(&mutex_);
  return expected_.empty();
}

MissedWindows ExpectedWindows::missed() const {
  absl::MutexLock lock(&mutex_);
  return missed_;
}

}  // namespace rocattach
