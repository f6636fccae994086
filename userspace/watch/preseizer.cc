#include "userspace/watch/preseizer.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "userspace/base/clock.h"
#include "userspace/base/process.h"
#include "userspace/base/status_macros.h"
#include "userspace/watch/library_scanner.h"

namespace rocattach {
namespace {

// While processes are seized: their signals wait for this thread at most this long, and
// a thread that they start is seized at most this much later.
constexpr int kKeepPeriodMsec = 1;

// A window's event follows right after its stop. A thread that is stopped without one
// got the signal from elsewhere (a socket's urgent data), so the signal is delivered.
constexpr uint64_t kStrayNs = 100'000'000;

// How long a process stays seized after its window is settled, for late threads that
// start a runtime which the others have already shut down.
constexpr uint64_t kLateNs = 100'000'000;

// A thread that is asked to stop does so in some microseconds, unless it has no CPU or
// is in uninterruptible sleep. Others wait meanwhile.
constexpr uint64_t kStopPatienceNs = 5'000'000;

// The effective user of the process; root's for one that has ended.
uid_t UserOf(pid_t pid) {
  struct stat info = {};
  return stat(absl::StrCat("/proc/", pid).c_str(), &info) == 0 ? info.st_uid : 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Preseizer>> Preseizer::Start(
    std::function<bool(pid_t)> wanted,
    std::function<bool(const rocattach_event&)> is_open, LibraryCache* cache,
    uint32_t patience_msec) {
  auto preseizer = std::unique_ptr<Preseizer>(
      new Preseizer(std::move(wanted), std::move(is_open), cache, patience_msec));
  ASSIGN_OR_RETURN(preseizer->events_, MmapEvents::Open());
  RETURN_IF_ERROR(preseizer->wake_.status());
  preseizer->thread_ = std::thread([raw = preseizer.get()] {
    // A tracee that cannot be detached is released by the end of the thread that seized
    // it.
    for (bool again = true; again;) {
      std::thread([&] { again = raw->Run(); }).join();
    }
  });
  return preseizer;
}

Preseizer::~Preseizer() {
  Stop();
}

void Preseizer::Serve(Window window, AttachRequest request, Done done) {
  Task task = {std::move(window), std::move(request), std::move(done), 0};
  task.deadline_ns = BootNs() + uint64_t{task.request.stop_timeout_msec} * 1'000'000;
  {
    absl::MutexLock lock(&mutex_);
    added_.push_back(std::move(task));
  }
  wake_.Signal();
}

void Preseizer::Forget(pid_t pid) {
  {
    absl::MutexLock lock(&mutex_);
    forgotten_.push_back(pid);
  }
  wake_.Signal();
}

void Preseizer::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  wake_.Signal();
  if (thread_.joinable()) thread_.join();
}

bool Preseizer::Run() {
  tracing_thread_.Adopt();
  sched_param param = {};
  param.sched_priority = 1;
  (void)pthread_setschedparam(pthread_self(), SCHED_FIFO | SCHED_RESET_ON_FORK, &param);
  (void)pthread_setname_np(pthread_self(), "rwa-preseizer");
  std::vector<pollfd> fds;
  fds.push_back({wake_.fd(), POLLIN, 0});
  for (int fd : events_->fds()) fds.push_back({fd, POLLIN, 0});
  bool stopping = false;
  must_exit_ = false;
  while (!stopping && !must_exit_) {
    const bool idle = processes_.empty() && tasks_.empty() && leaving_.empty();
    poll(fds.data(), fds.size(), idle ? -1 : kKeepPeriodMsec);
    wake_.Clear();
    events_->Read([this](const MmapEvent& event) {
      tracing_thread_.AssertOwned();
      OnMmap(event);
    });
    std::vector<pid_t> forgotten;
    stopping = TakeAdded(&forgotten);
    ReleaseLate();
    KeepAll();
    std::erase_if(tasks_, [this](Task& task) {
      tracing_thread_.AssertOwned();
      return TryAttach(&task);
    });
    for (pid_t pid : forgotten) Release(pid);
    if (Tracee::MustLetGo()) ReleaseAll();
  }
  ReleaseAll();
  // The end of this thread releases whatever could not be detached.
  leaving_.clear();
  return !stopping;
}

bool Preseizer::TakeAdded(std::vector<pid_t>* forgotten) {
  absl::MutexLock lock(&mutex_);
  for (Task& task : added_) tasks_.push_back(std::move(task));
  added_.clear();
  *forgotten = std::exchange(forgotten_, {});
  return stopping_;
}

void Preseizer::OnMmap(const MmapEvent& event) {
  if (!LooksLikeHsaRuntime(event.path) || event.pid == getpid()) return;
  if (processes_.contains(event.pid) || !wanted_(event.pid)) return;
  const uid_t uid = UserOf(event.pid);
  if (uid != 0 && !WithinBudget(uid)) return;
  Process& process = processes_[event.pid];
  process.uid = uid;
  process.deadline_ns = BootNs() + uint64_t{patience_msec_} * 1'000'000;
  SeizeThreads(event.pid, &process);
  if (process.threads.empty()) processes_.erase(event.pid);
}

bool Preseizer::WithinBudget(uid_t uid) {
  int seized = 0;
  for (const auto& [pid, process] : processes_) seized += process.uid == uid ? 1 : 0;
  return seized < kMostPerUser && rate_.Take(uid, BootNs());
}

void Preseizer::SeizeThreads(pid_t pid, Process* process) {
  for (pid_t tid : ListThreads(pid).value_or(std::vector<pid_t>())) {
    if (process->threads.contains(tid)) continue;
    // The attached one is loading the collector.
    if (process->settling && static_cast<pid_t>(process->settling->tid) == tid)
      continue;
    auto tracee = std::make_unique<Tracee>();
    // It has exited or has another tracer: its window will be reported as missed.
    if (!tracee->Seize(pid, tid).ok()) continue;
    process->threads[tid].tracee = std::move(tracee);
  }
}

void Preseizer::Release(pid_t pid) {
  auto found = processes_.find(pid);
  if (found == processes_.end()) return;
  for (auto& [tid, thread] : found->second.threads) {
    if (!thread.tracee->TryRelease(kStopPatienceNs)) {
      leaving_.push_back(std::move(thread.tracee));
    }
  }
  processes_.erase(found);
}

void Preseizer::ReleaseAll() {
  while (!processes_.empty()) Release(processes_.begin()->first);
}

void Preseizer::ReleaseLate() {
  std::erase_if(leaving_, [](const std::unique_ptr<Tracee>& tracee) {
    return tracee->TryRelease(0);
  });
}

bool Preseizer::HasTask(pid_t pid) const {
  return std::any_of(tasks_.begin(), tasks_.end(), [pid](const Task& task) {
    return static_cast<pid_t>(task.window.event.pid) == pid;
  });
}

void Preseizer::KeepThreads(Process* process, bool has_window) {
  const uint64_t now = BootNs();
  for (auto entry = process->threads.begin(); entry != process->threads.end();) {
    Thread& thread = entry->second;
    Tracee::Seen seen = Tracee::Seen::kHeld;
    if (!thread.tracee->stopped()) {
      seen = thread.tracee->Keep();
      if (seen == Tracee::Seen::kHeld) thread.held_ns = now;
    } else if (thread.tracee->HasEnded()) {
      seen = Tracee::Seen::kGone;
    } else if (!has_window && now > thread.held_ns + kStrayNs) {
      thread.tracee->Resume(/*deliver=*/true);
    }
    entry =
        seen == Tracee::Seen::kGone ? process->threads.erase(entry) : std::next(entry);
  }
}

void Preseizer::Settle(Process* process) {
  process->settling.reset();
  process->deadline_ns = BootNs() + kLateNs;
  for (auto& [tid, thread] : process->threads) {
    if (thread.tracee->stopped()) thread.tracee->Resume(/*deliver=*/false);
  }
}

void Preseizer::KeepAll() {
  std::vector<pid_t> over;
  uint64_t now = BootNs();
  for (auto& [pid, process] : processes_) {
    SeizeThreads(pid, &process);
    KeepThreads(&process, process.settling.has_value() || HasTask(pid));
    if (process.settling.has_value() && !is_open_(*process.settling)) Settle(&process);
    if (process.threads.empty() || now > process.deadline_ns) over.push_back(pid);
  }
  for (pid_t pid : over) Release(pid);
}

bool Preseizer::TryAttach(Task* task) {
  const rocattach_event event = task->window.event;
  auto process = processes_.find(static_cast<pid_t>(event.pid));
  Tracee* tracee = nullptr;
  if (process != processes_.end()) {
    auto thread = process->second.threads.find(static_cast<pid_t>(event.tid));
    if (thread != process->second.threads.end()) tracee = thread->second.tracee.get();
  }
  AttachOutcome& outcome = task->window.outcome;
  if (tracee != nullptr && !tracee->stopped() && BootNs() < task->deadline_ns)
    return false;
  if (tracee != nullptr && tracee->stopped()) {
    outcome = AttachStopped(task->request, tracee, cache_);
    must_exit_ |= outcome.tracer_must_exit;
    process->second.threads.erase(static_cast<pid_t>(event.tid));
  } else {
    outcome.stage = AttachStage::kStop;
    outcome.reason = AttachReason::kStopTimeout;
    outcome.detail = tracee != nullptr ? "the thread did not stop"
                                       : "the process had been released: hold mode "
                                         "signal keeps a process only for "
                                         "its first hsa_init";
  }
  if (process != processes_.end()) {
    // The others continue when the window is settled: when the collector reports, or
    // now if the attach has failed.
    process->second.settling = event;
    process->second.deadline_ns = task->deadline_ns;
  }
  task->done(std::move(task->window));
  return true;
}

}  // namespace rocattach
