#include "userspace/service/running_attaches.h"

#include <utility>

#include "absl/time/time.h"
#include "userspace/base/clock.h"
#include "userspace/base/user_threads.h"
#include "userspace/record/settle_target.h"

namespace rocattach {
namespace {

// An attempt takes some milliseconds besides the wait for a call, and some hundred
// milliseconds on a busy machine. One that ends later still counts.
constexpr uint64_t kMostEnteringMsec = 10'000;

}  // namespace

RunningAttaches::RunningAttaches(KernelProbe* probe, ProcessHistory* history,
                                 WatcherObserver* observer, Options options)
    : probe_(probe),
      history_(history),
      observer_(observer),
      options_(std::move(options)),
      targets_(probe,
               {.wait = options_.wait_for_start,
                .wait_timeout_msec = options_.wait_timeout_msec,
                .children = options_.follow_children,
                .on_not_started =
                    [observer](pid_t pid, const absl::Status& why, bool awaited) {
                      if (observer != nullptr)
                        observer->OnNotStarted(pid, why, awaited);
                    },
                .on_loaded = options_.on_loaded,
                .on_given_up =
                    [this](pid_t pid, const absl::Status& why) {
                      OnNotAttached({{pid, why}});
                    }}),
      requested_([] { return BootNs() / 1'000'000; }) {}

void RunningAttaches::Start(WindowServer* server, KnownLibraries* libraries) {
  if (options_.use_listeners) listeners_ = std::make_unique<ListenerEntries>();
  Start([this, server, libraries](const std::vector<pid_t>& pids) {
    RunningAttacher attacher(probe_, server, libraries);
    attacher.set_patience(absl::Milliseconds(options_.idle_patience_msec));
    attacher.set_returns_unentered(options_.wait_for_start);
    if (listeners_ != nullptr) attacher.set_sdk_entry(listeners_.get());
    {
      absl::MutexLock lock(&mutex_);
      attachers_.insert(&attacher);
    }
    auto failed = attacher.Attach(Wanted(pids));
    absl::MutexLock lock(&mutex_);
    attachers_.erase(&attacher);
    return failed;
  });
}

void RunningAttaches::Start(LateAttaches::AttachFunction attach) {
  attaches_ = std::make_unique<LateAttaches>(
      std::move(attach),
      [this](const std::map<pid_t, absl::Status>& failed, bool is_last) {
        OnUnentered(failed);
        if (is_last && observer_ != nullptr) observer_->OnRunningDone();
      },
      [this](const std::map<pid_t, absl::Status>& failed) { OnUnentered(failed); });
}

void RunningAttaches::Attach(const std::vector<pid_t>& pids) {
  std::vector<pid_t> started = targets_.Started(pids);
  requested_.Add(started);
  attaches_->Request(std::move(started));
}

std::vector<pid_t> RunningAttaches::Wanted(const std::vector<pid_t>& pids) {
  std::vector<pid_t> wanted;
  for (pid_t pid : pids) {
    if (options_.wanted == nullptr || options_.wanted(pid)) {
      wanted.push_back(pid);
    } else {
      requested_.Remove(pid);
      changed_.Signal();
    }
  }
  return wanted;
}

void RunningAttaches::GiveUpOverdue(uint64_t msec, absl::Status (*reason)(pid_t pid)) {
  std::map<pid_t, absl::Status> overdue;
  for (pid_t pid : requested_.TakeOverdue(msec)) overdue[pid] = reason(pid);
  if (overdue.empty()) return;
  OnNotAttached(overdue);
  if (requested_.settled() && observer_ != nullptr) observer_->OnRunningDone();
  changed_.Signal();
}

void RunningAttaches::Poll() {
  GiveUpOverdue(options_.idle_patience_msec + kMostEnteringMsec, KeepsReadersWaiting);
  std::vector<pid_t> started = targets_.Poll();
  if (started.empty()) return;
  requested_.Add(started);
  attaches_->Request(std::move(started));
}

bool RunningAttaches::Stop(absl::Duration patience) {
  if (attaches_ == nullptr || attaches_->Stop(patience)) return true;
  GiveUpOverdue(0, EndedBeforeAttach);
  return false;
}

size_t RunningAttaches::KeptThreads(absl::Duration than) const {
  return attaches_ == nullptr ? 0 : attaches_->Kept(than);
}

void RunningAttaches::BeginDetachListeners(const std::function<void(pid_t)>& before) {
  if (listeners_ != nullptr) listeners_->BeginDetach(before);
}

void RunningAttaches::DetachListeners() {
  if (listeners_ != nullptr) listeners_->DetachAll();
}

void RunningAttaches::Enter(const ProcessId& process) {
  attaches_->Enter(process);
}

void RunningAttaches::Retry(const ProcessId& process) {
  // The recorder starts before Start() is called.
  if (attaches_ != nullptr) attaches_->Retry(process);
}

void RunningAttaches::OnWindow(pid_t pid) {
  if (options_.wait_for_start) targets_.OnWindow(pid);
}

void RunningAttaches::OnLateWindow(const rocattach_event& event, bool served) {
  absl::MutexLock lock(&mutex_);
  for (RunningAttacher* attacher : attachers_) attacher->OnLateWindow(event, served);
}

void RunningAttaches::OnVerdict(const v1::Process& process,
                                const v1::WindowEvent& verdict) {
  const auto pid = static_cast<pid_t>(process.pid());
  targets_.OnSettled(pid);
  requested_.OnVerdict(pid, MayBeEnteredLater(verdict));
  if (verdict.state() == v1::WINDOW_STATE_ATTACHED && first_attach_ns_ == 0) {
    // The verdict may come late. Without a release time no thread was stopped.
    first_attach_ns_ =
        verdict.released_ns() != 0 ? verdict.released_ns() : verdict.time_ns();
  }
  changed_.Signal();
}

void RunningAttaches::OnUnentered(const std::map<pid_t, absl::Status>& failed) {
  std::map<pid_t, absl::Status> final;
  for (const auto& [pid, why] : failed) {
    bool is_new = false;
    if (!absl::IsAborted(why) || !targets_.AwaitSafePoint(pid, why, &is_new)) {
      targets_.OnSettled(pid);
      final[pid] = why;
    } else if (is_new && observer_ != nullptr) {
      observer_->OnNotStarted(pid, why, /*awaited=*/true);
    }
    requested_.Remove(pid);
  }
  OnNotAttached(final);
  changed_.Signal();
}

void RunningAttaches::OnNotAttached(const std::map<pid_t, absl::Status>& failed) {
  for (const auto& [pid, status] : failed) {
    // A process that has ended meanwhile cannot be told from a later one with its ID.
    if (const auto ticks = ReadStartTicks(pid); ticks.ok()) {
      history_->OnNotAttached({pid, *ticks}, status.message());
    }
    if (observer_ != nullptr) observer_->OnNotAttached(pid, status);
  }
}

}  // namespace rocattach
