#include "userspace/watch/discovery/library_discovery.h"

#include <poll.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "userspace/base/clock.h"
#include "userspace/base/status_macros.h"
#include "userspace/base/task_thread.h"
#include "userspace/watch/discovery/library_scanner.h"

namespace rocattach {
namespace {

// Period at which a stopped thread is checked.
constexpr absl::Duration kHoldPeriod = absl::Milliseconds(1);
// A thread that was asked to stop does so in some microseconds, unless it has no CPU or
// is in uninterruptible sleep.
constexpr uint64_t kReleasePatienceNs = 5'000'000;

// Housekeeping: period at which processes are looked at while some are not settled,
// periods of the search for deleted files, and period of removing all that is unused.
constexpr absl::Duration kPollPeriod = absl::Milliseconds(50);
constexpr absl::Duration kShortestSweep = absl::Milliseconds(500);
constexpr absl::Duration kLongestSweep = absl::Seconds(30);
constexpr absl::Duration kUnusedPeriod = absl::Minutes(10);
// Longest pause in which making room is not tried again because nothing was unused.
constexpr absl::Duration kLongestRoomPause = absl::Seconds(5);

// Minimum time between looks at all processes: a user who causes losses of records all
// the time must not cause constant reading for others.
constexpr uint64_t kLookPauseNs = 100'000'000;

}  // namespace

absl::StatusOr<std::unique_ptr<LibraryDiscovery>> LibraryDiscovery::Start(
    LibraryDiscoveryOptions options, std::unique_ptr<MmapEvents> events,
    ExpectedWindows* expected) {
  auto discovery = std::unique_ptr<LibraryDiscovery>(
      new LibraryDiscovery(std::move(options), std::move(events), expected));
  RETURN_IF_ERROR(discovery->wake_.status());
  LibraryDiscovery* raw = discovery.get();
  {
    absl::MutexLock lock(&raw->mutex_);
    raw->running_ = 2;
    for (const LibraryDiscoveryOptions::Known& known : raw->options_.known) {
      File& file = raw->files_[{major(known.device), minor(known.device), known.inode}];
      file.armed = true;
      file.cookies = {known.cookie};
    }
  }
  raw->housekeeper_ = std::thread([raw] {
    raw->KeepHouse();
    raw->OnThreadEnd();
  });
  raw->reader_ = std::thread([raw] {
    raw->ReadRecords();
    raw->OnThreadEnd();
  });
  return discovery;
}

LibraryDiscovery::~LibraryDiscovery() {
  (void)Stop(absl::InfiniteDuration());
}

void LibraryDiscovery::OnThreadEnd() {
  absl::MutexLock lock(&mutex_);
  --running_;
  changed_.SignalAll();
}

bool LibraryDiscovery::IsStopping() const {
  absl::MutexLock lock(&mutex_);
  return stopping_;
}

bool LibraryDiscovery::Stop(absl::Duration patience) {
  patience = std::min(patience, absl::Hours(1));
  const uint64_t begin_ns = BootNs();
  bool ended = false;
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.SignalAll();
    wake_.Signal();
    ended = changed_.WaitFor(
        &mutex_, patience,
        [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return running_ == 0; });
  }
  for (std::thread* thread : {&reader_, &housekeeper_}) {
    if (!thread->joinable()) continue;
    if (ended) {
      thread->join();
    } else {
      thread->detach();
    }
  }
  const auto left = [begin_ns, patience] {
    const auto spent = absl::Nanoseconds(ElapsedNs(begin_ns, BootNs()));
    return std::max(patience - spent, absl::ZeroDuration());
  };
  for (UserThreads* threads : {&holders_, &probers_, &readers_}) {
    ended &= threads->Stop(left());
  }
  return ended;
}

void LibraryDiscovery::Forget(const std::vector<uint64_t>& cookies) {
  absl::MutexLock lock(&mutex_);
  ++forgotten_;
  std::erase_if(files_, [&cookies](const auto& entry) {
    const std::vector<uint64_t>& of_file = entry.second.cookies;
    return std::any_of(of_file.begin(), of_file.end(), [&cookies](uint64_t cookie) {
      return std::find(cookies.begin(), cookies.end(), cookie) != cookies.end();
    });
  });
}

void LibraryDiscovery::ReadRecords() {
  reader_thread_.Adopt();
  (void)BecomeRealtime(kHoldPriority, "rwa-discovery");
  std::vector<pollfd> fds;
  while (!IsStopping()) {
    if (processors_changed_.exchange(false)) {
      FollowProcessors();
      fds.clear();
    }
    if (fds.empty()) {
      fds.push_back({wake_.fd(), POLLIN, 0});
      for (int fd : events_->fds()) fds.push_back({fd, POLLIN, 0});
    }
    poll(fds.data(), fds.size(), -1);
    wake_.Clear();
    events_->Read([this](const MmapEvent& event) {
      reader_thread_.AssertOwned();
      OnMmap(event);
    });
    if (const uint64_t lost = events_->lost() + unseen_; lost != lost_) {
      lost_ = lost;
      absl::MutexLock lock(&mutex_);
      look_at_all_ = true;
      changed_.SignalAll();
    }
  }
}

void LibraryDiscovery::FollowProcessors() {
  const absl::StatusOr<bool> changed = events_->FollowProcessors();
  // A processor that cannot have a ring counts as if all of its records were lost.
  if (!changed.ok()) ++unseen_;
  if (changed.ok() && !*changed) return;
  absl::MutexLock lock(&mutex_);
  look_at_all_ = true;
  changed_.SignalAll();
}

void LibraryDiscovery::OnMmap(const MmapEvent& event) {
  if (!LooksLikeHsaRuntime(event.path) || event.pid == getpid()) return;
  const uid_t uid = users_.Of(event.pid, BootNs());
  if (options_.on_mapped != nullptr) options_.on_mapped(event.pid, uid);
  const FileKey key = {event.device_major, event.device_minor, event.inode};
  {
    absl::MutexLock lock(&mutex_);
    auto file = files_.find(key);
    if (file != files_.end() && file->second.armed) return;
  }
  // The rest reads the process, and this thread serves all users.
  if (uid != 0 && !mapping_rate_.Allow(uid, BootNs())) {
    if (!LookLater(event.pid, uid, /*is_wanted=*/false)) {
      const ProcessId process = IdentityOf(event.pid);
      expected_->Add(process);
      expected_->OnNotProbed(process, MissReason::kNotProbed);
    }
    return;
  }
  if (!IsWanted(event.pid)) return;
  const ProcessId process = IdentityOf(event.pid);
  // First, because the thread runs on meanwhile.
  if (options_.hold) StartHold(process, event.tid, uid, key);
  expected_->Add(process);
  absl::MutexLock lock(&mutex_);
  File& file = files_[key];
  if (file.armed) {
    // It was armed meanwhile.
    expected_->OnProbed(process);
    return;
  }
  file.path = event.path;
  auto [loaders, is_new] = file.loaders.try_emplace(uid);
  loaders->second.insert(process);
  if (is_new && !probers_.Run(uid, [this, uid, key] { ArmFor(uid, key); })) {
    file.loaders.erase(loaders);
    if (file.loaders.empty()) files_.erase(key);
  }
  new_files_ = true;
  changed_.SignalAll();
}

void LibraryDiscovery::StartHold(const ProcessId& process, pid_t tid, uid_t uid,
                                 const FileKey& file) {
  if (uid != 0 && !rate_.Allow(uid, BootNs())) return;
  const uint64_t deadline_ns =
      BootNs() + uint64_t{options_.hold_timeout_msec} * 1'000'000;
  absl::MutexLock lock(&mutex_);
  files_.try_emplace(file);  // not settled
  const std::pair<ProcessId, FileKey> hold(process, file);
  if (!holds_.insert(hold).second) return;
  const auto task = [this, hold, tid, deadline_ns] {
    TaskThread thread(kHoldPriority, "rwa-hold",
                      [&] { Hold(hold.first, tid, hold.second, deadline_ns); });
    thread.join();
    absl::MutexLock end(&mutex_);
    holds_.erase(hold);
  };
  if (!holders_.Run(uid, task)) holds_.erase(hold);
}

bool LibraryDiscovery::IsSettled(const FileKey& file) const {
  const auto found = files_.find(file);
  return found == files_.end() || found->second.armed;
}

void LibraryDiscovery::Hold(const ProcessId& process, pid_t tid, const FileKey& file,
                            uint64_t deadline_ns) {
  Tracee tracee;
  // This may have waited for others of its user. A process that is traced already is
  // left alone, and so is one that has ended.
  if (BootNs() >= deadline_ns || !tracee.Seize(process.pid, tid).ok()) return;
  if (!Lives(process)) return;  // a later process has its ID
  if (!tracee.Interrupt().ok()) return;
  ++held_;
  bool settled = false, let_go = false;
  while (!settled && !let_go) {
    absl::MutexLock lock(&mutex_);
    settled = changed_.WaitFor(&mutex_, kHoldPeriod,
                               [this, &file]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
                                 return IsSettled(file) || stopping_;
                               });
    let_go = tracee.HasEnded() || Tracee::MustLetGo() || BootNs() >= deadline_ns;
  }
  if (!settled && !tracee.HasEnded()) ++deadlines_;
  // If it does not stop, the end of this thread releases it.
  (void)tracee.TryRelease(kReleasePatienceNs);
}

LibraryDiscoveryOptions::Armed LibraryDiscovery::ArmThroughOne(uid_t uid,
                                                               const FileKey& key,
                                                               uint64_t* forgotten) {
  LibraryDiscoveryOptions::Armed armed;
  std::set<ProcessId> tried;
  std::string path;
  for (;;) {
    // A process may have ended before its mappings were read: another one leads to the
    // same file.
    ProcessId process;
    {
      absl::MutexLock lock(&mutex_);
      *forgotten = forgotten_;
      File& file = files_[key];
      path = file.path;
      for (const ProcessId& loader : file.loaders[uid]) {
        if (!tried.contains(loader)) process = loader;
      }
    }
    if (process.pid == 0) break;
    tried.insert(process);
    armed = Arm(process.pid);
    if (!armed.cookies.empty() || armed.rejected || armed.foreign ||
        armed.without_room) {
      return armed;
    }
  }
  if (options_.is_foreign != nullptr) {
    const dev_t device = makedev(key.device_major, key.device_minor);
    armed.foreign = options_.is_foreign(path, device, key.inode);
  }
  return armed;
}

void LibraryDiscovery::ArmFor(uid_t uid, const FileKey& key) {
  uint64_t forgotten = 0;
  const LibraryDiscoveryOptions::Armed armed = ArmThroughOne(uid, key, &forgotten);
  const bool complete =
      !armed.cookies.empty() && !armed.rejected && !armed.without_room;
  {
    absl::MutexLock lock(&mutex_);
    File& file = files_[key];
    const std::set<ProcessId> loaders = std::exchange(file.loaders[uid], {});
    file.loaders.erase(uid);
    if (complete && forgotten == forgotten_) {
      file.armed = true;
      file.cookies = armed.cookies;
    } else if (!file.armed && file.loaders.empty()) {
      // The file is looked at again when it is mapped the next time.
      files_.erase(key);
    }
    for (const ProcessId& loader : loaders) OnArmed(loader, armed);
    changed_.SignalAll();
  }
}

void LibraryDiscovery::OnArmed(const ProcessId& process,
                               const LibraryDiscoveryOptions::Armed& armed) {
  if (armed.without_room) {
    expected_->OnNotProbed(process, MissReason::kTooManyCopies);
  } else if (armed.rejected) {
    expected_->OnNotProbed(process, MissReason::kNotProbed);
  } else if (armed.foreign && armed.cookies.empty() && !LoadsAnother(process)) {
    expected_->Dismiss(process);
  } else {
    expected_->OnProbed(process);
  }
}

bool LibraryDiscovery::LoadsAnother(const ProcessId& process) const {
  return std::any_of(files_.begin(), files_.end(), [&process](const auto& file) {
    return std::any_of(
        file.second.loaders.begin(), file.second.loaders.end(),
        [&process](const auto& of_user) { return of_user.second.contains(process); });
  });
}

LibraryDiscoveryOptions::Armed LibraryDiscovery::Arm(pid_t pid) {
  LibraryDiscoveryOptions::Armed armed = options_.arm(pid);
  // The first request may have been served by a look at processes that began before it.
  for (int i = 0; i < 2 && armed.without_room && MakeRoom(); ++i) {
    armed = options_.arm(pid);
  }
  return armed;
}

bool LibraryDiscovery::MakeRoom() {
  absl::MutexLock lock(&mutex_);
  if (!room_wanted_ && BootNs() < no_room_until_ns_) return false;
  room_wanted_ = true;
  changed_.SignalAll();
  const auto is_served = [this, before = room_made_]() ABSL_SHARED_LOCKS_REQUIRED(
                             mutex_) { return stopping_ || room_made_ != before; };
  return changed_.WaitFor(&mutex_, absl::Milliseconds(options_.hold_timeout_msec),
                          is_served) &&
         !stopping_;
}

void LibraryDiscovery::OnRoomMade(bool removed) {
  absl::MutexLock lock(&mutex_);
  room_wanted_ = false;
  ++room_made_;
  // A user who keeps all probes in use must not keep the housekeeper busy.
  room_pause_ = removed ? kPollPeriod : std::min(room_pause_ * 2, kLongestRoomPause);
  no_room_until_ns_ =
      removed ? 0
              : BootNs() + static_cast<uint64_t>(absl::ToInt64Nanoseconds(room_pause_));
  changed_.SignalAll();
}

void LibraryDiscovery::LookAtAll() {
  for (pid_t pid : ListProcesses()) {
    if (pid == getpid() || !IsWanted(pid)) continue;
    LookLater(pid, UserOf(pid), /*is_wanted=*/true);
  }
}

bool LibraryDiscovery::LookLater(pid_t pid, uid_t uid, bool is_wanted) {
  {
    absl::MutexLock lock(&mutex_);
    if (!to_look_at_.insert(pid).second) return true;  // still to come
  }
  const auto look = [this, pid, is_wanted] {
    {
      absl::MutexLock lock(&mutex_);
      to_look_at_.erase(pid);
    }
    if (is_wanted || IsWanted(pid)) LookAt(pid);
  };
  if (readers_.Run(uid, look)) return true;
  absl::MutexLock lock(&mutex_);
  to_look_at_.erase(pid);
  return false;
}

void LibraryDiscovery::LookAt(pid_t pid) {
  const LibraryDiscoveryOptions::Armed armed = Arm(pid);
  if (armed.cookies.empty() && !armed.rejected && !armed.without_room) return;
  // A process that has a window, or has not started its runtime, is settled at once.
  const ProcessId process = IdentityOf(pid);
  expected_->Add(process);
  if (armed.without_room) {
    expected_->OnNotProbed(process, MissReason::kTooManyCopies);
  } else {
    expected_->OnProbed(process);
  }
}

// Each is read on a thread of its user; none is read twice at the same time.
void LibraryDiscovery::PollExpected() {
  for (const ProcessId& process : expected_->Open()) {
    const auto settle = [this, process] {
      if (expected_->Poll(process)) options_.enter_late(process);
    };
    if (!readers_.Run(UserOf(process.pid), settle)) expected_->Postpone(process);
  }
}

void LibraryDiscovery::KeepHouse() {
  (void)pthread_setname_np(pthread_self(), "rwa-libraries");
  absl::Duration period = kShortestSweep;
  absl::Time now = absl::FromUnixNanos(static_cast<int64_t>(BootNs()));
  absl::Time next_sweep = now + period, next_unused = now + kUnusedPeriod;
  std::vector<int> online = ReadOnlineCpus();
  uint64_t next_look_ns = 0;
  for (;;) {
    bool is_new = false;
    bool room_wanted = false;
    bool look_at_all = false;
    {
      absl::MutexLock lock(&mutex_);
      const absl::Duration wait = expected_->empty() ? kShortestSweep : kPollPeriod;
      const auto is_due = [this, next_look_ns]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
        return look_at_all_ && BootNs() >= next_look_ns;
      };
      changed_.WaitFor(&mutex_, wait,
                       [this, &is_due]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
                         return stopping_ || room_wanted_ || is_due();
                       });
      if (stopping_) return;
      look_at_all = is_due();
      if (look_at_all) look_at_all_ = false;
      is_new = std::exchange(new_files_, false);
      room_wanted = room_wanted_;
    }
    if (std::vector<int> now_online = ReadOnlineCpus(); now_online != online) {
      online = std::move(now_online);
      processors_changed_ = true;
      wake_.Signal();
    }
    if (look_at_all) {
      LookAtAll();
      next_look_ns = BootNs() + kLookPauseNs;
    }
    PollExpected();
    now = absl::FromUnixNanos(static_cast<int64_t>(BootNs()));
    if (is_new) {
      period = kShortestSweep;
      next_sweep = std::min(next_sweep, now + period);
    }
    if (now < next_sweep && !room_wanted) continue;
    const bool unused = now >= next_unused || room_wanted;
    if (unused) next_unused = now + kUnusedPeriod;
    // Deleted files that are still in use are looked at less and less often.
    const bool removed = options_.sweep(
        unused, [this](const std::vector<uint64_t>& cookies) { Forget(cookies); });
    period = removed ? kShortestSweep : std::min(period * 2, kLongestSweep);
    next_sweep = now + period;
    if (room_wanted) OnRoomMade(removed);
  }
}

}  // namespace rocattach
