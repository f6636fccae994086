// Finds copies of the HSA runtime when a process maps them, and keeps that process
// from calling hsa_init before the copy has its probe.
#ifndef ROCATTACH_USERSPACE_WATCH_DISCOVERY_LIBRARY_DISCOVERY_H_
#define ROCATTACH_USERSPACE_WATCH_DISCOVERY_LIBRARY_DISCOVERY_H_

#include <sys/types.h>

#include <atomic>
#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "injector/tracing/tracee.h"
#include "userspace/base/process.h"
#include "userspace/base/steady_cond_var.h"
#include "userspace/base/thread_checker.h"
#include "userspace/base/user_threads.h"
#include "userspace/base/wake_event.h"
#include "userspace/watch/budget.h"
#include "userspace/watch/discovery/mmap_events.h"
#include "userspace/watch/discovery/recent_users.h"
#include "userspace/watch/late/expected_windows.h"

namespace rocattach {

struct LibraryDiscoveryOptions {
  // Stop threads that load a copy without a probe, for at most this long; false: their
  // window is only counted if it was missed.
  bool hold = false;
  uint32_t hold_timeout_msec = 250;
  // True if a process's windows are of interest. On any thread.
  std::function<bool(pid_t)> wanted;

  // Called when a process has mapped code of a file that is named like the runtime,
  // with or without a probe, with the process and its user. On the thread that reads
  // the records, which must not wait; may be null.
  std::function<void(pid_t, uid_t)> on_mapped;

  // A file that has its probe already.
  struct Known {
    dev_t device = 0;
    ino_t inode = 0;
    uint64_t cookie = 0;
  };
  std::vector<Known> known;

  struct Armed {
    std::vector<uint64_t> cookies;  // probes that are in place now
    bool rejected = false;          // a copy cannot be probed
    bool foreign = false;           // a file has the name, but is no runtime
    bool without_room = false;      // the maximum number of probes is reached
  };
  // Puts probes on the copies that a process has mapped. On threads of the process's
  // user, because reading a process or a file may take any time.
  std::function<Armed(pid_t)> arm;
  // True if this file, provided that it is still at `path`, is no runtime. Used when
  // the processes that had mapped it have ended. On the same threads.
  std::function<bool(const std::string& path, dev_t device, ino_t inode)> is_foreign;
  // Removes probes that are not needed any more: those of deleted files, or `all` that
  // are unused. Calls `forget` with those that it may remove before it checks which are
  // mapped. False if none was removed. Never two calls at a time.
  using Forget = std::function<void(const std::vector<uint64_t>& cookies)>;
  std::function<bool(bool all, const Forget& forget)> sweep;
  // Called when a process has started its runtime before its copy had a probe.
  std::function<void(const ProcessId&)> enter_late;
};

struct DiscoveryCounts {
  uint64_t lost = 0;       // records of mappings for which the kernel had no room
  uint64_t held = 0;       // threads that were stopped until their copy had its probe
  uint64_t deadlines = 0;  // threads among these that were released at the deadline
};

// 1. The kernel's record of an executable mapping identifies the file.
// 2. If a file with a runtime's name has no probe yet, the thread that has mapped it is
//    stopped by ptrace, on a thread of its user. It is in the dynamic loader, which
//    still has to handle its segments, dependencies, relocations and constructors.
// 3. Another thread reads the file and puts the probe in place.
// 4. The thread runs on; hsa_init is probed.
// 5. If that took too long, or the process could not be stopped, ExpectedWindows finds
//    out what it missed.
class LibraryDiscovery {
 public:
  // Maximum number of threads of one user that are stopped at a time, and, unless the
  // user is root, in one second.
  static constexpr int kMostPerUser = 64;
  static constexpr uint32_t kPerUserAndSecond = 100;
  // Mappings of files without a probe that the thread of the records handles itself,
  // for one user other than root. Threads of the user look at the processes of further
  // ones, which may be too late for their windows, as after a loss of records.
  static constexpr uint32_t kMappingsPerUserAndSecond = 1000;
  static constexpr uint32_t kMostMappingsAtOnce = 2000;
  // Files that are read for probing, and processes that are looked at, at a time.
  static constexpr int kReadersPerUser = 4;

  // Sees mappings from the opening of `events` on. `expected` must outlive this object.
  static absl::StatusOr<std::unique_ptr<LibraryDiscovery>> Start(
      LibraryDiscoveryOptions options, std::unique_ptr<MmapEvents> events,
      ExpectedWindows* expected);
  ~LibraryDiscovery();

  // Called before these probes are removed: the next mapping of their files is new.
  void Forget(const std::vector<uint64_t>& cookies) ABSL_LOCKS_EXCLUDED(mutex_);
  // Releases all threads. Returns false if a process or a file is still being read
  // after `patience`: then this object, and what the options' functions use, must not
  // be destroyed.
  bool Stop(absl::Duration patience) ABSL_LOCKS_EXCLUDED(mutex_);
  // Counts so far; any thread.
  DiscoveryCounts counts() const { return {lost_, held_, deadlines_}; }

 private:
  // Real-time priorities. A thread that loads the runtime runs towards hsa_init until
  // it is held, so threads that hold precede the threads that serve windows.
  static constexpr int kHoldPriority = 2, kProbePriority = 1;

  struct FileKey {
    uint32_t device_major = 0, device_minor = 0;
    uint64_t inode = 0;
    auto operator<=>(const FileKey&) const = default;
  };
  struct File {
    std::string path;  // as in the kernel's records
    bool armed = false;
    std::vector<uint64_t> cookies;  // if armed
    // If not armed: the processes that wait for it, by user. Each user has a task that
    // reads the file through one of them.
    std::map<uid_t, std::set<ProcessId>> loaders;
  };
  LibraryDiscovery(LibraryDiscoveryOptions options, std::unique_ptr<MmapEvents> events,
                   ExpectedWindows* expected)
      : options_(std::move(options)),
        events_(std::move(events)),
        expected_(expected),
        holders_("rwa-hold", kMostPerUser, kHoldPriority),
        probers_("rwa-probe", kReadersPerUser, kProbePriority),
        readers_("rwa-look", kReadersPerUser) {}

  void ReadRecords() ABSL_LOCKS_EXCLUDED(mutex_);
  void OnMmap(const MmapEvent& event) ABSL_LOCKS_EXCLUDED(mutex_)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(reader_thread_);
  // Starts a hold of the thread that has mapped the file, if its user may have one.
  void StartHold(const ProcessId& process, pid_t tid, uid_t uid, const FileKey& file)
      ABSL_LOCKS_EXCLUDED(mutex_) ABSL_EXCLUSIVE_LOCKS_REQUIRED(reader_thread_);
  // Stops that thread until the file is settled, or the deadline has passed. Runs on a
  // thread that ends then, because its end releases a thread that cannot be detached.
  void Hold(const ProcessId& process, pid_t tid, const FileKey& file,
            uint64_t deadline_ns) ABSL_LOCKS_EXCLUDED(mutex_);
  bool IsSettled(const FileKey& file) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  // Arms a file for the processes of a user that wait for it. On the user's threads.
  void ArmFor(uid_t uid, const FileKey& key) ABSL_LOCKS_EXCLUDED(mutex_);
  // The same, through one of the user's processes that have mapped the file.
  LibraryDiscoveryOptions::Armed ArmThroughOne(uid_t uid, const FileKey& key,
                                               uint64_t* forgotten)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void OnArmed(const ProcessId& process, const LibraryDiscoveryOptions::Armed& armed)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // True if the process has mapped a file that has not been looked at yet.
  bool LoadsAnother(const ProcessId& process) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Puts probes on what a process has mapped. If there is no room for them, unused
  // probes are removed first.
  LibraryDiscoveryOptions::Armed Arm(pid_t pid) ABSL_LOCKS_EXCLUDED(mutex_);
  // Requests the removal of everything that is unused, and waits for it, at most as
  // long as a thread is held. False if it is not worth trying again.
  bool MakeRoom() ABSL_LOCKS_EXCLUDED(mutex_);
  // Called when the request has been served; `removed`: something was unused.
  void OnRoomMade(bool removed) ABSL_LOCKS_EXCLUDED(mutex_);
  bool IsWanted(pid_t pid) const {
    return options_.wanted == nullptr || options_.wanted(pid);
  }
  // After a loss of records: looks at all processes, each on a thread of its user.
  void LookAtAll() ABSL_LOCKS_EXCLUDED(mutex_);
  // Lets a thread of its user look at the process. `is_wanted`: it is known to be
  // wanted. False if too many wait.
  bool LookLater(pid_t pid, uid_t uid, bool is_wanted) ABSL_LOCKS_EXCLUDED(mutex_);
  void LookAt(pid_t pid) ABSL_LOCKS_EXCLUDED(mutex_);
  // Settles processes that are expected to open a window.
  void PollExpected();
  void KeepHouse() ABSL_LOCKS_EXCLUDED(mutex_);
  void OnThreadEnd() ABSL_LOCKS_EXCLUDED(mutex_);
  // Gives a ring to processors that have begun to run, and requests a search for what
  // was mapped there before.
  void FollowProcessors() ABSL_LOCKS_EXCLUDED(mutex_)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(reader_thread_);
  bool IsStopping() const ABSL_LOCKS_EXCLUDED(mutex_);

  const LibraryDiscoveryOptions options_;
  const std::unique_ptr<MmapEvents> events_;
  ExpectedWindows* const expected_;
  std::atomic<uint64_t> lost_ = 0, held_ = 0, deadlines_ = 0;
  std::atomic<bool> processors_changed_ = false;
  WakeEvent wake_;
  std::thread reader_, housekeeper_;
  // Nothing waits for the work of readers_, so they are ordinary threads.
  UserThreads holders_, probers_, readers_;

  mutable absl::Mutex mutex_;
  std::map<FileKey, File> files_ ABSL_GUARDED_BY(mutex_);
  // Number of calls of Forget(): what was armed meanwhile may have lost its probe.
  uint64_t forgotten_ ABSL_GUARDED_BY(mutex_) = 0;
  bool look_at_all_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<pid_t> to_look_at_ ABSL_GUARDED_BY(mutex_);  // by `readers_`
  bool new_files_ ABSL_GUARDED_BY(mutex_) = false;      // for the housekeeper
  // A request of MakeRoom(), which is shared by all calls until it is served; the
  // number of requests that have been served; and, if nothing was unused, the time
  // (BootNs()) until which there are no requests.
  bool room_wanted_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t room_made_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t no_room_until_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Duration room_pause_ ABSL_GUARDED_BY(mutex_) = absl::Milliseconds(50);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  int running_ ABSL_GUARDED_BY(mutex_) = 0;  // reader_ and housekeeper_
  SteadyCondVar changed_;

  // Threads that are stopped, or about to be: in each process one for each file.
  std::set<std::pair<ProcessId, FileKey>> holds_ ABSL_GUARDED_BY(mutex_);

  ThreadChecker reader_thread_;
  uint64_t unseen_ ABSL_GUARDED_BY(reader_thread_) = 0;  // processors without a ring
  UserRate rate_ ABSL_GUARDED_BY(reader_thread_){kPerUserAndSecond, kMostPerUser};
  UserRate mapping_rate_ ABSL_GUARDED_BY(reader_thread_){kMappingsPerUserAndSecond,
                                                         kMostMappingsAtOnce};
  RecentUsers users_;  // users of the records' processes
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_DISCOVERY_LIBRARY_DISCOVERY_H_
