// Remembers which refusals of sessions have been reported already.
#ifndef ROCATTACH_USERSPACE_SERVICE_REFUSAL_NOTICES_H_
#define ROCATTACH_USERSPACE_SERVICE_REFUSAL_NOTICES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "userspace/session/session_types.h"

namespace rocattach {

// A refusal is written to the stream once for each lost period, and shown to users once
// for each reason. Not thread-safe.
class RefusalNotices {
 public:
  struct Due {
    bool stream = false;  // write it to the process's stream
    bool people = false;  // and show it
  };

  // Adds the refusal of session `session` by the process in its `period`th period; the
  // returned actions count as done.
  Due Add(uint64_t session, ProcessId target, const std::string& why, uint64_t period);
  // Called when the session is over.
  void Forget(uint64_t session);
  // Forgets all other processes.
  void KeepOnly(const std::set<ProcessId>& targets);
  size_t size() const { return last_.size(); }

 private:
  struct Notice {
    std::string why;
    uint64_t period = 0;
  };
  std::map<std::pair<uint64_t, ProcessId>, Notice> last_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SERVICE_REFUSAL_NOTICES_H_
