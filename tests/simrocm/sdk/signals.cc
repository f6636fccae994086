#include "tests/simrocm/sdk/signals.h"

#include <atomic>
#include <mutex>
#include <vector>

#include "tests/simrocm/call_log.h"
#include "tests/simrocm/sdk/hsa.h"
#include "tests/simrocm/sdk/state.h"

namespace simrocm::sdk {
namespace {

struct Pool {
  std::atomic<bool> used{false};
  std::mutex mutex;
  std::vector<hsa_signal_t> free;
};

Pool& Get() {
  static auto* pool = new Pool;
  return *pool;
}

void GiveBack(hsa_signal_t* signal) {
  if (Get().used) {
    std::lock_guard lock(Get().mutex);
    Get().free.push_back(*signal);
  } else if (FiniStatus() <= 0) {
    Core().hsa_signal_destroy_fn(*signal);
  }
  delete signal;
}

}  // namespace

void PoolSignals(bool pool) {
  Get().used = pool;
}

SignalReference AcquireSignal() {
  hsa_signal_t signal{0};
  if (Get().used) {
    std::lock_guard lock(Get().mutex);
    if (!Get().free.empty()) {
      signal = Get().free.back();
      Get().free.pop_back();
    }
  }
  if (signal.handle != 0) {
    Core().hsa_signal_store_screlease_fn(signal, 1);
  } else if (AmdExt().hsa_amd_signal_create_fn(1, 0, nullptr, 0, &signal) !=
             HSA_STATUS_SUCCESS) {
    Fatal("hsa_amd_signal_create failed");
  }
  return SignalReference(new hsa_signal_t(signal), GiveBack);
}

void DestroyFreeSignals() {
  std::lock_guard lock(Get().mutex);
  for (hsa_signal_t signal : Get().free) Core().hsa_signal_destroy_fn(signal);
  Get().free.clear();
}

}  // namespace simrocm::sdk
