#include "tests/simrocm/sdk/signals.h"

#include <mutex>
#include <vector>

#include "tests/simrocm/call_log.h"
#include "tests/simrocm/sdk/hsa.h"

namespace simrocm::sdk {
namespace {

struct Pool {
  std::mutex mutex;
  std::vector<hsa_signal_t> free;
};

Pool& Get() {
  static auto* pool = new Pool;
  return *pool;
}

void GiveBack(hsa_signal_t* signal) {
  std::lock_guard lock(Get().mutex);
  Get().free.push_back(*signal);
  delete signal;
}

}  // namespace

SignalReference AcquireSignal() {
  hsa_signal_t signal{0};
  {
    std::lock_guard lock(Get().mutex);
    if (!Get().free.empty()) {
      signal = Get().free.back();
      Get().free.pop_back();
    }
  }
  if (signal.handle != 0) {
    Core().hsa_signal_store_screlease_fn(signal, 1);
  } else if (Core().hsa_signal_create_fn(1, 0, nullptr, &signal) !=
             HSA_STATUS_SUCCESS) {
    Fatal("hsa_signal_create failed");
  }
  return SignalReference(new hsa_signal_t(signal), GiveBack);
}

void DestroyFreeSignals() {
  std::lock_guard lock(Get().mutex);
  for (hsa_signal_t signal : Get().free) Core().hsa_signal_destroy_fn(signal);
  Get().free.clear();
}

}  // namespace simrocm::sdk
