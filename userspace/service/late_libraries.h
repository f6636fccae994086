// Copies of the HSA runtime that appear while the service runs.
#ifndef ROCATTACH_USERSPACE_SERVICE_LATE_LIBRARIES_H_
#define ROCATTACH_USERSPACE_SERVICE_LATE_LIBRARIES_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "bpf/watch_events.h"
#include "userspace/base/user_threads.h"
#include "userspace/service/probed_libraries.h"
#include "userspace/watch/discovery/library_discovery.h"
#include "userspace/watch/discovery/mmap_events.h"
#include "userspace/watch/late/expected_windows.h"
#include "userspace/watch/windows/kernel_probe.h"

namespace rocattach {

struct LateLibrariesOptions {
  // As in LibraryDiscoveryOptions.
  bool hold = false;
  uint32_t hold_timeout_msec = 250;
  std::function<bool(pid_t)> wanted;
  std::function<void(pid_t, uid_t)> on_mapped;
  // Called for a process that started its runtime before its copy had a probe; null: it
  // is only counted.
  std::function<void(const ProcessId&)> enter_late;
};

// Probes these copies before their hsa_init can be called, removes probes that no
// process needs any more, and counts windows that were missed nevertheless.
class LateLibraries {
 public:
  // Start() sees mappings from here on. `probe` must outlive this object. For
  // `on_missed` see ExpectedWindows::Functions.
  explicit LateLibraries(
      KernelProbe* probe,
      std::function<void(const ProcessId&, MissReason)> on_missed = nullptr);
  ~LateLibraries() { (void)Stop(absl::InfiniteDuration()); }

  // `libraries` must outlive it.
  absl::Status Start(LateLibrariesOptions options, ProbedLibraries* libraries);
  // Called when a window was seen, or is known not to come.
  void OnWindow(const ProcessId& process) { expected_.OnWindow(process); }
  // See ExpectedWindows.
  bool OnDriverUse(const ProcessId& process) { return expected_.OnDriverUse(process); }
  // Forgets probes that are not in place any more.
  void Forget(const std::vector<uint64_t>& cookies);
  // Stops the discovery. Returns false if this object, `libraries` and `probe` are
  // still in use, see LibraryDiscovery::Stop().
  bool Stop(absl::Duration patience);
  // Settles what is open; after Stop() and after OnWindow() for all windows.
  MissedWindows Finish();
  MissedWindows missed() const { return expected_.missed(); }
  // All 0 before Start(). Any thread, also during Start().
  DiscoveryCounts counts() const {
    const LibraryDiscovery* discovery = counting_.load();
    return discovery == nullptr ? DiscoveryCounts() : discovery->counts();
  }

 private:
  absl::StatusOr<std::unique_ptr<MmapEvents>> events_;
  KernelProbe* const probe_;
  UserThreads sweepers_;
  ExpectedWindows expected_;
  std::unique_ptr<LibraryDiscovery> discovery_;
  std::atomic<const LibraryDiscovery*> counting_ = nullptr;  // discovery_, once started
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SERVICE_LATE_LIBRARIES_H_
