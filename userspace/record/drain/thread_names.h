// Names of the threads that appear in a process's records.
#ifndef ROCATTACH_USERSPACE_RECORD_DRAIN_THREAD_NAMES_H_
#define ROCATTACH_USERSPACE_RECORD_DRAIN_THREAD_NAMES_H_

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

// Looks up every thread once. Thread ids come from the target and may be invented: no
// more than kMostThreads are looked up, and the cost is charged to the target.
class ThreadNames {
 public:
  static constexpr size_t kMostThreads = 8192;
  // Cost of a look-up, in dispatches, which take about 100 ns.
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
  void Add(uint32_t tid) {
    if (tid != last_) Look(tid);
  }
  // The cost since the last call, in dispatches.
  uint64_t TakeCost() { return std::exchange(cost_, 0); }

 private:
  void Look(uint32_t tid);
  // The name of a living thread of the process.
  std::optional<std::string> Read(uint32_t tid);
  // For a process in a pid namespace: finds out which thread has which id there.
  void ReadInnerTids();

  const ProcessId id_;
  const bool own_namespace_;  // its thread ids are the service's
  // The first thread: the process may have ended before its records are read.
  const uint32_t main_;
  const std::string comm_;
  const std::function<void(v1::Thread)> found_;
  // Directories of threads by their ids in the process's namespace; read again for
  // threads that were not there yet.
  std::map<uint32_t, std::string> inner_;
  int inner_reads_ = 0;
  uint64_t cost_ = 0;
  uint32_t last_ = 0;
  absl::flat_hash_set<uint32_t> known_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_DRAIN_THREAD_NAMES_H_
