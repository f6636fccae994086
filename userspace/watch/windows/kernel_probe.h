// The loaded kernel side: uprobes on library copies, the event ring, settings, counts.
#ifndef ROCATTACH_USERSPACE_WATCH_WINDOWS_KERNEL_PROBE_H_
#define ROCATTACH_USERSPACE_WATCH_WINDOWS_KERNEL_PROBE_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bpf/watch_events.h"
#include "userspace/base/process.h"
#include "userspace/watch/budget.h"
#include "userspace/watch/discovery/library_probes.h"
#include "userspace/watch/late/followed_processes.h"
#include "userspace/watch/windows/hold_mode.h"
#include "userspace/watch/windows/kernel_programs.h"

namespace rocattach {

class AwaitedCall;

// Options of the kernel side.
struct KernelProbeOptions {
  bool hold = false;
  uint64_t hold_deadline_ns = 250'000'000;
  // Only processes below this one; 0: all.
  pid_t only_below = 0;
  // Only processes that followed() contains, and their descendants if requested there.
  // The windows of others are not even counted.
  bool only_followed = false;
  // Only processes of this control group and of those below it, by its ID
  // (ControlGroup::id()); 0: all. The windows of others are not even counted.
  uint64_t only_cgroup = 0;
  // The kernel side enforces only the limits on windows and processes of one user.
  BudgetLimits budget;
  // Hold modes better than this one are not tried: for tests of the others.
  HoldMode best_hold_mode = HoldMode::kYielding;
  // Programs with these features do not load, as if the kernel lacked them: for tests.
  KernelFeatures lacking;
};

// Sums over all CPUs. Lost events are those that found no room in the ring, and those
// with an unknown size or version.
using KernelStats = rocattach_bpf_stats;

// Owns every BPF object. All links are removed with it, and with the process: nothing
// is pinned, so a killed service leaves no probe behind.
class KernelProbe : public LibraryProbes {
 public:
  // Loads and verifies the programs, without the features that the kernel lacks. Errors
  // state what is missing and how to get it.
  static absl::StatusOr<std::unique_ptr<KernelProbe>> Load(
      const KernelProbeOptions& options);
  ~KernelProbe() override;

  absl::Status AddLibrary(const std::string& path, uint64_t file_offset,
                          uint64_t cookie) override;
  void RemoveLibraries(const std::vector<uint64_t>& cookies) override;
  // Late attach: puts the same probe on each of these functions for this process only,
  // with the library's cookie. The first call of any of them by any of its threads
  // opens the process's window. NOT_FOUND if it has ended. One call at a time for each
  // process.
  absl::Status AddLateProbes(const ProcessId& process, const std::string& path,
                             const std::vector<uint64_t>& file_offsets,
                             uint64_t cookie);
  // Late probes of this process note calls, instead of opening windows, for as long as
  // the returned object exists; this object must outlive it. Null if there is no room,
  // or the kernel lacks call stops.
  std::unique_ptr<AwaitedCall> AwaitCall(const ProcessId& process);
  // Allows a process whose window is over without a collector to open another one.
  void ForgetSettledWindow(const ProcessId& process);
  // Removing probes takes some 100 ms; those of several processes are removed at once.
  void RemoveLateProbes(const std::vector<ProcessId>& processes);
  // Late attach without a probe: the process's collector is to report this window.
  absl::Status ExpectReport(const ProcessId& process, uint64_t window_id);
  // Called when such an attach has failed.
  void ForgetReport(const ProcessId& process);

  // With KernelProbeOptions::only_followed: the processes that have windows.
  FollowedProcesses& followed();
  // True if the process has opened a window, or is attached.
  bool HasWindow(const ProcessId& process) const;
  // True if its window is open, or its collector has reported.
  bool IsServed(const ProcessId& process) const;
  // Called when the process's verdict is that it was not attached to: closes the
  // window, which is still open if a thread was in time to begin to load the collector.
  void CloseWindow(const ProcessId& process);

  // Puts the report probes on the collector.
  absl::Status AddCollector(const std::string& path, uint64_t ready_offset,
                            uint64_t unloaded_offset);

  HoldMode hold_mode() const { return hold_mode_; }
  // Why a better mode is not used; empty if the best one is used.
  const std::string& hold_mode_reason() const { return hold_mode_reason_; }
  // The active features of the programs, and those that the kernel lacks.
  KernelFeatures features() const;
  const std::vector<MissingFeature>& missing_features() const;

  // While paused, windows are reported and nothing is held.
  void SetPaused(bool paused);
  // Processes with this command name are not held, nor those of users other than this
  // one. A denial in the kernel costs such a process some microseconds; for a decision
  // by the service it is held until then.
  absl::Status DenyComm(absl::string_view comm);
  void OnlyUid(uint32_t uid);
  // Ends the hold of an unwanted window: the thread continues at once.
  void Release(const rocattach_event& window);

  // True while the window of the event's process is open: held, and the collector has
  // not reported.
  bool IsOpen(const rocattach_event& event) const;

  // True if the kernel describes held processes (ReadLayout).
  bool describes_processes() const;
  // True while the thread that opened the window is held, and so is alive. Reads memory
  // only. False if the kernel does not support this.
  bool IsHeld(const rocattach_event& window) const;
  // Copies what the kernel has gathered about the held process's mappings; false if it
  // has not (yet), or if a later window has reused the entry.
  bool ReadLayout(const rocattach_event& window, rocattach_layout* copy) const;
  // Sets the kind of a file in the kernel, for the layouts of later windows.
  void SetFileKind(const rocattach_file_key& file, rocattach_file_kind kind) const;

  // Readable when events are pending.
  int events_fd() const;
  // True if an event that a thread waits for is pending: a window, a report, a
  // follower. Reads memory only.
  bool HasUrgentEvents() const;
  // Passes at most one pending event to `visit`; true if there was one. One caller at a
  // time.
  bool ConsumeOne(const std::function<void(const rocattach_event&)>& visit);
  KernelStats ReadStats() const;
  // Windows that were refused because of a budget, by user; users without any are
  // omitted.
  std::vector<UserRefusals> ReadRefusals() const;

 private:
  struct State;
  explicit KernelProbe(std::unique_ptr<State> state);
  absl::Status Start(const KernelProbeOptions& options);
  absl::Status MapLayouts();
  const rocattach_layout* LayoutOf(const rocattach_event& window) const;

  std::unique_ptr<State> state_;
  HoldMode hold_mode_ = HoldMode::kNone;
  std::string hold_mode_reason_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_WINDOWS_KERNEL_PROBE_H_
