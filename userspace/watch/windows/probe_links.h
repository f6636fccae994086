// The links by which BPF programs are attached: to tracepoints, to functions of library
// copies, and to functions of single processes (late attach).
#ifndef ROCATTACH_USERSPACE_WATCH_WINDOWS_PROBE_LINKS_H_
#define ROCATTACH_USERSPACE_WATCH_WINDOWS_PROBE_LINKS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "userspace/base/process.h"
#include "userspace/base/unique_fd.h"

struct bpf_link;
struct bpf_program;

namespace rocattach {

// Owns the links. Removing a probe waits until no CPU is inside it, some 100 ms;
// everything that is removed at once shares the wait.
class ProbeLinks {
 public:
  // `multi`: the kernel has uprobe-multi links; `cookies`: probes can carry a cookie.
  ProbeLinks(bool multi, bool cookies) : multi_(multi), cookies_(cookies) {}
  ~ProbeLinks();
  ProbeLinks(const ProbeLinks&) = delete;
  ProbeLinks& operator=(const ProbeLinks&) = delete;

  absl::Status AddTracepoint(const bpf_program* program) ABSL_LOCKS_EXCLUDED(mutex_);
  // For every process, until the end. May be called on any thread.
  absl::Status AddUprobe(const bpf_program* program, const std::string& path,
                         uint64_t file_offset) ABSL_LOCKS_EXCLUDED(mutex_);
  // For every process, until RemoveLibraries(). Both may be called on any thread.
  absl::Status AddLibrary(const bpf_program* program, const std::string& path,
                          uint64_t file_offset, uint64_t cookie)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void RemoveLibraries(const std::vector<uint64_t>& cookies)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // For one process, until RemoveLate(); more than once for more functions. OK if at
  // least one function has its probe.
  absl::Status AddLate(const bpf_program* program, const ProcessId& process,
                       const std::string& path,
                       const std::vector<uint64_t>& file_offsets, uint64_t cookie)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void RemoveLate(const std::vector<ProcessId>& processes) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  const bool multi_;
  const bool cookies_;
  absl::Mutex mutex_;
  std::vector<bpf_link*> permanent_ ABSL_GUARDED_BY(mutex_);
  // Links of libraries, by cookie: a probe is in one of these two.
  std::map<uint64_t, bpf_link*> libraries_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, UniqueFd> multi_libraries_ ABSL_GUARDED_BY(mutex_);
  // Links of late attaches: likewise, by process.
  std::map<ProcessId, std::vector<bpf_link*>> late_ ABSL_GUARDED_BY(mutex_);
  std::map<ProcessId, std::vector<UniqueFd>> multi_late_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_WINDOWS_PROBE_LINKS_H_
