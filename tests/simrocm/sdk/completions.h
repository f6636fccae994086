// Waits for dispatches whose signals have no handler of the runtime.
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
  hsa_signal_value_t value = 1;  // the dispatch has ended when it is lower
};

// Delivers the records on a thread of the SDK once the dispatch has ended, and lowers
// the application's signal. Dispatches of one queue end in the order of these calls.
void AwaitCompletion(Completion completion);

// Stops waiting for dispatches of the queue, or of all queues (nullptr): the runtime
// drops them.
void AbandonCompletions(const hsa_queue_t* queue);

}  // namespace simrocm::sdk

#endif  // ROCATTACH_TESTS_SIMROCM_SDK_COMPLETIONS_H_
