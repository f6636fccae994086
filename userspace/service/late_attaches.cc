#include "userspace/service/late_attaches.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "userspace/base/clock.h"
#include "userspace/base/status_macros.h"
#include "userspace/record/settle_target.h"
#include "userspace/watch/late/running_process.h"

namespace rocattach {
namespace {

// Reading a process takes some milliseconds.
constexpr absl::Duration kReadPatience = absl::Seconds(1);

// An attempt takes some milliseconds besides the wait for a call, and some hundred
// milliseconds on a busy machine. One that ends later still counts.
constexpr uint64_t kMostEnteringMsec = 10'000;

// Adds the descendants of those that live, parents first, each once.
void AddDescendants(std::vector<ProcessId>* processes) {
  std::vector<pid_t> roots;
  for (const ProcessId& process : *processes) {
    if (Lives(process)) roots.push_back(process.pid);
  }
  for (pid_t pid : WithDescendants(roots)) {
    const ProcessId process = IdentityOf(pid);
    const auto known = std::find(processes->begin(), processes->end(), process);
    if (known == processes->end() && Lives(process)) processes->push_back(process);
  }
}

absl::Status EndedBeforeAttach(pid_t pid) {
  return absl::CancelledError(absl::StrCat("the recording ended before process ", pid,
                                           " was entered; it runs on as before"));
}

}  // namespace

LateAttaches::LateAttaches(KernelProbe* probe, ProcessHistory* history,
                           WatcherObserver* observer, Options options)
    : probe_(probe),
      history_(history),
      observer_(observer),
      options_(std::move(options)),
      targets_(
          {.has_window = [probe](const ProcessId& p) { return probe->HasWindow(p); },
           .read_start = [this](const ProcessId& p) { return ReadStart(p); },
           .lives = Lives,
           .now_msec = [] { return BootNs() / 1'000'000; }},
          options_.wait_for_start, options_.wait_timeout_msec),
      readers_("rwa-follow", /*most_per_user=*/1),
      threads_("rwa-late", /*most_per_user=*/1) {}

LateAttaches::~LateAttaches() {
  (void)Stop(absl::Hours(1));
}

absl::StatusOr<RuntimeStart> LateAttaches::ReadStart(const ProcessId& process) {
  const auto start = std::make_shared<absl::StatusOr<RuntimeStart>>();
  const bool is_kept =
      !ReadProcesses(&readers_, kReadPatience, {process.pid}, [start](pid_t pid) {
         *start = ReadRuntimeStart(pid);
       }).empty();
  if (is_kept) return RuntimeStart::kUnknown;
  return *start;
}

absl::Status LateAttaches::FollowOne(const ProcessId& process) {
  auto start = ReadStart(process);
  if (!start.ok() || !Lives(process)) return absl::OkStatus();
  // A process whose runtime is open is attached to late, and has no window.
  const bool starts = *start != RuntimeStart::kStarted;
  if (!starts && !options_.follow_children) return absl::OkStatus();
  return probe_->followed().Add(
      process, {.itself = starts, .children = options_.follow_children});
}

absl::Status LateAttaches::Follow(std::vector<ProcessId>* running) {
  named_.insert(running->begin(), running->end());
  std::set<ProcessId> followed;
  bool grows = true;
  // Children of a followed process are followed from their fork on. A child that was
  // forked before that is found in the next round.
  while (grows) {
    if (options_.follow_children) AddDescendants(running);
    grows = false;
    for (const ProcessId& process : *running) {
      if (!followed.insert(process).second) continue;
      RETURN_IF_ERROR(FollowOne(process));
      grows = options_.follow_children;
    }
  }
  return absl::OkStatus();
}

bool LateAttaches::FollowsAny() const {
  const std::vector<ProcessId> followed = probe_->followed().List();
  return std::any_of(followed.begin(), followed.end(), [](const ProcessId& process) {
    return Lives(process) && CheckIsProcess(process.pid).ok();
  });
}

bool LateAttaches::IsFollowed(pid_t pid) const {
  return probe_->followed().Contains(IdentityOf(pid));
}

void LateAttaches::Start(WindowServer* server, KnownLibraries* libraries) {
  if (options_.use_listeners) listeners_ = std::make_unique<ListenerEntries>();
  Start([this, server, libraries](const std::vector<ProcessId>& processes) {
    return AttachWanted(processes, server, libraries);
  });
}

void LateAttaches::Start(AttachFunction attach) {
  attach_ = std::move(attach);
  started_ = true;
}

std::map<ProcessId, absl::Status> LateAttaches::AttachWanted(
    const std::vector<ProcessId>& processes, WindowServer* server,
    KnownLibraries* libraries) {
  std::vector<ProcessId> wanted;
  for (const ProcessId& process : processes) {
    if (options_.wanted == nullptr || options_.wanted(process)) {
      wanted.push_back(process);
    } else {
      targets_.Remove(process);
      changed_.Signal();
    }
  }
  RunningAttacher attacher(probe_, server, libraries);
  attacher.set_patience(absl::Milliseconds(options_.idle_patience_msec));
  attacher.set_returns_unentered(options_.wait_for_start);
  if (listeners_ != nullptr) attacher.set_sdk_entry(listeners_.get());
  {
    absl::MutexLock lock(&mutex_);
    attachers_.insert(&attacher);
  }
  auto failed = attacher.Attach(wanted);
  absl::MutexLock lock(&mutex_);
  attachers_.erase(&attacher);
  return failed;
}

absl::Status LateAttaches::CheckStarted(const ProcessId& process) {
  const auto status = std::make_shared<absl::Status>();
  const bool is_kept =
      !ReadProcesses(&readers_, kReadPatience, {process.pid}, [status](pid_t pid) {
         *status = CheckRuntimeStarted(pid);
       }).empty();
  if (is_kept) return absl::OkStatus();
  if (absl::IsFailedPrecondition(*status)) return *status;
  // It is no failure if a descendant has ended. Any other error is left to the attach
  // to report.
  if (absl::IsNotFound(*status) && !named_.contains(process)) return *status;
  return absl::OkStatus();
}

bool LateAttaches::HasStarted(const ProcessId& process) {
  absl::Status status = CheckStarted(process);
  if (options_.wait_for_start && status.ok() && !probe_->HasWindow(process) &&
      ReadStart(process).value_or(RuntimeStart::kStarted) == RuntimeStart::kUnknown) {
    status = absl::FailedPreconditionError(
        absl::StrCat("process ", process.pid,
                     " has loaded the HSA runtime, but may not have started it"));
  }
  // If it has a window, that was opened in time.
  if (status.ok()) return !probe_->HasWindow(process);
  const bool awaited = options_.wait_for_start && !absl::IsNotFound(status);
  if (awaited) targets_.AwaitStart(process);
  if (observer_ != nullptr) observer_->OnNotStarted(process.pid, status, awaited);
  return false;
}

void LateAttaches::Attach(const std::vector<ProcessId>& processes) {
  std::vector<ProcessId> started;
  for (const ProcessId& process : processes) {
    if (!follows() || HasStarted(process)) started.push_back(process);
  }
  targets_.Enter(started);
  Add(started, Origin::kNamed);
  if (started.empty() && observer_ != nullptr) observer_->OnRunningDone();
}

void LateAttaches::Enter(const ProcessId& process) {
  Add({process}, Origin::kEntered);
}

void LateAttaches::Retry(const ProcessId& process) {
  // The recorder starts before Start() is called.
  if (started_ && targets_.Retry(process)) Add({process}, Origin::kRetried);
}

void LateAttaches::Add(const std::vector<ProcessId>& processes, Origin origin) {
  std::map<uid_t, std::vector<Waiting>> users;
  for (const ProcessId& process : processes) {
    users[UserOf(process.pid)].push_back({process, origin});
  }
  std::vector<uid_t> first;
  {
    absl::MutexLock lock(&mutex_);
    if (stopped_) return;
    if (origin == Origin::kNamed) unanswered_ += processes.size();
    for (const auto& [uid, added] : users) {
      std::vector<Waiting>& waiting = waiting_[uid];
      if (waiting.empty()) first.push_back(uid);
      waiting.insert(waiting.end(), added.begin(), added.end());
    }
  }
  for (uid_t uid : first) {
    if (threads_.Run(uid, [this, uid] { RunBatch(uid); })) continue;
    // At a limit on threads, or stopped just now.
    std::map<ProcessId, absl::Status> failed;
    const std::vector<Waiting> batch = TakeWaiting(uid);
    for (const Waiting& one : batch) {
      failed[one.process] = absl::ResourceExhaustedError(absl::StrCat(
          "process ", one.process.pid,
          " was not attached to, because no thread could be started for that; it runs "
          "on as before"));
    }
    Answer(batch, failed);
  }
}

std::vector<LateAttaches::Waiting> LateAttaches::TakeWaiting(uid_t uid) {
  absl::MutexLock lock(&mutex_);
  auto batch = waiting_.extract(uid);
  return batch.empty() ? std::vector<Waiting>() : std::move(batch.mapped());
}

void LateAttaches::RunBatch(uid_t uid) {
  std::vector<Waiting> batch = TakeWaiting(uid);
  // What happened to the others since is the answer to the user who named them.
  std::erase_if(batch, [](const Waiting& one) {
    return one.origin != Origin::kNamed && !Lives(one.process);
  });
  if (batch.empty()) return;
  std::set<ProcessId> processes;
  for (const Waiting& one : batch) processes.insert(one.process);
  Answer(batch, attach_({processes.begin(), processes.end()}));
}

void LateAttaches::Answer(const std::vector<Waiting>& batch,
                          const std::map<ProcessId, absl::Status>& failed) {
  absl::MutexLock report(&report_mutex_);
  size_t named = 0;
  for (const auto& [process, origin] : batch) {
    if (origin == Origin::kNamed) ++named;
    const auto status = failed.find(process);
    // A process that is retried has had its verdict at its window.
    if (status == failed.end() || origin == Origin::kRetried) continue;
    OnUnentered(process, status->second);
  }
  changed_.Signal();
  if (named == 0) return;
  {
    absl::MutexLock lock(&mutex_);
    unanswered_ -= named;
    if (unanswered_ > 0) return;
  }
  if (observer_ != nullptr) observer_->OnRunningDone();
}

void LateAttaches::GiveUpOverdue(uint64_t msec, absl::Status (*reason)(pid_t pid)) {
  const std::vector<ProcessId> overdue = targets_.TakeOverdue(msec);
  if (overdue.empty()) return;
  for (const ProcessId& process : overdue) OnNotAttached(process, reason(process.pid));
  if (targets_.settled() && observer_ != nullptr) observer_->OnRunningDone();
  changed_.Signal();
}

void LateAttaches::Poll() {
  GiveUpOverdue(options_.idle_patience_msec + kMostEnteringMsec, KeepsReadersWaiting);
  const LateTargets::Changes changes = targets_.Poll();
  for (const ProcessId& process : changes.loaded) options_.on_loaded(process);
  for (const auto& [process, why] : changes.given_up) OnNotAttached(process, why);
  Add(changes.to_enter, Origin::kNamed);
}

void LateAttaches::CancelWaiting() {
  std::map<uid_t, std::vector<Waiting>> waiting;
  {
    absl::MutexLock lock(&mutex_);
    waiting.swap(waiting_);
  }
  for (const auto& [uid, batch] : waiting) {
    std::map<ProcessId, absl::Status> cancelled;
    for (const Waiting& one : batch) {
      if (one.origin != Origin::kNamed) continue;
      cancelled[one.process] = EndedBeforeAttach(one.process.pid);
    }
    Answer(batch, cancelled);
  }
}

bool LateAttaches::Stop(absl::Duration patience) {
  {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
  }
  const bool all_ended = threads_.Stop(patience);
  CancelWaiting();
  if (!all_ended) GiveUpOverdue(0, EndedBeforeAttach);
  return all_ended;
}

void LateAttaches::BeginDetachListeners(
    const std::function<void(const ProcessId&)>& before) {
  if (listeners_ != nullptr) listeners_->BeginDetach(before);
}

void LateAttaches::DetachListeners() {
  if (listeners_ != nullptr) listeners_->DetachAll();
}

void LateAttaches::OnLateWindow(const rocattach_event& event, bool served) {
  absl::MutexLock lock(&mutex_);
  for (RunningAttacher* attacher : attachers_) attacher->OnLateWindow(event, served);
}

void LateAttaches::OnVerdict(const v1::Process& process,
                             const v1::WindowEvent& verdict) {
  targets_.OnVerdict({static_cast<pid_t>(process.pid()), process.start_ticks()},
                     MayBeEnteredLater(verdict));
  if (verdict.state() == v1::WINDOW_STATE_ATTACHED && first_attach_ns_ == 0) {
    // The verdict may come late. Without a release time no thread was stopped.
    first_attach_ns_ =
        verdict.released_ns() != 0 ? verdict.released_ns() : verdict.time_ns();
  }
  changed_.Signal();
}

void LateAttaches::OnUnentered(const ProcessId& process, const absl::Status& why) {
  switch (targets_.OnUnentered(process, why)) {
    case LateTargets::Next::kForgotten:
      return OnNotAttached(process, why);
    case LateTargets::Next::kAwaited:
      if (observer_ != nullptr) {
        observer_->OnNotStarted(process.pid, why, /*awaited=*/true);
      }
      return;
    case LateTargets::Next::kStillAwaited:
      return;
  }
}

void LateAttaches::OnNotAttached(const ProcessId& process, const absl::Status& why) {
  // Of a process that had ended before it was identified, there is no history.
  if (process.start_ticks != 0) history_->OnNotAttached(process, why.message());
  if (observer_ != nullptr) observer_->OnNotAttached(process.pid, why);
}

}  // namespace rocattach
