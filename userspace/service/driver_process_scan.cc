#include "userspace/service/driver_process_scan.h"

#include <map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "userspace/gpus/kfd_processes.h"

namespace rocattach {
namespace {

// Maximum time for which Stop() waits for a reading.
constexpr absl::Duration kScanStopTimeout = absl::Seconds(1);

}  // namespace

// Shared with the thread, which may be left behind.
struct DriverProcessScan::State {
  explicit State(Options given)
      : options(std::move(given)), begin_ticks(options.boot_ns() / ClockTickNs()) {}

  enum class Standing {
    kSettled,  // older than the service, unwanted, or reported
    kNew,      // seen once: the event of its window may be on the way
  };

  // Performs one reading. False if it was stopped meanwhile.
  bool Look(bool first) ABSL_LOCKS_EXCLUDED(callbacks);
  Standing Judge(const ProcessId& process, bool first)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(callbacks);

  const Options options;
  const uint64_t begin_ticks;  // when the service began
  absl::Mutex callbacks;
  bool stopped ABSL_GUARDED_BY(callbacks) = false;
  std::map<ProcessId, Standing> known ABSL_GUARDED_BY(callbacks);
};

DriverProcessScan::State::Standing DriverProcessScan::State::Judge(
    const ProcessId& process, bool first) {
  if (first && process.start_ticks <= begin_ticks) return Standing::kSettled;
  const auto before = known.find(process);
  if (before == known.end()) return Standing::kNew;
  if (before->second == Standing::kSettled) return Standing::kSettled;
  const bool wanted = options.wanted == nullptr || options.wanted(process.pid);
  if (wanted && options.on_driver_use(process) && options.enter_late != nullptr) {
    options.enter_late(process);
  }
  return Standing::kSettled;
}

bool DriverProcessScan::State::Look(bool first) {
  // Without the lock: a driver that hangs must not keep Stop() waiting.
  const auto listed = ListKfdProcesses(options.roots, options.most_processes);
  std::vector<ProcessId> processes;
  if (listed.ok()) {
    for (pid_t pid : listed->pids) {
      const auto ticks = options.read_start_ticks(pid);
      // Fails for a process of another PID namespace, or one that has just ended.
      if (ticks.ok()) processes.push_back({pid, *ticks});
    }
  }
  absl::MutexLock calling(&callbacks);
  if (stopped) return false;
  // Processes that the driver no longer lists are forgotten.
  std::map<ProcessId, Standing> now;
  for (const ProcessId& process : processes) now[process] = Judge(process, first);
  known = std::move(now);
  return true;
}

DriverProcessScan::DriverProcessScan(Options options)
    : state_(std::make_shared<State>(std::move(options))),
      thread_("rwa-driver", kScanStopTimeout,
              [state = state_](const DetachableThread::StopToken& stop) {
                for (bool first = true; state->Look(first); first = false) {
                  if (stop.WaitFor(state->options.period)) break;
                }
              }) {}

DriverProcessScan::~DriverProcessScan() {
  Stop();
}

void DriverProcessScan::Stop() {
  {
    absl::MutexLock calling(&state_->callbacks);
    state_->stopped = true;
  }
  thread_.Stop();
}

}  // namespace rocattach
