#include "tests/simrocm/sdk/handlers.h"

#include <hsa/hsa_ext_amd.h>

#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "tests/simrocm/environment.h"
#include "tests/simrocm/sdk/hsa.h"

namespace simrocm::sdk {
namespace {

struct Handler {
  hsa_signal_t signal;
  hsa_amd_signal_handler function;
  void* argument;
};

struct State {
  // 0: no registration is missed.
  const unsigned long every = strtoul(  // NOLINT(google-runtime-int)
      GetString("SIMROCM_LOSE_WAKEUPS").c_str(), nullptr, 10);
  std::mutex mutex;
  uint64_t registered = 0;
  std::vector<Handler> slept_through;
};

State& Get() {
  static auto* state = new State;
  return *state;
}

void Register(const Handler& handler) {
  AmdExt().hsa_amd_signal_async_handler_fn(handler.signal, HSA_SIGNAL_CONDITION_LT, 1,
                                           handler.function, handler.argument);
}

// Call when the runtime's thread is woken.
void RegisterThoseSleptThrough() {
  std::vector<Handler> handlers;
  {
    std::lock_guard lock(Get().mutex);
    handlers.swap(Get().slept_through);
  }
  for (const Handler& handler : handlers) Register(handler);
}

bool SleepsThrough(const Handler& handler) {
  State& state = Get();
  if (state.every == 0) return false;
  std::lock_guard lock(state.mutex);
  if (++state.registered % state.every != 0) return false;
  state.slept_through.push_back(handler);
  return true;
}

hsa_status_t AsyncFunction(void (*function)(void* argument), void* argument) {
  RegisterThoseSleptThrough();
  return AmdExt().hsa_amd_async_function_fn(function, argument);
}

hsa_status_t AsyncHandler(hsa_signal_t signal, hsa_signal_condition_t condition,
                          hsa_signal_value_t value, hsa_amd_signal_handler handler,
                          void* argument) {
  RegisterThoseSleptThrough();
  return AmdExt().hsa_amd_signal_async_handler_fn(signal, condition, value, handler,
                                                  argument);
}

}  // namespace

void HandleCompletion(hsa_signal_t signal, hsa_amd_signal_handler handler,
                      void* argument) {
  const Handler wanted{signal, handler, argument};
  if (SleepsThrough(wanted)) return;
  if (Get().every != 0) RegisterThoseSleptThrough();
  Register(wanted);
}

void InstallHandlers(HsaApiTable* table) {
  if (Get().every == 0) return;
  table->amd_ext_->hsa_amd_async_function_fn = &AsyncFunction;
  table->amd_ext_->hsa_amd_signal_async_handler_fn = &AsyncHandler;
}

}  // namespace simrocm::sdk
