#include "tests/simrocm/sdk/turns.h"

#include <hsa/hsa_ext_amd.h>

#include <deque>
#include <mutex>
#include <unordered_map>

#include "tests/simrocm/sdk/handlers.h"
#include "tests/simrocm/sdk/hsa.h"
#include "tests/simrocm/sdk/state.h"

namespace simrocm::sdk {
namespace {

struct Gpu {
  const Turn* current = nullptr;
  std::deque<const Turn*> ready;
};

struct State {
  std::mutex mutex;
  std::unordered_map<uint64_t, Gpu> gpus;  // by the agent's handle
};

State& Get() {
  static auto* state = new State;
  return *state;
}

// Call with the mutex held.
void GrantNext(Gpu* gpu) {
  if (gpu->current != nullptr || gpu->ready.empty()) return;
  gpu->current = gpu->ready.front();
  gpu->ready.pop_front();
  Core().hsa_signal_store_screlease_fn(*gpu->current->granted, 0);
}

// Called on the runtime's thread for asynchronous handlers. The dispatch cannot have
// ended: it waits for its turn.
bool OnReady(hsa_signal_value_t, void* argument) {
  const auto* turn = static_cast<const Turn*>(argument);
  std::lock_guard lock(Get().mutex);
  Gpu& gpu = Get().gpus[turn->agent];
  gpu.ready.push_back(turn);
  GrantNext(&gpu);
  return false;  // the handler is used up
}

}  // namespace

void AwaitTurn(hsa_agent_t agent, const hsa_queue_t* queue, Turn* turn) {
  turn->agent = agent.handle;
  turn->queue = queue;
  turn->ready = AcquireSignal();
  turn->granted = AcquireSignal();
  HandleCompletion(*turn->ready, OnReady, turn);
}

void PassTurn(const Turn* turn) {
  if (turn->ready == nullptr) return;
  std::lock_guard lock(Get().mutex);
  Gpu& gpu = Get().gpus[turn->agent];
  if (gpu.current != turn) return;  // its queue was given up
  gpu.current = nullptr;
  GrantNext(&gpu);
}

void ForgetTurnsOf(const hsa_queue_t* queue) {
  std::lock_guard lock(Get().mutex);
  for (auto& [agent, gpu] : Get().gpus) {
    std::erase_if(gpu.ready, [queue](const Turn* turn) {
      return queue == nullptr || turn->queue == queue;
    });
    if (gpu.current != nullptr && (queue == nullptr || gpu.current->queue == queue)) {
      gpu.current = nullptr;
    }
    GrantNext(&gpu);
  }
}

}  // namespace simrocm::sdk
