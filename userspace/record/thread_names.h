// Names of the threads that appear in a process's records.
#ifndef ROCATTACH_USERSPACE_RECORD_THREAD_NAMES_H_
#define ROCATTACH_USERSPACE_RECORD_THREAD_NAMES_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "schemas/stream.pb.h"
#include "userspace/base/process.h"

namespace rocattach {

// Notices every thread once. Thread numbers come from the target and may be invented:
// so many are looked up, and no more.
class ThreadNames {
 public:
  static constexpr size_t kMostThreads = 8192;

  // `found` is called with every thread that has a name.
  ThreadNames(const v1::Process& process, std::function<void(v1::Thread)> found)
      : id_{static_cast<pid_t>(process.pid()), process.start_ticks()},
        own_namespace_(process.inner_pid() == 0 ||
                       process.inner_pid() == process.pid()),
        main_(process.inner_pid() != 0 ? process.inner_pid() : process.pid()),
        comm_(process.comm()),
        found_(std::move(found)) {}

  // A record names this thread, in the process's pid namespace.
  void Note(uint32_t tid) {
    if (tid != last_) Look(tid);
  }

 private:
  void Look(uint32_t tid);
  // The name of a living thread of the process.
  std::optional<std::string> Read(uint32_t tid) const;

  const ProcessId id_;
  const bool own_namespace_;  // its thread ids are ours
  // The first thread: a process may be over before its records are read.
  const uint32_t main_;
  const std::string comm_;
  const std::function<void(v1::Thread)> found_;
  uint32_t last_ = 0;
  absl::flat_hash_set<uint32_t> noted_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_THREAD_NAMES_H_
