// Enters processes through the thread that they have for attachers.
#ifndef ROCATTACH_USERSPACE_SERVICE_LISTENER_ENTRIES_H_
#define ROCATTACH_USERSPACE_SERVICE_LISTENER_ENTRIES_H_

#include <sys/types.h>

#include <map>
#include <memory>
#include <string>

#include "userspace/listener/listener_session.h"
#include "userspace/watch/sdk_entry.h"

namespace rocattach {

// One session of rocprofiler-register for each process. All calls come one at a time.
class ListenerEntries : public SdkEntry {
 public:
  ListenerEntries() = default;
  ~ListenerEntries() override { DetachAll(); }

  absl::StatusOr<pid_t> FindThread(pid_t pid) override;
  void Forget(pid_t pid) override { sessions_.erase(pid); }
  absl::Status Enter(pid_t pid, const std::string& library) override;
  // Ends all sessions: what the SDK has not delivered yet is in the rings when this
  // returns.
  void DetachAll();

 private:
  // Of the processes that were entered, or may be.
  std::map<pid_t, std::unique_ptr<ListenerSession>> sessions_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SERVICE_LISTENER_ENTRIES_H_
