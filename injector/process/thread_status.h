// The fields of /proc/PID/task/TID/status that matter to an attach.
#ifndef ROCATTACH_INJECTOR_PROCESS_THREAD_STATUS_H_
#define ROCATTACH_INJECTOR_PROCESS_THREAD_STATUS_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace rocattach {

struct ThreadStatus {
  char state = '?';     // as in ps: R S D T t Z X
  pid_t inner_tid = 0;  // its ID in its own namespace; 0: not known
  pid_t parent = 0;
  pid_t tracer = 0;    // 0: not traced
  uid_t file_uid = 0;  // the ids that file access is checked against
  gid_t file_gid = 0;
  std::vector<gid_t> groups;
  uint64_t effective_capabilities = 0;
  int seccomp_mode = 0;  // 0 off, 1 strict, 2 filter
  // Signal sets; bit 0 is signal 1. `blocked` is the mask at this instant: in a call
  // with a mask of its own (ppoll), that one.
  uint64_t pending = 0;  // for the thread or for its process
  uint64_t blocked = 0;
};

// NOT_FOUND when there is no such thread in that process.
absl::StatusOr<ThreadStatus> ReadThreadStatus(pid_t pid, pid_t tid);

// Parses the text of a status file; unknown lines are skipped.
ThreadStatus ParseThreadStatus(absl::string_view text);

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_PROCESS_THREAD_STATUS_H_
