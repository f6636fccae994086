#include "userspace/service/running_attaches.h"

#include <utility>

#include "absl/time/time.h"
#include "userspace/base/clock.h"
#include "userspace/record/settle_target.h"

namespace rocattach {

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
                      NoteNotAttached({{pid, why}});
                    }}),
      requested_([] { return BootNs() / 1'000'000; }) {}

void RunningAttaches::Start(WindowServer* server, KnownLibraries* libraries) {
  attacher_ = std::make_unique<RunningAttacher>(probe_, server, libraries);
  attacher_->set_patience(absl::Milliseconds(options_.idle_patience_msec));
  attacher_->set_returns_unentered(options_.wait_for_start);
  if (options_.use_listeners) {
    listeners_ = std::make_unique<ListenerEntries>();
    attacher_->set_sdk_entry(listeners_.get());
  }
  Start([this](const std::vector<pid_t>& pids) { return attacher_->Attach(pids); });
}

void RunningAttaches::Start(LateAttaches::AttachFunction attach) {
  attaches_ = std::make_unique<LateAttaches>(
      std::move(attach),
      [this](const std::map<pid_t, absl::Status>& failed) {
        NoteUnentered(failed);
        if (observer_ != nullptr) observer_->OnRunningDone();
      },
      [this](const std::map<pid_t, absl::Status>& failed) { NoteUnentered(failed); });
}

void RunningAttaches::Attach(const std::vector<pid_t>& pids) {
  std::vector<pid_t> started = targets_.Started(pids);
  requested_.Add(started);
  attaches_->Request(std::move(started));
}

void RunningAttaches::Poll() {
  std::vector<pid_t> started = targets_.Poll();
  if (started.empty()) return;
  requested_.Add(started);
  attaches_->Request(std::move(started));
}

void RunningAttaches::Stop() {
  if (attaches_ != nullptr) attaches_->Stop();
}

void RunningAttaches::DetachListeners() {
  if (listeners_ != nullptr) listeners_->DetachAll();
}

void RunningAttaches::Enter(const ProcessId& process) {
  attaches_->Enter(process);
}

void RunningAttaches::Retry(const ProcessId& process) {
  // The recorder starts first.
  if (attaches_ != nullptr) attaches_->Retry(process);
}

void RunningAttaches::NoteWindow(pid_t pid) {
  if (options_.wait_for_start) targets_.NoteWindow(pid);
}

void RunningAttaches::OnLateWindow(const rocattach_event& event, bool served) {
  attacher_->OnLateWindow(event, served);
}

void RunningAttaches::NoteVerdict(pid_t pid, const v1::WindowEvent& verdict) {
  targets_.NoteSettled(pid);
  requested_.NoteVerdict(pid, MayBeEnteredLater(verdict));
  changed_.Signal();
}

void RunningAttaches::NoteUnentered(const std::map<pid_t, absl::Status>& failed) {
  std::map<pid_t, absl::Status> final;
  for (const auto& [pid, why] : failed) {
    bool is_new = false;
    if (!absl::IsAborted(why) || !targets_.AwaitSafePoint(pid, why, &is_new)) {
      targets_.NoteSettled(pid);
      final[pid] = why;
    } else if (is_new && observer_ != nullptr) {
      observer_->OnNotStarted(pid, why, /*awaited=*/true);
    }
    requested_.Remove(pid);
  }
  NoteNotAttached(final);
  changed_.Signal();
}

void RunningAttaches::NoteNotAttached(const std::map<pid_t, absl::Status>& failed) {
  for (const auto& [pid, status] : failed) {
    // What has ended meanwhile cannot be told from another process of its number.
    if (const auto ticks = ReadStartTicks(pid); ticks.ok()) {
      history_->NoteNotAttached({pid, *ticks}, status.message());
    }
    if (observer_ != nullptr) observer_->OnNotAttached(pid, status);
  }
}

}  // namespace rocattach
