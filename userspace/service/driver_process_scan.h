// Finds processes that use /dev/kfd although no window of theirs was seen: their copy
// of the runtime, whatever it is, has no probe.
#ifndef ROCATTACH_USERSPACE_SERVICE_DRIVER_PROCESS_SCAN_H_
#define ROCATTACH_USERSPACE_SERVICE_DRIVER_PROCESS_SCAN_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "userspace/base/clock.h"
#include "userspace/base/detachable_thread.h"
#include "userspace/base/process.h"
#include "userspace/gpus/gpu_roots.h"

namespace rocattach {

// A runtime that is linked statically, or whose file has another name, opens /dev/kfd
// like any other, and the driver lists the processes that have it open. This list is
// read periodically, which costs reading one directory; tracing every open() on the
// machine would cost each of them something.
class DriverProcessScan {
 public:
  struct Options {
    GpuRoots roots;
    absl::Duration period = absl::Seconds(1);
    size_t most_processes = 16'384;
    // True if a process's windows are of interest.
    std::function<bool(pid_t)> wanted;
    // Called when the driver lists a process; returns true if its window was missed.
    std::function<bool(const ProcessId&)> on_driver_use;
    // Called for each process whose window was missed; may be null.
    std::function<void(const ProcessId&)> enter_late;
    std::function<absl::StatusOr<uint64_t>(pid_t)> read_start_ticks = ReadStartTicks;
    std::function<uint64_t()> boot_ns = BootNs;
  };

  // Processes that have been started by now, and that the driver lists at the first
  // reading, count as older than the service.
  explicit DriverProcessScan(Options options);
  ~DriverProcessScan();

  // No function of the options is called afterwards. A reading that does not finish,
  // because the driver hangs, is left behind.
  void Stop();

 private:
  struct State;

  const std::shared_ptr<State> state_;
  DetachableThread thread_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SERVICE_DRIVER_PROCESS_SCAN_H_
