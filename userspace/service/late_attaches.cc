#include "userspace/service/late_attaches.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace rocattach {
namespace {

// Processes that were retried and are remembered.
constexpr size_t kMostRetried = 4096;

// Those that have not ended.
std::vector<pid_t> Living(const std::vector<ProcessId>& processes) {
  std::vector<pid_t> living;
  for (const ProcessId& process : processes) {
    auto ticks = ReadStartTicks(process.pid);
    if (ticks.ok() && *ticks == process.start_ticks) living.push_back(process.pid);
  }
  return living;
}

}  // namespace

LateAttaches::LateAttaches(AttachFunction attach, DoneFunction done,
                           DoneFunction failed)
    : attach_(std::move(attach)),
      done_(std::move(done)),
      failed_(std::move(failed)),
      thread_([this] { Run(); }) {}

LateAttaches::~LateAttaches() {
  Stop();
}

void LateAttaches::Request(std::vector<pid_t> pids) {
  absl::MutexLock lock(&mutex_);
  requested_.insert(requested_.end(), pids.begin(), pids.end());
  request_pending_ = true;
}

void LateAttaches::Retry(ProcessId process) {
  absl::MutexLock lock(&mutex_);
  if (std::find(retried_.begin(), retried_.end(), process) != retried_.end()) return;
  if (retried_.size() == kMostRetried) retried_.erase(retried_.begin());
  retried_.push_back(process);
  retries_.push_back(process);
}

void LateAttaches::Enter(ProcessId process) {
  absl::MutexLock lock(&mutex_);
  to_enter_.push_back(process);
}

void LateAttaches::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

void LateAttaches::Run() {
  for (;;) {
    std::vector<pid_t> requested, retried, entered;
    bool report = false;
    {
      absl::MutexLock lock(&mutex_);
      auto has_work = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
        return stopping_ || request_pending_ || !retries_.empty() || !to_enter_.empty();
      };
      mutex_.Await(absl::Condition(&has_work));
      if (stopping_) break;
      report = std::exchange(request_pending_, false);
      requested.swap(requested_);
      retried = Living(std::exchange(retries_, {}));
      entered = Living(std::exchange(to_enter_, {}));
    }
    if (report) done_(attach_(requested));
    // What cannot be entered has had its verdict at its window.
    if (!retried.empty()) (void)attach_(retried);
    if (!entered.empty()) {
      const auto failed = attach_(entered);
      if (failed_ != nullptr && !failed.empty()) failed_(failed);
    }
  }
  CancelRest();
}

void LateAttaches::CancelRest() {
  std::map<pid_t, absl::Status> cancelled;
  {
    absl::MutexLock lock(&mutex_);
    if (!std::exchange(request_pending_, false)) return;
    for (pid_t pid : std::exchange(requested_, {})) {
      cancelled[pid] =
          absl::CancelledError(absl::StrCat("the recording ended before process ", pid,
                                            " was entered; it runs on as before"));
    }
  }
  done_(cancelled);
}

}  // namespace rocattach
