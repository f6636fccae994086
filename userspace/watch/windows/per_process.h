// Threads that each serve one process at a time.
#ifndef ROCATTACH_USERSPACE_WATCH_WINDOWS_PER_PROCESS_H_
#define ROCATTACH_USERSPACE_WATCH_WINDOWS_PER_PROCESS_H_

#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "userspace/base/process.h"

namespace rocattach {

// For objects with a thread that traces for longer than one attach. A process can block
// such a thread, and no other thread can release what it has stopped: so each process
// has its own object. An idle() one serves the next process; further idle ones are
// destroyed then. Not thread-safe.
template <typename T>
class PerProcess {
 public:
  explicit PerProcess(std::function<std::unique_ptr<T>()> make)
      : make_(std::move(make)) {}

  T& Of(const ProcessId& process) {
    if (const auto found = all_.find(process); found != all_.end())
      return *found->second;
    std::unique_ptr<T> object;
    for (auto at = all_.begin(); at != all_.end();) {
      if (!at->second->idle()) {
        ++at;
        continue;
      }
      if (object == nullptr) object = std::move(at->second);
      at = all_.erase(at);
    }
    if (object == nullptr) object = make_();
    return *all_.emplace(process, std::move(object)).first->second;
  }
  template <typename Function>
  void ForEach(Function function) const {
    for (const auto& [process, object] : all_) function(*object);
  }

 private:
  const std::function<std::unique_ptr<T>()> make_;
  std::map<ProcessId, std::unique_ptr<T>> all_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_WINDOWS_PER_PROCESS_H_
