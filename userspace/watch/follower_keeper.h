// Threads that enter hsa_init while another thread of their process stands in its
// window are stopped until the window is settled. If one of them overtook, the runtime
// would be loaded without the collector.
#ifndef ROCATTACH_USERSPACE_WATCH_FOLLOWER_KEEPER_H_
#define ROCATTACH_USERSPACE_WATCH_FOLLOWER_KEEPER_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "bpf/watch_events.h"
#include "injector/tracee.h"

namespace rocattach {

class FollowerKeeper {
 public:
  // `is_open` tells whether the window of an event's process is still open; nobody is
  // kept longer than `limit_msec`.
  FollowerKeeper(std::function<bool(const rocattach_event&)> is_open,
                 uint32_t limit_msec);
  ~FollowerKeeper();

  // Takes charge of the thread of a FOLLOW event. Any thread may call this.
  void Add(const rocattach_event& event);
  // Lets everybody go and ends the keeper's thread.
  void Stop();

 private:
  struct Follower {
    rocattach_event event;
    std::unique_ptr<Tracee> tracee;
    uint64_t deadline_ns = 0;
  };
  // The thread that traces: ptrace belongs to one thread. Ends when idle for a while,
  // or when a tracee can only be freed by its end.
  void Run();
  bool LetGo(Follower* follower);

  std::function<bool(const rocattach_event&)> is_open_;
  uint32_t limit_msec_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<rocattach_event> added_;
  bool running_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_FOLLOWER_KEEPER_H_
