// Observers of the recorder, called on the recorder's thread. Must not wait.
#ifndef ROCATTACH_USERSPACE_RECORD_RECORDER_OBSERVER_H_
#define ROCATTACH_USERSPACE_RECORD_RECORDER_OBSERVER_H_

#include <string>

#include "schemas/stream.pb.h"
#include "userspace/session/session_backend.h"

namespace rocattach {

// Observes processes that sessions can use.
class TargetObserver {
 public:
  virtual ~TargetObserver() = default;
  // It can be described now. `waiting`: it is held in its OnLoad until
  // Target::AcknowledgeMapped, for a limited time.
  virtual void OnTargetReady(ProcessId target, TargetDescription description,
                             bool waiting) = 0;
  // A process that was ready has ended.
  virtual void OnTargetGone(ProcessId target) = 0;
};

// Observes verdicts and ends.
class RecorderObserver {
 public:
  virtual ~RecorderObserver() = default;
  virtual void OnVerdict(const v1::Process& process,
                         const v1::WindowEvent& verdict) = 0;
  virtual void OnEnd(const v1::Process& process, const v1::ProcessEnd& end,
                     const v1::LossAccount& account) = 0;
  // Its numbers are implausible, and it is no longer read. Once for a process.
  virtual void OnNotBelievable(const v1::Process& process, const std::string& why) {
    (void)process, (void)why;
  }
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_RECORDER_OBSERVER_H_
