#include "userspace/watch/windows/preseizer.h"

#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "userspace/base/clock.h"
#include "userspace/base/status_macros.h"
#include "userspace/base/task_thread.h"
#include "userspace/watch/discovery/library_scanner.h"

namespace rocattach {

absl::StatusOr<std::unique_ptr<Preseizer>> Preseizer::Start(
    std::unique_ptr<MmapEvents> events, std::function<bool(pid_t)> wanted,
    std::function<bool(const rocattach_event&)> is_open, LibraryCache* cache,
    uint32_t patience_msec) {
  auto preseizer = std::unique_ptr<Preseizer>(new Preseizer(
      std::move(wanted),
      {std::move(is_open), /*on_released=*/nullptr, cache, patience_msec}));
  preseizer->events_ = std::move(events);
  RETURN_IF_ERROR(preseizer->wake_.status());
  preseizer->reader_ = std::thread([raw = preseizer.get()] { raw->ReadRecords(); });
  return preseizer;
}

Preseizer::Preseizer(std::function<bool(pid_t)> wanted,
                     SeizedProcesses::Options options)
    : wanted_(std::move(wanted)),
      options_([this, &options] {
        options.on_released = [this](const ProcessId& process) {
          absl::MutexLock lock(&mutex_);
          seized_.erase(process);
        };
        return std::move(options);
      }()),
      tracers_([this] { return std::make_unique<SeizedProcesses>(options_); }) {}

Preseizer::~Preseizer() {
  Stop();
}

void Preseizer::Serve(Window window, AttachRequest request, Done done) {
  const ProcessId process = ProcessIdOf(window.event);
  std::optional<Window> refused;
  {
    absl::MutexLock lock(&mutex_);
    refused = tracers_.Of(process).Serve(std::move(window), std::move(request), done);
  }
  // Without the lock: it may read the process, which can block it.
  if (refused.has_value()) done(*std::move(refused));
}

void Preseizer::Forget(const ProcessId& process) {
  absl::MutexLock lock(&mutex_);
  if (seized_.contains(process)) tracers_.Of(process).Forget(process);
}

size_t Preseizer::Kept(absl::Duration than) const {
  size_t kept = 0;
  absl::MutexLock lock(&mutex_);
  tracers_.ForEach(
      [&](const SeizedProcesses& tracer) { kept += tracer.IsKept(than) ? 1 : 0; });
  return kept;
}

// No tracer waits for another one's end before it releases its own process.
void Preseizer::Stop() {
  wake_.Signal();
  if (reader_.joinable()) reader_.join();
  std::vector<SeizedProcesses*> tracers;
  {
    absl::MutexLock lock(&mutex_);
    tracers_.ForEach([&tracers](SeizedProcesses& tracer) {
      tracer.RequestStop();
      tracers.push_back(&tracer);
    });
  }
  // Without the lock, which their threads take.
  for (SeizedProcesses* tracer : tracers) tracer->Stop();
}

void Preseizer::ReadRecords() {
  (void)BecomeRealtime(1, "rwa-preseizer");
  std::vector<pollfd> fds;
  fds.push_back({wake_.fd(), POLLIN, 0});
  for (int fd : events_->fds()) fds.push_back({fd, POLLIN, 0});
  for (;;) {
    poll(fds.data(), fds.size(), -1);
    if (fds[0].revents != 0) return;
    events_->Read([this](const MmapEvent& event) { OnMmap(event); });
  }
}

void Preseizer::OnMmap(const MmapEvent& event) {
  if (!LooksLikeHsaRuntime(event.path) || event.pid == getpid()) return;
  const uid_t uid = users_.Of(event.pid, BootNs());
  const ProcessId process = IdentityOf(event.pid);
  {
    absl::MutexLock lock(&mutex_);
    if (seized_.contains(process)) return;
    // The rest reads the process, and this thread serves all users.
    if (uid != 0 && !mapping_rate_.Allow(uid, BootNs())) return;
  }
  if (!wanted_(event.pid)) return;
  absl::MutexLock lock(&mutex_);
  if (uid != 0 && !WithinBudget(uid)) return;
  if (tracers_.Of(process).Seize(process)) seized_[process] = uid;
}

bool Preseizer::WithinBudget(uid_t uid) {
  const auto seized = std::count_if(seized_.begin(), seized_.end(),
                                    [uid](const auto& s) { return s.second == uid; });
  return seized < kMostPerUser && rate_.Allow(uid, BootNs());
}

}  // namespace rocattach
