// One recording: of a process, or of a process and its descendants.
#ifndef ROCATTACH_USERSPACE_LIBRARY_ATTACH_SESSION_H_
#define ROCATTACH_USERSPACE_LIBRARY_ATTACH_SESSION_H_

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "userspace/library/attach_command.h"
#include "userspace/library/recorder_event.h"
#include "userspace/library/rocattach.h"

namespace rocattach {

// How long a step may take before the recorder is killed, in milliseconds.
struct AttachLimits {
  uint32_t attach_msec = 60'000;
  uint32_t detach_msec = 120'000;
  uint32_t end_msec = 10'000;  // from the end of the input to that of the process
};

class AttachSession {
 public:
  explicit AttachSession(int root, bool tree, AttachLimits limits)
      : root_(root), tree_(tree), limits_(limits) {}
  // Leaves the recorder running: the child of a fork() destroys its copies.
  ~AttachSession() = default;

  // Starts the recorder and waits until each process is attached to or refused. After
  // an error only Has() says whether there is a recording nevertheless. It ends by
  // itself after `duration_msec`; 0: it does not.
  rocattach_status_t Attach(const std::string& program,
                            const std::vector<std::string>& options,
                            uint32_t duration_msec = 0);
  // Ends the recording and waits until the output is complete.
  void RequestEnd() { recorder_->RequestEnd(); }
  rocattach_status_t Detach();

  // `pid` was attached to.
  bool Has(int pid) const { return attached_.count(pid) != 0; }
  // The recorder has ended by itself, with its targets.
  bool over() { return !recorder_->running(); }

 private:
  // Handles one line of the recorder.
  void Handle(const std::string& line);
  void HandleNotAttached(const RecorderEvent& event);
  // Makes the recorder end, with force if it must be.
  void End();
  std::string Errors();

  const int root_;
  const bool tree_;
  const AttachLimits limits_;
  std::unique_ptr<AttachCommand> recorder_;
  std::set<int> attached_;
  bool ready_ = false, ended_ = false;
  std::string output_error_;
  // SUCCESS until something has failed: of the root, and the last one of the others.
  rocattach_status_t root_status_ = ROCATTACH_STATUS_SUCCESS;
  rocattach_status_t other_status_ = ROCATTACH_STATUS_SUCCESS;
  int garbled_ = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_LIBRARY_ATTACH_SESSION_H_
