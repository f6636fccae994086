#include "tests/simrocm/sdk/serializer.h"

#include <list>
#include <map>
#include <mutex>
#include <set>

#include "tests/simrocm/call_log.h"
#include "tests/simrocm/sdk/dispatch_records.h"
#include "tests/simrocm/sdk/hsa.h"

namespace simrocm::sdk {
namespace {

struct Barrier {
  SignalReference signal;
  std::map<const hsa_queue_t*, uint32_t> awaited;  // dispatches that must end
  std::set<const hsa_queue_t*> met;                // queues that wait for it
};

struct State {
  std::mutex mutex;
  std::list<Barrier> closed;
};

State& Get() {
  static auto* state = new State;
  return *state;
}

// Opens the barriers that await nothing any more. Call with the mutex held.
void OpenBarriers(State* state) {
  std::erase_if(state->closed, [](const Barrier& barrier) {
    if (!barrier.awaited.empty()) return false;
    Core().hsa_signal_store_screlease_fn(*barrier.signal, 0);
    return true;
  });
}

}  // namespace

void SetBarrier() {
  if (!HsaIsLoaded()) return;
  State& state = Get();
  std::lock_guard lock(state.mutex);
  Barrier barrier{nullptr, DispatchesUnderWay(), {}};
  if (barrier.awaited.empty()) return;
  barrier.signal = AcquireSignal();
  Log("sdk.barrier queues=%zu", barrier.awaited.size());
  state.closed.push_back(std::move(barrier));
}

std::vector<SignalReference> BarriersInFrontOf(const hsa_queue_t* queue) {
  State& state = Get();
  std::lock_guard lock(state.mutex);
  std::vector<SignalReference> signals;
  for (Barrier& barrier : state.closed) {
    if (barrier.met.insert(queue).second) signals.push_back(barrier.signal);
  }
  return signals;
}

void PassBarriers(const hsa_queue_t* queue) {
  State& state = Get();
  std::lock_guard lock(state.mutex);
  for (Barrier& barrier : state.closed) {
    auto found = barrier.awaited.find(queue);
    if (found != barrier.awaited.end() && --found->second == 0) {
      barrier.awaited.erase(found);
    }
  }
  OpenBarriers(&state);
}

void ForgetBarriersOf(const hsa_queue_t* queue) {
  State& state = Get();
  std::lock_guard lock(state.mutex);
  for (Barrier& barrier : state.closed) {
    if (queue == nullptr) {
      barrier.awaited.clear();
    } else {
      barrier.awaited.erase(queue);
      barrier.met.erase(queue);
    }
  }
  OpenBarriers(&state);
}

}  // namespace simrocm::sdk
