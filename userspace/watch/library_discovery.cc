#include "userspace/watch/library_discovery.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "userspace/base/clock.h"
#include "userspace/base/status_macros.h"
#include "userspace/watch/library_scanner.h"
#include "userspace/watch/online_cpus.h"

namespace rocattach {
namespace {

// While threads are stopped: how often their deadlines are looked at.
constexpr int kHoldPeriodMsec = 1;
// Files that are read at the same time. A hostile file system can keep a reader for
// ever, so one that does costs the others nothing until all are busy.
constexpr int kArmers = 4;
constexpr absl::Duration kStopPatience = absl::Seconds(1);

// Housekeeping: how often processes are looked at while some are not settled, how
// often gone files are looked for, and how often everything that is unused goes.
constexpr absl::Duration kPollPeriod = absl::Milliseconds(50);
constexpr absl::Duration kShortestSweep = absl::Milliseconds(500);
constexpr absl::Duration kLongestSweep = absl::Seconds(30);
constexpr absl::Duration kUnusedPeriod = absl::Minutes(10);
// How long it is not tried again to make room where nothing was unused, at most.
constexpr absl::Duration kLongestRoomPause = absl::Seconds(5);

// Above the threads that serve windows: a thread that loads the runtime runs towards
// hsa_init meanwhile.
void BecomeRealtime(int priority, const char* name) {
  sched_param param = {};
  param.sched_priority = priority;
  (void)pthread_setschedparam(pthread_self(), SCHED_FIFO | SCHED_RESET_ON_FORK, &param);
  (void)pthread_setname_np(pthread_self(), name);
}

uid_t UserOf(pid_t pid) {
  struct stat info = {};
  return stat(absl::StrCat("/proc/", pid).c_str(), &info) == 0 ? info.st_uid : 0;
}

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
    raw->running_armers_ = kArmers;
    for (const LibraryDiscoveryOptions::Known& known : raw->options_.known) {
      File& file = raw->files_[{major(known.device), minor(known.device), known.inode}];
      file.armed = true;
      file.cookies = {known.cookie};
    }
  }
  for (int i = 0; i < kArmers; ++i) {
    raw->armers_.emplace_back([raw] { raw->ArmFiles(); });
  }
  raw->housekeeper_ = std::thread([raw] { raw->KeepHouse(); });
  raw->reader_ = std::thread([raw] {
    // A tracee that cannot be detached is released by the end of the thread that seized
    // it.
    for (bool again = true; again;) {
      std::thread([&] { again = raw->ReadRecords(); }).join();
    }
  });
  return discovery;
}

LibraryDiscovery::~LibraryDiscovery() {
  (void)Stop();
}

bool LibraryDiscovery::IsStopping() const {
  absl::MutexLock lock(&mutex_);
  return stopping_;
}

bool LibraryDiscovery::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.SignalAll();
  }
  wake_.Signal();
  if (reader_.joinable()) reader_.join();
  if (housekeeper_.joinable()) housekeeper_.join();
  bool ended;
  {
    absl::MutexLock lock(&mutex_);
    ended = changed_.WaitFor(
        &mutex_, kStopPatience,
        [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return running_armers_ == 0; });
  }
  for (std::thread& armer : armers_) {
    if (!armer.joinable()) continue;
    if (ended) {
      armer.join();
    } else {
      armer.detach();
    }
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

bool LibraryDiscovery::ReadRecords() {
  tracing_thread_.Adopt();
  BecomeRealtime(2, "rwa-discovery");
  std::vector<pollfd> fds;
  must_exit_ = false;
  while (!IsStopping() && !must_exit_) {
    if (processors_changed_.exchange(false)) {
      FollowProcessors();
      fds.clear();
    }
    if (fds.empty()) {
      fds.push_back({wake_.fd(), POLLIN, 0});
      for (int fd : events_->fds()) fds.push_back({fd, POLLIN, 0});
    }
    const bool idle = holds_.empty() && leaving_.empty();
    poll(fds.data(), fds.size(), idle ? -1 : kHoldPeriodMsec);
    wake_.Clear();
    events_->Read([this](const MmapEvent& event) {
      tracing_thread_.AssertOwned();
      OnMmap(event);
    });
    if (const uint64_t lost = events_->lost() + unseen_; lost != lost_) {
      lost_ = lost;
      absl::MutexLock lock(&mutex_);
      look_at_all_ = true;
      changed_.SignalAll();
    }
    ReleaseSettled(Tracee::MustLetGo());
  }
  ReleaseSettled(/*all=*/true);
  // The end of this thread releases whatever could not be detached.
  leaving_.clear();
  return !IsStopping();
}

void LibraryDiscovery::FollowProcessors() {
  const absl::StatusOr<bool> changed = events_->FollowProcessors();
  // One that cannot have a ring is as if all of its records were lost.
  if (!changed.ok()) ++unseen_;
  if (changed.ok() && !*changed) return;
  absl::MutexLock lock(&mutex_);
  look_at_all_ = true;
  changed_.SignalAll();
}

void LibraryDiscovery::OnMmap(const MmapEvent& event) {
  if (!LooksLikeHsaRuntime(event.path) || event.pid == getpid()) return;
  const FileKey key = {event.device_major, event.device_minor, event.inode};
  {
    absl::MutexLock lock(&mutex_);
    auto file = files_.find(key);
    if (file != files_.end() && file->second.armed) return;
  }
  if (options_.wanted != nullptr && !options_.wanted(event.pid)) return;
  if (options_.hold) HoldThread(event, key);
  expected_->Add(event.pid);
  absl::MutexLock lock(&mutex_);
  auto [file, is_new] = files_.try_emplace(key);
  if (file->second.armed) {
    // Meanwhile; the thread is released below.
    expected_->NoteProbed(event.pid);
    return;
  }
  file->second.path = event.path;
  file->second.loaders.insert(event.pid);
  if (is_new) to_arm_.push_back(key);
  new_files_ = true;
  changed_.SignalAll();
}

void LibraryDiscovery::HoldThread(const MmapEvent& event, const FileKey& file) {
  for (const Hold& hold : holds_) {
    if (hold.pid == event.pid && hold.file == file) return;
  }
  const uid_t uid = UserOf(event.pid);
  if (uid != 0) {
    const auto held = std::count_if(holds_.begin(), holds_.end(),
                                    [uid](const Hold& h) { return h.uid == uid; });
    if (held >= kMostPerUser || !rate_.Take(uid, BootNs())) return;
  }
  auto tracee = std::make_unique<Tracee>();
  // A process that somebody else traces is left alone, and so is one that has ended.
  if (!tracee->Seize(event.pid, event.tid).ok()) return;
  if (!tracee->Interrupt().ok()) return;
  ++held_;
  Hold hold = {event.pid, uid, file, 0, std::move(tracee)};
  hold.deadline_ns = BootNs() + uint64_t{options_.hold_timeout_msec} * 1'000'000;
  holds_.push_back(std::move(hold));
}

void LibraryDiscovery::ReleaseSettled(bool all) {
  const uint64_t now = BootNs();
  {
    absl::MutexLock lock(&mutex_);
    for (auto hold = holds_.begin(); hold != holds_.end();) {
      auto file = files_.find(hold->file);
      const bool settled = file == files_.end() || file->second.armed;
      const bool ended = hold->tracee->HasEnded();
      if (!settled && !ended && !all && now < hold->deadline_ns) {
        ++hold;
        continue;
      }
      if (!settled && !ended) ++deadlines_;
      leaving_.push_back(std::move(hold->tracee));
      hold = holds_.erase(hold);
    }
  }
  std::erase_if(leaving_, [this](const std::unique_ptr<Tracee>& tracee) {
    tracing_thread_.AssertOwned();
    const bool released = tracee->TryRelease(0);
    must_exit_ |= tracee->tracer_must_exit();
    return released;
  });
}

void LibraryDiscovery::ArmFiles() {
  BecomeRealtime(1, "rwa-probe");
  for (;;) {
    FileKey key;
    bool look_at_all = false;
    {
      absl::MutexLock lock(&mutex_);
      changed_.Wait(&mutex_, [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
        return stopping_ || look_at_all_ || !to_arm_.empty();
      });
      if (stopping_) {
        --running_armers_;
        changed_.SignalAll();
        return;
      }
      if (to_arm_.empty()) {
        look_at_all_ = false;
        look_at_all = true;
      } else {
        key = to_arm_.front();
        to_arm_.pop_front();
      }
    }
    if (look_at_all) {
      LookAtAll();
    } else {
      ArmOne(key);
    }
  }
}

void LibraryDiscovery::ArmOne(const FileKey& key) {
  LibraryDiscoveryOptions::Armed armed;
  std::set<pid_t> tried;
  std::string path;
  uint64_t forgotten = 0;
  for (;;) {
    // A process may have ended before its mappings were read: another one leads to the
    // same file.
    pid_t pid = 0;
    {
      absl::MutexLock lock(&mutex_);
      forgotten = forgotten_;
      path = files_[key].path;
      for (pid_t loader : files_[key].loaders) {
        if (tried.count(loader) == 0) pid = loader;
      }
    }
    if (pid == 0) break;
    tried.insert(pid);
    armed = Arm(pid);
    if (!armed.cookies.empty() || armed.rejected || armed.foreign ||
        armed.without_room) {
      break;
    }
  }
  if (armed.cookies.empty() && !armed.rejected && !armed.without_room &&
      options_.is_foreign != nullptr) {
    const dev_t device = makedev(key.device_major, key.device_minor);
    armed.foreign = armed.foreign || options_.is_foreign(path, device, key.inode);
  }
  const bool complete =
      !armed.cookies.empty() && !armed.rejected && !armed.without_room;
  std::set<pid_t> loaders;
  {
    absl::MutexLock lock(&mutex_);
    File& file = files_[key];
    loaders.swap(file.loaders);
    if (complete && forgotten == forgotten_) {
      file.armed = true;
      file.cookies = armed.cookies;
    } else {
      // Looked at again when it is mapped the next time.
      files_.erase(key);
    }
    for (pid_t pid : loaders) {
      if (armed.without_room) {
        expected_->NoteNotProbed(pid, MissReason::kTooManyCopies);
      } else if (armed.rejected) {
        expected_->NoteNotProbed(pid, MissReason::kNotProbed);
      } else if (armed.foreign && armed.cookies.empty() && !LoadsAnother(pid)) {
        expected_->Dismiss(pid);
      } else {
        expected_->NoteProbed(pid);
      }
    }
  }
  wake_.Signal();
}

bool LibraryDiscovery::LoadsAnother(pid_t pid) const {
  return std::any_of(files_.begin(), files_.end(), [pid](const auto& entry) {
    return entry.second.loaders.count(pid) > 0;
  });
}

LibraryDiscoveryOptions::Armed LibraryDiscovery::Arm(pid_t pid) {
  LibraryDiscoveryOptions::Armed armed = options_.arm(pid);
  // The first try may have been answered by a look at processes that was older.
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

void LibraryDiscovery::NoteRoomMade(bool removed) {
  absl::MutexLock lock(&mutex_);
  room_wanted_ = false;
  ++room_made_;
  // Whoever has all probes in use must not keep the housekeeper busy.
  room_pause_ = removed ? kPollPeriod : std::min(room_pause_ * 2, kLongestRoomPause);
  no_room_until_ns_ =
      removed ? 0
              : BootNs() + static_cast<uint64_t>(absl::ToInt64Nanoseconds(room_pause_));
  changed_.SignalAll();
}

void LibraryDiscovery::LookAtAll() {
  for (pid_t pid : ListProcesses()) {
    if (IsStopping()) return;
    if (pid == getpid() || (options_.wanted != nullptr && !options_.wanted(pid)))
      continue;
    const LibraryDiscoveryOptions::Armed armed = Arm(pid);
    if (armed.cookies.empty() && !armed.rejected && !armed.without_room) continue;
    // What has a window, or has not started its runtime, is settled at once.
    expected_->Add(pid);
    if (armed.without_room) {
      expected_->NoteNotProbed(pid, MissReason::kTooManyCopies);
    } else {
      expected_->NoteProbed(pid);
    }
  }
}

void LibraryDiscovery::KeepHouse() {
  (void)pthread_setname_np(pthread_self(), "rwa-libraries");
  absl::Duration period = kShortestSweep;
  absl::Time now = absl::FromUnixNanos(static_cast<int64_t>(BootNs()));
  absl::Time next_sweep = now + period, next_unused = now + kUnusedPeriod;
  std::vector<int> online = ReadOnlineCpus();
  for (;;) {
    bool is_new = false;
    bool room_wanted = false;
    {
      absl::MutexLock lock(&mutex_);
      const absl::Duration wait = expected_->empty() ? kShortestSweep : kPollPeriod;
      changed_.WaitFor(&mutex_, wait, [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
        return stopping_ || room_wanted_;
      });
      if (stopping_) return;
      is_new = std::exchange(new_files_, false);
      room_wanted = room_wanted_;
    }
    if (std::vector<int> now_online = ReadOnlineCpus(); now_online != online) {
      online = std::move(now_online);
      processors_changed_ = true;
      wake_.Signal();
    }
    for (const ProcessId& late : expected_->Poll()) options_.enter_late(late);
    now = absl::FromUnixNanos(static_cast<int64_t>(BootNs()));
    if (is_new) {
      period = kShortestSweep;
      next_sweep = std::min(next_sweep, now + period);
    }
    if (now < next_sweep && !room_wanted) continue;
    const bool unused = now >= next_unused || room_wanted;
    if (unused) next_unused = now + kUnusedPeriod;
    // Files that are gone and still in use are looked at less and less often.
    const bool removed = options_.sweep(
        unused, [this](const std::vector<uint64_t>& cookies) { Forget(cookies); });
    period = removed ? kShortestSweep : std::min(period * 2, kLongestSweep);
    next_sweep = now + period;
    if (room_wanted) NoteRoomMade(removed);
  }
}

}  // namespace rocattach
