// The processes that are known to be translated.
#ifndef ROCATTACH_USERSPACE_WATCH_DISCOVERY_KNOWN_TRANSLATED_H_
#define ROCATTACH_USERSPACE_WATCH_DISCOVERY_KNOWN_TRANSLATED_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "userspace/base/process.h"

namespace rocattach {

// Each user has room for kMostPerUser processes, and cannot take the room of another
// one. Not thread-safe.
class KnownTranslated {
 public:
  static constexpr size_t kMostPerUser = 1024;

  // False if its user has too many now: Trim() must follow.
  bool Add(const ProcessId& process, uid_t uid);
  // The processes of a user, the oldest first.
  std::vector<ProcessId> Of(uid_t uid) const;
  // Removes those that have ended, and the oldest ones of the user if there still are
  // too many.
  void Trim(uid_t uid, const std::vector<ProcessId>& ended);
  // False if it is not known, or was reported for this copy of the runtime already.
  bool Report(const ProcessId& process, uint64_t cookie);
  // All processes, with their users.
  std::vector<std::pair<pid_t, uid_t>> All() const;

 private:
  struct Process {
    uint64_t start_ticks = 0;
    uid_t uid = 0;
    uint64_t number = 0;          // in the order of Add()
    std::set<uint64_t> reported;  // cookies
  };
  void Remove(pid_t pid);

  std::map<pid_t, Process> processes_;  // of those with the same ID, the last one
  std::map<uid_t, std::map<uint64_t, pid_t>> by_age_;  // by Process::number
  uint64_t last_ = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_DISCOVERY_KNOWN_TRANSLATED_H_
