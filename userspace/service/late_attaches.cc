#include "userspace/service/late_attaches.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

namespace rocattach {

absl::Status EndedBeforeAttach(pid_t pid) {
  return absl::CancelledError(absl::StrCat("the recording ended before process ", pid,
                                           " was entered; it runs on as before"));
}

namespace {

// Maximum number of retried processes that are remembered.
constexpr size_t kMostRetried = 4096;

// The processes that have not ended.
std::vector<pid_t> Living(const std::vector<ProcessId>& processes) {
  std::vector<pid_t> living;
  for (const ProcessId& process : processes) {
    auto ticks = ReadStartTicks(process.pid);
    if (ticks.ok() && *ticks == process.start_ticks) living.push_back(process.pid);
  }
  return living;
}

std::map<pid_t, absl::Status> Cancelled(const std::vector<pid_t>& pids) {
  std::map<pid_t, absl::Status> cancelled;
  for (pid_t pid : pids) {
    cancelled[pid] = EndedBeforeAttach(pid);
  }
  return cancelled;
}

std::map<uid_t, std::vector<pid_t>> ByUser(const std::vector<pid_t>& pids) {
  std::map<uid_t, std::vector<pid_t>> users;
  for (pid_t pid : pids) users[UserOf(pid)].push_back(pid);
  return users;
}

}  // namespace

LateAttaches::LateAttaches(AttachFunction attach, DoneFunction done,
                           FailedFunction failed)
    : attach_(std::move(attach)),
      done_(std::move(done)),
      failed_(std::move(failed)),
      threads_("rwa-late", /*most_per_user=*/1),
      thread_([this] { Run(); }) {}

LateAttaches::~LateAttaches() {
  (void)Stop(absl::Hours(1));
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

bool LateAttaches::Stop(absl::Duration patience) {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  // This thread waits for no process.
  if (thread_.joinable()) thread_.join();
  return threads_.Stop(patience);
}

void LateAttaches::ReportDone(const std::map<pid_t, absl::Status>& failed,
                              bool is_last) {
  absl::MutexLock lock(&report_mutex_);
  done_(failed, is_last);
}

// The requested processes of one user. Reports even if it never begins: when destroyed.
class LateAttaches::Batch {
 public:
  Batch(LateAttaches* late, std::vector<pid_t> pids,
        std::shared_ptr<std::atomic<size_t>> left)
      : late_(late), pids_(std::move(pids)), left_(std::move(left)) {}
  ~Batch() {
    if (!begun_) Report(Cancelled(pids_));
  }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  void Attach() {
    begun_ = true;
    Report(late_->attach_(pids_));
  }

 private:
  void Report(const std::map<pid_t, absl::Status>& failed) {
    late_->ReportDone(failed, /*is_last=*/--*left_ == 0);
  }

  LateAttaches* const late_;
  const std::vector<pid_t> pids_;
  const std::shared_ptr<std::atomic<size_t>> left_;  // batches without a report
  bool begun_ = false;
};

void LateAttaches::AttachRequested(const std::vector<pid_t>& pids) {
  const auto users = ByUser(pids);
  if (users.empty()) return ReportDone({}, /*is_last=*/true);
  auto left = std::make_shared<std::atomic<size_t>>(users.size());
  for (const auto& [uid, of_user] : users) {
    auto batch = std::make_shared<Batch>(this, of_user, left);
    (void)threads_.Run(uid, [batch] { batch->Attach(); });
  }
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
    if (report) AttachRequested(requested);
    for (const auto& [uid, pids] : ByUser(retried)) {
      // A process that cannot be entered has had its verdict at its window.
      (void)threads_.Run(uid, [this, pids = pids] { (void)attach_(pids); });
    }
    for (const auto& [uid, pids] : ByUser(entered)) {
      (void)threads_.Run(uid, [this, pids = pids] {
        const auto failed = attach_(pids);
        absl::MutexLock lock(&report_mutex_);
        if (failed_ != nullptr && !failed.empty()) failed_(failed);
      });
    }
  }
  CancelRest();
}

void LateAttaches::CancelRest() {
  std::map<pid_t, absl::Status> cancelled;
  {
    absl::MutexLock lock(&mutex_);
    if (!std::exchange(request_pending_, false)) return;
    cancelled = Cancelled(std::exchange(requested_, {}));
  }
  ReportDone(cancelled, /*is_last=*/true);
}

}  // namespace rocattach
