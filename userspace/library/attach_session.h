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

// Time limits of the steps, in milliseconds; after these the recorder is killed.
struct AttachLimits {
  uint32_t attach_msec = 60'000;
  uint32_t detach_msec = 120'000;
  uint32_t end_msec = 10'000;  // for the recorder's process to end
};

class AttachSession {
 public:
  explicit AttachSession(int root, bool tree, AttachLimits limits)
      : root_(root), tree_(tree), limits_(limits) {}
  // Leaves the recorder running: the child of a fork() destroys its copies.
  ~AttachSession() = default;

  // Starts the recorder and waits until each process is attached to or refused. After
  // an error, Has() tells whether there is a recording nevertheless. The recording ends
  // by itself after `duration_msec`; 0: it does not.
  rocattach_status_t Attach(const std::string& program,
                            const std::vector<std::string>& options,
                            uint32_t duration_msec = 0);
  // Ends the recording and waits until the output is complete.
  void RequestEnd() { recorder_->RequestEnd(); }
  rocattach_status_t Detach();

  // True if `pid` was attached to.
  bool Has(int pid) const { return attached_.count(pid) != 0; }
  // True if the recorder has ended by itself, with its targets.
  bool over() { return !recorder_->running(); }

 private:
  // Handles one line of the recorder's output.
  void Handle(const std::string& line);
  void HandleNotAttached(const RecorderEvent& event);
  // Ends the recorder; kills it if it does not end in time.
  void End();
  std::string Errors();

  const int root_;
  const bool tree_;
  const AttachLimits limits_;
  std::unique_ptr<AttachCommand> recorder_;
  std::set<int> attached_;
  bool ready_ = false, ended_ = false;
  std::string output_error_;
  // SUCCESS unless an attach failed: the root's status, and the last one of others.
  rocattach_status_t root_status_ = ROCATTACH_STATUS_SUCCESS;
  rocattach_status_t other_status_ = ROCATTACH_STATUS_SUCCESS;
  int garbled_ = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_LIBRARY_ATTACH_SESSION_H_
