// Observers of the recorder, called on the recorder's thread. Must not wait.
#ifndef ROCATTACH_USERSPACE_RECORD_RECORDER_OBSERVER_H_
#define ROCATTACH_USERSPACE_RECORD_RECORDER_OBSERVER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "schemas/stream.pb.h"
#include "userspace/record/sampling_level.h"
#include "userspace/session/session_backend.h"

namespace rocattach {

// Observes processes that sessions can use.
class TargetObserver {
 public:
  virtual ~TargetObserver() = default;
  // A process can be described now. `waiting`: it waits in its OnLoad until
  // Target::AcknowledgeMapped, for a limited time.
  virtual void OnTargetReady(ProcessId target, TargetDescription description,
                             bool waiting) = 0;
  // A process that was ready has ended.
  virtual void OnTargetGone(ProcessId target) = 0;
  // A process used the runtime and ended before it could be described, as can happen
  // after a late attach. Called before RecorderObserver::OnEnd.
  virtual void OnTargetMissed(ProcessId target) = 0;
};

// Observes verdicts and ends.
class RecorderObserver {
 public:
  virtual ~RecorderObserver() = default;
  virtual void OnVerdict(const v1::Process& process, const v1::WindowEvent& verdict) {
    (void)process, (void)verdict;
  }
  virtual void OnEnd(const v1::Process& process, const v1::ProcessEnd& end,
                     const v1::LossAccount& account) {
    (void)process, (void)end, (void)account;
  }
  // The process's numbers are implausible: it is no longer read. Once for a process.
  virtual void OnNotBelievable(const v1::Process& process, const std::string& why) {
    (void)process, (void)why;
  }
  // The process uses GPUs in a way that its collector does not see; `why`: the
  // evidence. Once for a process.
  virtual void OnUnseenWork(const v1::Process& process, const std::string& why) {
    (void)process, (void)why;
  }
  // Nothing can be written at the moment; processes run on, and what they report is
  // lost and counted.
  virtual void OnRecordingPaused(const absl::Status& why) { (void)why; }
  // Output can be written again; `records_lost` records were lost meanwhile.
  virtual void OnRecordingResumed(uint64_t records_lost) { (void)records_lost; }
  // From now on, dispatches are recorded at this level, and the others counted, because
  // of the service's budget; `why`: how much of it was used.
  virtual void OnSampling(const SamplingLevel& level, const std::string& why) {
    (void)level, (void)why;
  }
};

// Each is called in this order.
using RecorderObservers = std::vector<RecorderObserver*>;

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_RECORDER_OBSERVER_H_
