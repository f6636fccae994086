// Hold mode "signal", for kernels without sleepable uprobes: processes are seized when
// they map the HSA runtime, so that the probe can stop the thread that enters hsa_init
// with a signal that only the tracer sees.
#ifndef ROCATTACH_USERSPACE_WATCH_WINDOWS_PRESEIZER_H_
#define ROCATTACH_USERSPACE_WATCH_WINDOWS_PRESEIZER_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "bpf/watch_events.h"
#include "injector/attach.h"
#include "injector/elf/library_facts.h"
#include "userspace/base/process.h"
#include "userspace/base/wake_event.h"
#include "userspace/watch/budget.h"
#include "userspace/watch/discovery/mmap_events.h"
#include "userspace/watch/discovery/recent_users.h"
#include "userspace/watch/windows/per_process.h"
#include "userspace/watch/windows/seized_processes.h"
#include "userspace/watch/windows/window.h"

namespace rocattach {

// Owns the thread that reads the kernel's records of mappings. It reads no process in a
// way that the process can delay: each is seized, and attached to, on its own thread.
//
// Windows have budgets, but here a process costs something before it has a window:
// mapping any file named like the runtime is enough. So each user but root has a limit
// of its own; beyond it, processes are not seized, and their windows are missed.
class Preseizer {
 public:
  static constexpr int kMostPerUser = 64;
  static constexpr uint32_t kPerUserAndSecond = 100;
  // Mappings of such files for which it is determined if the process is wanted.
  static constexpr uint32_t kMappingsPerUserAndSecond = 1000;
  static constexpr uint32_t kMostMappingsAtOnce = 2000;

  using Done = SeizedProcesses::Done;

  // `wanted` decides, on the thread of the records, whether a process is seized at all.
  // `is_open` returns whether the window of an event's process is still open.
  static absl::StatusOr<std::unique_ptr<Preseizer>> Start(
      std::unique_ptr<MmapEvents> events, std::function<bool(pid_t)> wanted,
      std::function<bool(const rocattach_event&)> is_open, LibraryCache* cache,
      uint32_t patience_msec);
  ~Preseizer();

  // Attaches to the thread of a SIGNALLED window, which is stopped or about to stop;
  // `done` is called on the thread of the process.
  void Serve(Window window, AttachRequest request, Done done)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Forgets a process that need not be seized: its window was settled otherwise.
  void Forget(const ProcessId& process) ABSL_LOCKS_EXCLUDED(mutex_);
  // Number of threads that a process has blocked for longer than this.
  size_t Kept(absl::Duration than) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Releases all processes; waits for those whose thread is blocked.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  Preseizer(std::function<bool(pid_t)> wanted, SeizedProcesses::Options options);
  void ReadRecords() ABSL_LOCKS_EXCLUDED(mutex_);
  void OnMmap(const MmapEvent& event) ABSL_LOCKS_EXCLUDED(mutex_);
  // True if one more process of this user may be seized.
  bool WithinBudget(uid_t uid) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::function<bool(pid_t)> wanted_;
  const SeizedProcesses::Options options_;
  std::unique_ptr<MmapEvents> events_;
  WakeEvent wake_;  // to stop
  std::thread reader_;
  mutable absl::Mutex mutex_;
  PerProcess<SeizedProcesses> tracers_ ABSL_GUARDED_BY(mutex_);
  // Processes that are seized, or about to be, with their user.
  std::map<ProcessId, uid_t> seized_ ABSL_GUARDED_BY(mutex_);
  UserRate rate_ ABSL_GUARDED_BY(mutex_){kPerUserAndSecond, kMostPerUser};
  UserRate mapping_rate_ ABSL_GUARDED_BY(mutex_){kMappingsPerUserAndSecond,
                                                 kMostMappingsAtOnce};
  RecentUsers users_;  // users of the records' processes
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_WINDOWS_PRESEIZER_H_
