#include "userspace/watch/late/expected_windows.h"

#include <algorithm>
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

void ExpectedWindows::Add(const ProcessId& process) {
  absl::MutexLock lock(&mutex_);
  const bool seen =
      std::any_of(recent_.begin(), recent_.end(), [&process](const ProcessId& p) {
        return p == process || (p.pid == process.pid && process.start_ticks == 0);
      });
  if (seen) return;
  // It may be a further copy in the same process.
  expected_[process].probed = false;
}

void ExpectedWindows::Miss(const ProcessId& process, MissReason why) {
  ++missed_[why];
  missing_.push_back(process);
  if (missing_.size() > kMostRecent) missing_.pop_front();
  if (functions_.on_missed != nullptr) functions_.on_missed(process, why);
}

void ExpectedWindows::OnProbed(const ProcessId& process) {
  absl::MutexLock lock(&mutex_);
  if (auto found = expected_.find(process); found != expected_.end()) {
    found->second.probed = true;
  }
}

void ExpectedWindows::OnNotProbed(const ProcessId& process, MissReason why) {
  absl::MutexLock lock(&mutex_);
  if (expected_.erase(process) != 0) Miss(process, why);
}

void ExpectedWindows::Dismiss(const ProcessId& process) {
  absl::MutexLock lock(&mutex_);
  expected_.erase(process);
}

bool ExpectedWindows::OnDriverUse(const ProcessId& process) {
  if (functions_.has_window(process)) return false;
  absl::MutexLock lock(&mutex_);
  const auto has = [&process](const std::deque<ProcessId>& list) {
    return std::find(list.begin(), list.end(), process) != list.end();
  };
  if (has(recent_) || has(missing_) || expected_.contains(process)) return false;
  Miss(process, MissReason::kUnknownCopy);
  return true;
}

void ExpectedWindows::OnWindow(const ProcessId& process) {
  absl::MutexLock lock(&mutex_);
  recent_.push_back(process);
  if (recent_.size() > kMostRecent) recent_.pop_front();
  expected_.erase(process);
  expected_.erase({process.pid, 0});
}

ExpectedWindows::Fate ExpectedWindows::Decide(const ProcessId& process,
                                              Expected* expected) const {
  const uint64_t now = functions_.now_msec();
  if (functions_.has_window(process)) return Fate::kSettled;
  // In this order: a runtime that is open and has no window afterwards never had one.
  const auto start = functions_.read_start(process.pid);
  if (!functions_.lives(process) || absl::IsNotFound(start.status())) {
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
  return functions_.has_window(process) ? Fate::kSettled : Fate::kLate;
}

std::vector<ProcessId> ExpectedWindows::Open() {
  std::vector<ProcessId> open;
  absl::MutexLock lock(&mutex_);
  for (auto& [process, expected] : expected_) {
    if (!std::exchange(expected.polling, true)) open.push_back(process);
  }
  return open;
}

void ExpectedWindows::Postpone(const ProcessId& process) {
  absl::MutexLock lock(&mutex_);
  if (auto found = expected_.find(process); found != expected_.end()) {
    found->second.polling = false;
  }
}

bool ExpectedWindows::Poll(const ProcessId& process) {
  Expected expected;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = expected_.find(process);
    if (found == expected_.end()) return false;
    expected = found->second;
  }
  // Reads the process, so without the lock: threads that serve windows take it.
  const Fate fate = Decide(process, &expected);
  absl::MutexLock lock(&mutex_);
  const auto found = expected_.find(process);
  if (found == expected_.end()) return false;
  found->second.polling = false;
  if (fate == Fate::kOpen) {
    found->second.gone_msec = expected.gone_msec;
    found->second.unknown_since_msec = expected.unknown_since_msec;
    found->second.started = expected.started;
    return false;
  }
  expected_.erase(found);
  if (fate == Fate::kUncertain) Miss(process, MissReason::kUncertain);
  if (fate != Fate::kLate) return false;
  Miss(process, MissReason::kLate);
  return true;
}

void ExpectedWindows::Finish() {
  absl::MutexLock lock(&mutex_);
  for (const auto& [process, expected] : expected_) {
    // A process that lives and has not started its runtime has missed nothing.
    if (functions_.lives(process) && !expected.started) continue;
    Miss(process, MissReason::kUncertain);
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
