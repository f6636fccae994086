#include "tests/simrocm/sdk/completions.h"

#include <sched.h>

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

#include "tests/simrocm/sdk/hsa.h"

namespace simrocm::sdk {
namespace {

// Each of upstream's four threads waits for the packets of one doorbell until they have
// ended, so that an application whose dispatches wait for each other can hang.
// The thread here polls all queues in turn.
constexpr int kLooks = 50;
constexpr auto kPause = std::chrono::microseconds(50);

struct Waiter {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<const hsa_queue_t*, std::deque<Completion>> awaited;
  const hsa_queue_t* delivering = nullptr;  // one of this queue is being delivered
  bool started = false;
};

Waiter& Get() {
  static auto* waiter = new Waiter;
  return *waiter;
}

bool IsOver(const Completion& completion) {
  return Core().hsa_signal_load_scacquire_fn(completion.signal) < completion.value;
}

void Finish(Completion completion) {
  Deliver(completion.dispatch.get(), completion.signal);
  const hsa_queue_t* queue = completion.dispatch->queue;
  // A waiter for the last dispatch of a queue may end the runtime, and the application
  // may destroy a signal and a queue that it sees finished: EndDispatch() uses only the
  // address of the queue.
  if (completion.own == nullptr) {
    Core().hsa_signal_subtract_relaxed_fn(completion.signal, 1);
  }
  completion.own.reset();
  EndDispatch(queue);
}

// Delivers a dispatch that has ended. Returns true if there was one.
bool LookOnce(Waiter* waiter, std::unique_lock<std::mutex>* lock) {
  for (auto& [queue, completions] : waiter->awaited) {
    if (completions.empty() || !IsOver(completions.front())) continue;
    Completion completion = std::move(completions.front());
    completions.pop_front();
    waiter->delivering = queue;
    lock->unlock();
    Finish(std::move(completion));
    lock->lock();
    waiter->delivering = nullptr;
    waiter->changed.notify_all();
    return true;  // the map may have changed
  }
  return false;
}

void Run() {
  Waiter& waiter = Get();
  std::unique_lock lock(waiter.mutex);
  int looks = 0;
  for (;;) {
    std::erase_if(waiter.awaited, [](const auto& item) { return item.second.empty(); });
    waiter.changed.wait(lock, [&] { return !waiter.awaited.empty(); });
    if (LookOnce(&waiter, &lock)) {
      looks = 0;
    } else if (++looks < kLooks) {
      lock.unlock();
      sched_yield();
      lock.lock();
    } else {
      waiter.changed.wait_for(lock, kPause);
    }
  }
}

}  // namespace

void AwaitCompletion(Completion completion) {
  Waiter& waiter = Get();
  std::lock_guard lock(waiter.mutex);
  if (!waiter.started) {
    waiter.started = true;
    std::thread(Run).detach();
  }
  const hsa_queue_t* queue = completion.dispatch->queue;
  waiter.awaited[queue].push_back(std::move(completion));
  waiter.changed.notify_all();
}

void AbandonCompletions(const hsa_queue_t* queue) {
  Waiter& waiter = Get();
  std::unique_lock lock(waiter.mutex);
  std::erase_if(waiter.awaited, [&](const auto& item) {
    return queue == nullptr || item.first == queue;
  });
  waiter.changed.wait(lock, [&] {
    return waiter.delivering == nullptr ||
           (queue != nullptr && waiter.delivering != queue);
  });
}

}  // namespace simrocm::sdk
