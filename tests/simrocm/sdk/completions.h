// Waiting for dispatches whose signals have no handler of the runtime.
#ifndef ROCATTACH_TESTS_SIMROCM_SDK_COMPLETIONS_H_
#define ROCATTACH_TESTS_SIMROCM_SDK_COMPLETIONS_H_

#include <hsa/hsa.h>

#include <memory>

#include "tests/simrocm/sdk/dispatch_records.h"
#include "tests/simrocm/sdk/signals.h"

namespace simrocm::sdk {

struct Completion {
  std::unique_ptr<Dispatch> dispatch;
  hsa_signal_t signal{0};
  SignalReference own;           // null: the application's signal, raised by one
  hsa_signal_value_t value = 1;  // below it the dispatch is over
};

// Delivers the records once the dispatch is over, on a thread of the SDK, and lowers
// the application's signal. Those of one queue are over in the order of these calls.
void AwaitCompletion(Completion completion);

// Gives up what is still awaited of the queue, or of all (nullptr): the runtime drops
// it.
void AbandonCompletions(const hsa_queue_t* queue);

}  // namespace simrocm::sdk

#endif  // ROCATTACH_TESTS_SIMROCM_SDK_COMPLETIONS_H_
