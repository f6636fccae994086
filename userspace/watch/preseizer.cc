#include "userspace/watch/preseizer.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "userspace/base/clock.h"
#include "userspace/base/status_macros.h"
#include "userspace/watch/library_scanner.h"

namespace rocattach {
namespace {

// While processes are seized: their signals wait for us this long at most, and a thread
// that they start is seized after this long at most.
constexpr int kKeepPeriodMsec = 1;

std::vector<pid_t> ListThreads(pid_t pid) {
  std::vector<pid_t> threads;
  DIR* directory = opendir(absl::StrCat("/proc/", pid, "/task").c_str());
  if (directory == nullptr) return threads;
  while (dirent* entry = readdir(directory)) {
    pid_t tid;
    if (absl::SimpleAtoi(entry->d_name, &tid)) threads.push_back(tid);
  }
  closedir(directory);
  return threads;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Preseizer>> Preseizer::Start(
    std::function<bool(pid_t)> wanted, LibraryCache* cache, uint32_t patience_msec) {
  auto preseizer = std::unique_ptr<Preseizer>(
      new Preseizer(std::move(wanted), cache, patience_msec));
  ASSIGN_OR_RETURN(preseizer->events_, MmapEvents::Open());
  preseizer->wake_fd_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!preseizer->wake_fd_.valid())
    return absl::ErrnoToStatus(errno, "eventfd() failed");
  preseizer->thread_ = std::thread([raw = preseizer.get()] { raw->Run(); });
  return preseizer;
}

Preseizer::~Preseizer() {
  Stop();
}

void Preseizer::Serve(Window window, AttachRequest request, Done done) {
  Task task = {std::move(window), std::move(request), std::move(done), 0};
  task.deadline_ns = BootNs() + uint64_t{task.request.stop_timeout_msec} * 1'000'000;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    added_.push_back(std::move(task));
  }
  uint64_t one = 1;
  (void)!write(wake_fd_.get(), &one, sizeof(one));
}

void Preseizer::Forget(pid_t pid) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    forgotten_.push_back(pid);
  }
  uint64_t one = 1;
  (void)!write(wake_fd_.get(), &one, sizeof(one));
}

void Preseizer::Stop() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  uint64_t one = 1;
  (void)!write(wake_fd_.get(), &one, sizeof(one));
  if (thread_.joinable()) thread_.join();
}

void Preseizer::Run() {
  sched_param param = {};
  param.sched_priority = 1;
  (void)pthread_setschedparam(pthread_self(), SCHED_FIFO | SCHED_RESET_ON_FORK, &param);
  (void)pthread_setname_np(pthread_self(), "rwa-preseizer");
  std::vector<pollfd> fds;
  fds.push_back({wake_fd_.get(), POLLIN, 0});
  for (int fd : events_->fds()) fds.push_back({fd, POLLIN, 0});
  for (;;) {
    poll(fds.data(), fds.size(),
         processes_.empty() && tasks_.empty() ? -1 : kKeepPeriodMsec);
    uint64_t count;
    (void)!read(wake_fd_.get(), &count, sizeof(count));
    events_->Read([this](const MmapEvent& event) { OnMmap(event); });
    std::vector<pid_t> forgotten;
    bool stopping;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      for (Task& task : added_) tasks_.push_back(std::move(task));
      added_.clear();
      forgotten = std::exchange(forgotten_, {});
      stopping = stopping_;
    }
    KeepAll();
    std::erase_if(tasks_, [this](Task& task) { return TryAttach(&task); });
    for (pid_t pid : forgotten) Release(pid);
    // The end of this thread frees whatever could not be detached.
    if (stopping) break;
  }
  while (!processes_.empty()) Release(processes_.begin()->first);
}

void Preseizer::OnMmap(const MmapEvent& event) {
  if (!LooksLikeHsaRuntime(event.path) || event.pid == getpid()) return;
  if (processes_.contains(event.pid) || !wanted_(event.pid)) return;
  Process& process = processes_[event.pid];
  process.deadline_ns = BootNs() + uint64_t{patience_msec_} * 1'000'000;
  SeizeThreads(event.pid, &process);
  if (process.threads.empty()) processes_.erase(event.pid);
}

void Preseizer::SeizeThreads(pid_t pid, Process* process) {
  for (pid_t tid : ListThreads(pid)) {
    if (process->threads.contains(tid)) continue;
    auto tracee = std::make_unique<Tracee>();
    // Gone, or another debugger's: its window will be missed, and said to be.
    if (tracee->Seize(pid, tid)) continue;
    process->threads[tid] = std::move(tracee);
  }
}

void Preseizer::Release(pid_t pid) {
  auto found = processes_.find(pid);
  if (found == processes_.end()) return;
  for (auto& [tid, tracee] : found->second.threads) tracee->Release();
  processes_.erase(found);
}

void Preseizer::KeepAll() {
  std::vector<pid_t> over;
  uint64_t now = BootNs();
  for (auto& [pid, process] : processes_) {
    SeizeThreads(pid, &process);
    std::erase_if(process.threads, [](auto& entry) {
      return !entry.second->stopped() && entry.second->Keep() == Tracee::Seen::kGone;
    });
    if (process.threads.empty() || now > process.deadline_ns) over.push_back(pid);
  }
  for (pid_t pid : over) Release(pid);
}

bool Preseizer::TryAttach(Task* task) {
  pid_t pid = static_cast<pid_t>(task->window.event.pid);
  auto process = processes_.find(pid);
  Tracee* tracee = nullptr;
  if (process != processes_.end()) {
    auto thread =
        process->second.threads.find(static_cast<pid_t>(task->window.event.tid));
    if (thread != process->second.threads.end()) tracee = thread->second.get();
  }
  AttachOutcome& outcome = task->window.outcome;
  if (tracee != nullptr && !tracee->stopped() && BootNs() < task->deadline_ns)
    return false;
  if (tracee != nullptr && tracee->stopped()) {
    outcome = AttachStopped(task->request, tracee, cache_);
  } else {
    outcome.stage = AttachStage::kStop;
    outcome.reason =
        tracee == nullptr ? AttachReason::kTargetExited : AttachReason::kStopTimeout;
    outcome.detail = "the thread did not come to its stop";
  }
  Release(pid);
  task->done(std::move(task->window));
  return true;
}

}  // namespace rocattach
