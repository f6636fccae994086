#include "userspace/service/late_targets.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace rocattach {

void LateTargets::AwaitStart(const ProcessId& process) {
  absl::MutexLock lock(&mutex_);
  Target& target = targets_[process] = {};
  target.state = State::kAwaitsStart;
  target.since_msec = functions_.now_msec();
}

void LateTargets::BeginEntering(Target* target) const {
  target->state = State::kEntering;
  target->since_msec = functions_.now_msec();
  target->final_msec = 0;
}

void LateTargets::Enter(const std::vector<ProcessId>& processes) {
  absl::MutexLock lock(&mutex_);
  for (const ProcessId& process : processes) BeginEntering(&targets_[process]);
}

bool LateTargets::Retry(const ProcessId& process) {
  absl::MutexLock lock(&mutex_);
  if (std::find(retried_.begin(), retried_.end(), process) != retried_.end()) {
    return false;
  }
  retried_.push_back(process);
  if (retried_.size() > kMostRetried) retried_.pop_front();
  return true;
}

void LateTargets::OnWindow(const ProcessId& process) {
  absl::MutexLock lock(&mutex_);
  const auto found = targets_.find(process);
  if (found == targets_.end() || found->second.state != State::kAwaitsStart) return;
  targets_.erase(found);
}

void LateTargets::OnVerdict(const ProcessId& process, bool retried) {
  absl::MutexLock lock(&mutex_);
  const auto found = targets_.find(process);
  if (found == targets_.end()) return;
  Target& target = found->second;
  if (target.state == State::kAwaitsStart) return;
  const bool was_entering = target.state == State::kEntering;
  if (was_entering) last_settled_msec_ = functions_.now_msec();
  if (was_entering && retried && target.final_msec == 0) {
    target.final_msec = functions_.now_msec() + kRetryMsec;
    target.attempts = {};
  } else {
    targets_.erase(found);
  }
}

LateTargets::Next LateTargets::OnUnentered(const ProcessId& process,
                                           const absl::Status& why) {
  const bool tries_again = waits_ && absl::IsAborted(why) && functions_.lives(process);
  absl::MutexLock lock(&mutex_);
  const uint64_t now = functions_.now_msec();
  if (const auto found = targets_.find(process); found != targets_.end()) {
    if (found->second.state == State::kEntering) last_settled_msec_ = now;
    if (!tries_again) targets_.erase(found);
  }
  if (!tries_again) return Next::kForgotten;
  Target& target = targets_[process];
  target.state = State::kAwaitsSafePoint;
  target.since_msec = now;
  Attempts& attempts = target.attempts;
  const bool is_first = attempts.pause_msec == 0;
  if (is_first) attempts.since_msec = now;
  attempts.pause_msec =
      is_first ? kFirstPauseMsec : std::min(2 * attempts.pause_msec, kLongestPauseMsec);
  attempts.due_msec = now + attempts.pause_msec;
  attempts.why = std::string(why.message());
  return is_first ? Next::kAwaited : Next::kStillAwaited;
}

void LateTargets::Remove(const ProcessId& process) {
  absl::MutexLock lock(&mutex_);
  if (targets_.erase(process) != 0) last_settled_msec_ = functions_.now_msec();
}

std::vector<ProcessId> LateTargets::TakeOverdue(uint64_t msec) {
  std::vector<ProcessId> overdue;
  absl::MutexLock lock(&mutex_);
  const uint64_t now = functions_.now_msec(), settled = last_settled_msec_;
  std::erase_if(targets_, [&](const auto& entry) {
    const auto& [process, target] = entry;
    if (target.state != State::kEntering) return false;
    // It has its verdict; the retry has brought no other one.
    if (target.final_msec != 0) return now >= target.final_msec;
    if (now - std::max(target.since_msec, settled) < msec) return false;
    overdue.push_back(process);
    return true;
  });
  return overdue;
}

bool LateTargets::settled() const {
  absl::MutexLock lock(&mutex_);
  const uint64_t now = functions_.now_msec();
  return std::none_of(targets_.begin(), targets_.end(), [now](const auto& entry) {
    const Target& target = entry.second;
    return target.state == State::kEntering &&
           (target.final_msec == 0 || now < target.final_msec);
  });
}

bool LateTargets::waits() const {
  absl::MutexLock lock(&mutex_);
  return std::any_of(targets_.begin(), targets_.end(), [](const auto& entry) {
    const Target& target = entry.second;
    return target.state != State::kEntering || target.attempts.pause_msec != 0;
  });
}

std::vector<ProcessId> LateTargets::InState(State state) const {
  std::vector<ProcessId> in_state;
  absl::MutexLock lock(&mutex_);
  for (const auto& [process, target] : targets_) {
    if (target.state == state) in_state.push_back(process);
  }
  return in_state;
}

LateTargets::Changes LateTargets::Poll() {
  Changes changes;
  const std::vector<ProcessId> without_start = InState(State::kAwaitsStart);
  const std::vector<ProcessId> without_safe_point = InState(State::kAwaitsSafePoint);
  for (const ProcessId& process : without_start) PollStart(process, &changes);
  for (const ProcessId& process : without_safe_point) PollSafePoint(process, &changes);
  return changes;
}

bool LateTargets::CountsAsStarted(RuntimeStart start, Target* target) const {
  if (start != RuntimeStart::kUnknown) {
    target->unknown_since_msec = 0;
    return start == RuntimeStart::kStarted;
  }
  const uint64_t now = functions_.now_msec();
  if (target->unknown_since_msec == 0) target->unknown_since_msec = now;
  return now - target->unknown_since_msec >= kLoadingMsec;
}

bool LateTargets::IsOverdue(uint64_t since_msec) const {
  return timeout_msec_ != 0 && functions_.now_msec() - since_msec >= timeout_msec_;
}

void LateTargets::PollStart(const ProcessId& process, Changes* changes) {
  // In this order: a runtime that is open and has no window afterwards never had one.
  const auto start = functions_.read_start(process);
  const bool lives = functions_.lives(process) && start.ok();
  const bool has_window = functions_.has_window(process);
  absl::MutexLock lock(&mutex_);
  const auto found = targets_.find(process);
  if (found == targets_.end() || found->second.state != State::kAwaitsStart) return;
  Target& target = found->second;
  if (has_window) {
    targets_.erase(found);  // its verdict reports the rest
  } else if (!lives) {
    if (!std::exchange(target.gone, true)) return;
    changes->given_up[process] = absl::NotFoundError(absl::StrCat(
        "process ", process.pid, " has ended without starting its HSA runtime"));
    targets_.erase(found);
  } else if (CountsAsStarted(*start, &target)) {
    changes->to_enter.push_back(process);
    BeginEntering(&target);
  } else if (IsOverdue(target.since_msec)) {
    changes->given_up[process] = absl::DeadlineExceededError(absl::StrCat(
        "process ", process.pid, " has not started its HSA runtime within ",
        timeout_msec_, " ms; it runs on as before"));
    targets_.erase(found);
  } else if (*start != RuntimeStart::kNotLoaded &&
             !std::exchange(target.loaded, true)) {
    changes->loaded.push_back(process);
  }
}

void LateTargets::PollSafePoint(const ProcessId& process, Changes* changes) {
  const bool lives = functions_.lives(process);
  absl::MutexLock lock(&mutex_);
  const auto found = targets_.find(process);
  if (found == targets_.end() || found->second.state != State::kAwaitsSafePoint) return;
  Target& target = found->second;
  const Attempts& attempts = target.attempts;
  if (!lives) {
    changes->given_up[process] = absl::NotFoundError(
        absl::StrCat("process ", process.pid,
                     " has ended, and could not be entered before: ", attempts.why));
    targets_.erase(found);
  } else if (IsOverdue(attempts.since_msec)) {
    changes->given_up[process] = absl::DeadlineExceededError(
        absl::StrCat("process ", process.pid, " could not be entered within ",
                     timeout_msec_, " ms: ", attempts.why, "; it runs on as before"));
    targets_.erase(found);
  } else if (functions_.now_msec() >= attempts.due_msec) {
    changes->to_enter.push_back(process);
    BeginEntering(&target);
  }
}

}  // namespace rocattach
