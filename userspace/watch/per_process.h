// Threads that each serve one process at a time.
#ifndef ROCATTACH_USERSPACE_WATCH_PER_PROCESS_H_
#define ROCATTACH_USERSPACE_WATCH_PER_PROCESS_H_

#include <sys/types.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <utility>

namespace rocattach {

// For objects with a thread that traces for longer than one attach. A process can keep
// such a thread waiting, and nobody else can release what the thread has stopped: so
// each process has its own. One that is idle() serves the next process. Not thread-safe.
template <typename T>
class PerProcess {
 public:
  explicit PerProcess(std::function<std::unique_ptr<T>()> make)
      : make_(std::move(make)) {}

  T& Of(pid_t pid) {
    if (const auto found = all_.find(pid); found != all_.end()) return *found->second;
    const auto idle = std::find_if(all_.begin(), all_.end(), [](const auto& entry) {
      return entry.second->idle();
    });
    if (idle == all_.end()) return *all_.emplace(pid, make_()).first->second;
    auto entry = all_.extract(idle);
    entry.key() = pid;
    return *all_.insert(std::move(entry)).position->second;
  }
  template <typename Function>
  void ForEach(Function function) const {
    for (const auto& [pid, object] : all_) function(*object);
  }

 private:
  const std::function<std::unique_ptr<T>()> make_;
  std::map<pid_t, std::unique_ptr<T>> all_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_PER_PROCESS_H_
