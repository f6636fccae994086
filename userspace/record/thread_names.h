// Names of the threads that appear in a process's records.
#ifndef ROCATTACH_USERSPACE_RECORD_THREAD_NAMES_H_
#define ROCATTACH_USERSPACE_RECORD_THREAD_NAMES_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "schemas/stream.pb.h"
#include "userspace/base/process.h"

namespace rocattach {

// Notices every thread once. Thread numbers come from the target and may be invented:
// so many are looked up, and no more, and what that costs is the target's to pay.
class ThreadNames {
 public:
  static constexpr size_t kMostThreads = 8192;
  // In dispatches, which take some 100 ns.
  static constexpr uint64_t kCostOfLook = 300;

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
  // What was spent since the last call, in dispatches.
  uint64_t TakeCost() { return std::exchange(cost_, 0); }

 private:
  void Look(uint32_t tid);
  // The name of a living thread of the process.
  std::optional<std::string> Read(uint32_t tid);
  // Of a process in a pid namespace: finds out which thread has which id there.
  void ReadInnerTids();

  const ProcessId id_;
  const bool own_namespace_;  // its thread ids are ours
  // The first thread: a process may be over before its records are read.
  const uint32_t main_;
  const std::string comm_;
  const std::function<void(v1::Thread)> found_;
  // Directories of threads by their ids in the process's namespace; read again for
  // threads that were not there yet.
  std::map<uint32_t, std::string> inner_;
  int inner_reads_ = 0;
  uint64_t cost_ = 0;
  uint32_t last_ = 0;
  absl::flat_hash_set<uint32_t> noted_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_THREAD_NAMES_H_
