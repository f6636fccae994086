#include "userspace/watch/windows/seized_processes.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/time/clock.h"
#include "userspace/base/clock.h"
#include "userspace/base/process.h"

namespace rocattach {
namespace {

// Period of checks while processes are seized: their signals wait for this thread at
// most this long, and a thread that they start is seized at most this much later.
constexpr uint64_t kKeepPeriodNs = 1'000'000;

// A window's event follows right after its stop. A thread that is stopped without one
// got the signal from elsewhere (a socket's urgent data), so the signal is delivered.
constexpr uint64_t kStrayNs = 100'000'000;

// Time for which a process stays seized after its window is settled, for late threads
// that start a runtime which the others have already shut down.
constexpr uint64_t kLateNs = 100'000'000;

// A thread that is asked to stop does so in some microseconds, unless it has no CPU or
// is in uninterruptible sleep. All other work waits meanwhile.
constexpr uint64_t kSeizedPatienceNs = 5'000'000;

constexpr int kSeizerPriority = 1;
constexpr absl::Duration kNoThreadPause = absl::Milliseconds(10);

}  // namespace

SeizedProcesses::SeizedProcesses(const Options& options) : options_(options) {
  thread_ = TaskThread(kSeizerPriority, "rwa-seizer", [this] {
    // A tracee that cannot be detached is released by the end of the thread that seized
    // it.
    for (bool again = true; again;) {
      TaskThread thread(kSeizerPriority, "rwa-seizer", [&] { again = Run(); });
      if (thread.joinable()) {
        thread.join();
        continue;
      }
      // No thread can be created now.
      absl::SleepFor(kNoThreadPause);
      absl::MutexLock lock(&mutex_);
      again = !stopping_;
    }
  });
}

SeizedProcesses::~SeizedProcesses() {
  Stop();
}

bool SeizedProcesses::Seize(const ProcessId& process) {
  {
    absl::MutexLock lock(&mutex_);
    if (added_.to_seize.size() >= kMostWaiting) return false;
    added_.to_seize.push_back(process);
  }
  wake_.Signal();
  return true;
}

std::optional<Window> SeizedProcesses::Serve(Window window, AttachRequest request,
                                             Done done) {
  Task task = {std::move(window), std::move(request), std::move(done), 0};
  task.deadline_ns = BootNs() + uint64_t{task.request.stop_timeout_msec} * 1'000'000;
  {
    absl::ReleasableMutexLock lock(&mutex_);
    if (added_.tasks.size() < kMostWaiting) {
      added_.tasks.push_back(std::move(task));
      lock.Release();
      wake_.Signal();
      return std::nullopt;
    }
  }
  task.window.outcome.stage = AttachStage::kStop;
  task.window.outcome.reason = AttachReason::kStopTimeout;
  task.window.outcome.detail =
      "the process keeps the thread waiting that attaches to it";
  return std::move(task.window);
}

void SeizedProcesses::Forget(const ProcessId& process) {
  {
    absl::MutexLock lock(&mutex_);
    added_.forgotten.push_back(process);
  }
  wake_.Signal();
}

bool SeizedProcesses::idle() const {
  absl::MutexLock lock(&mutex_);
  return idle_ && added_.empty();
}

bool SeizedProcesses::IsKept(absl::Duration than) const {
  const uint64_t since_ns = busy_ns_;
  return since_ns != 0 && absl::Nanoseconds(ElapsedNs(since_ns, BootNs())) > than;
}

void SeizedProcesses::RequestStop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  wake_.Signal();
}

void SeizedProcesses::Stop() {
  RequestStop();
  if (thread_.joinable()) thread_.join();
}

bool SeizedProcesses::Run() {
  tracing_thread_.Adopt();
  bool stopping = false;
  must_exit_ = false;
  while (!stopping && !must_exit_) {
    Added added;
    stopping = Wait(processes_.empty() && tasks_.empty() && leaving_.empty(), &added);
    busy_ns_ = BootNs();
    for (const ProcessId& process : added.to_seize) SeizeNew(process);
    for (Task& task : added.tasks) tasks_.push_back(std::move(task));
    ReleaseLate();
    KeepAll();
    std::erase_if(tasks_, [this](Task& task) {
      tracing_thread_.AssertOwned();
      return TryAttach(&task);
    });
    for (const ProcessId& process : added.forgotten) Release(process);
    if (Tracee::MustLetGo()) ReleaseAll();
    busy_ns_ = 0;
  }
  ReleaseAll();
  // The end of this thread releases tracees that could not be detached.
  leaving_.clear();
  return !stopping;
}

bool SeizedProcesses::Wait(bool idle, Added* added) {
  {
    absl::MutexLock lock(&mutex_);
    idle_ = idle;
  }
  (void)wake_.WaitFor(idle ? WakeEvent::kForever : kKeepPeriodNs);
  absl::MutexLock lock(&mutex_);
  *added = std::exchange(added_, {});
  idle_ = idle && added->empty();
  return stopping_;
}

void SeizedProcesses::SeizeNew(const ProcessId& id) {
  if (processes_.contains(id)) return;
  Process& process = processes_[id];
  process.deadline_ns = BootNs() + uint64_t{options_.patience_msec} * 1'000'000;
  SeizeThreads(id.pid, &process);
  // The threads of a later process with its ID are not kept.
  if (process.threads.empty() || !Lives(id)) Release(id);
}

void SeizedProcesses::SeizeThreads(pid_t pid, Process* process) {
  for (pid_t tid : ListThreads(pid).value_or(std::vector<pid_t>())) {
    if (process->threads.contains(tid)) continue;
    // The attached thread is loading the collector.
    if (process->settling && static_cast<pid_t>(process->settling->tid) == tid)
      continue;
    auto tracee = std::make_unique<Tracee>();
    // It has exited or has another tracer: a window of it will be reported as missed.
    if (!tracee->Seize(pid, tid).ok()) continue;
    process->threads[tid].tracee = std::move(tracee);
  }
}

void SeizedProcesses::Release(ProcessId process) {
  auto found = processes_.find(process);
  if (found == processes_.end()) return;
  for (auto& [tid, thread] : found->second.threads) {
    if (!thread.tracee->TryRelease(kSeizedPatienceNs)) {
      leaving_.push_back(std::move(thread.tracee));
    }
  }
  processes_.erase(found);
  options_.on_released(process);
}

void SeizedProcesses::ReleaseAll() {
  while (!processes_.empty()) Release(processes_.begin()->first);
}

void SeizedProcesses::ReleaseLate() {
  std::erase_if(leaving_, [](const std::unique_ptr<Tracee>& tracee) {
    return tracee->TryRelease(0);
  });
}

bool SeizedProcesses::HasTask(const ProcessId& process) const {
  return std::any_of(tasks_.begin(), tasks_.end(), [&process](const Task& task) {
    return ProcessIdOf(task.window.event) == process;
  });
}

void SeizedProcesses::KeepThreads(Process* process, bool has_window) {
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

void SeizedProcesses::Settle(Process* process) {
  process->settling.reset();
  process->deadline_ns = BootNs() + kLateNs;
  for (auto& [tid, thread] : process->threads) {
    if (thread.tracee->stopped()) thread.tracee->Resume(/*deliver=*/false);
  }
}

void SeizedProcesses::KeepAll() {
  std::vector<ProcessId> over;
  uint64_t now = BootNs();
  for (auto& [id, process] : processes_) {
    KeepThreads(&process, process.settling.has_value() || HasTask(id));
    if (process.settling.has_value() && !options_.is_open(*process.settling))
      Settle(&process);
    if (process.threads.empty() || now > process.deadline_ns) {
      over.push_back(id);
    } else {
      // Only now: as long as it has a tracee, no other process has its ID.
      SeizeThreads(id.pid, &process);
    }
  }
  for (const ProcessId& id : over) Release(id);
}

bool SeizedProcesses::TryAttach(Task* task) {
  const rocattach_event event = task->window.event;
  auto process = processes_.find(ProcessIdOf(event));
  Tracee* tracee = nullptr;
  if (process != processes_.end()) {
    auto thread = process->second.threads.find(static_cast<pid_t>(event.tid));
    if (thread != process->second.threads.end()) tracee = thread->second.tracee.get();
  }
  AttachOutcome& outcome = task->window.outcome;
  if (tracee != nullptr && !tracee->stopped() && BootNs() < task->deadline_ns)
    return false;
  if (tracee != nullptr && tracee->stopped()) {
    outcome = AttachStopped(task->request, tracee, options_.cache);
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
    // The other threads continue when the window is settled: when the collector
    // reports, or now if the attach has failed.
    process->second.settling = event;
    process->second.deadline_ns = task->deadline_ns;
  }
  task->done(std::move(task->window));
  return true;
}

}  // namespace rocattach
