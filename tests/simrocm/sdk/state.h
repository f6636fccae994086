// The simulated SDK's contexts, buffers and clients, and the rules for their use.
//
// Contexts and buffers are made while a tool initialises and live as long as the
// process. A dispatch or a copy captures what it needs of them when it is enqueued, so
// that its records are delivered even if the context is stopped.
#ifndef ROCATTACH_TESTS_SIMROCM_SDK_STATE_H_
#define ROCATTACH_TESTS_SIMROCM_SDK_STATE_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "userspace/collector/sdk/abi.h"

#define SIMROCM_EXPORT extern "C" __attribute__((visibility("default")))

namespace simrocm::sdk {

class Buffer;
struct CounterConfig;

struct BufferTracing {
  std::vector<rocattach_sdk_operation> operations;  // empty: all
  Buffer* buffer = nullptr;
};

struct CallbackTracing {
  std::vector<rocattach_sdk_operation> operations;  // empty: all
  rocattach_sdk_callback_tracing_cb callback = nullptr;
  void* data = nullptr;
};

// A tool's request to be asked for the external correlation ids of operations.
struct CorrelationRequest {
  rocattach_sdk_correlation_cb callback = nullptr;
  void* data = nullptr;
};

struct DispatchCounting {
  rocattach_sdk_dispatch_cb dispatch_callback = nullptr;
  void* dispatch_data = nullptr;
  Buffer* buffer = nullptr;  // buffer form
  rocattach_sdk_dispatch_record_cb record_callback = nullptr;
  void* record_data = nullptr;
};

// One GPU of a context's device counting.
struct DeviceCounting {
  rocattach_sdk_agent_id agent{0};
  Buffer* buffer = nullptr;
  rocattach_sdk_device_counting_cb callback = nullptr;
  void* user_data = nullptr;
  std::shared_ptr<const CounterConfig> config;  // chosen at start
  // Sums since the start, by hardware counter and instance; guarded by the mutex of
  // device_counting.cc.
  std::map<uint64_t, std::vector<double>> sums;
};

enum class DeviceState { kDisabled, kLocked, kEnabled };

struct Context {
  rocattach_sdk_context_id id{0};
  uint32_t client = 0;
  std::map<int32_t, BufferTracing> buffer_tracing;             // by kind
  std::map<int32_t, CallbackTracing> callback_tracing;         // by kind
  std::map<int32_t, CorrelationRequest> correlation_requests;  // by kind
  std::vector<DispatchCounting> dispatch_counting;
  std::vector<DeviceCounting> device_counting;
  std::atomic<DeviceState> device_state{DeviceState::kDisabled};
  std::atomic<bool> active{false};

  // The tracing of `kind`, if it is configured for `operation`; else nullptr.
  const BufferTracing* FindBufferTracing(int32_t kind,
                                         rocattach_sdk_operation operation) const;
  const CallbackTracing* FindCallbackTracing(int32_t kind,
                                             rocattach_sdk_operation operation) const;
  // Asks the tool, on the submitting thread; 0 if it has not requested that.
  rocattach_sdk_user_data ExternalCorrelation(int32_t kind,
                                              rocattach_sdk_operation operation,
                                              uint64_t internal) const;
};

using ContextList = std::vector<Context*>;

// Initialization and finalization: 0 before, -1 during, 1 after.
std::atomic<int>& InitStatus();
std::atomic<int>& FiniStatus();

// Sets the client whose initialize function runs, as owner of the contexts it makes.
void SetInitializingClient(uint32_t client);

// nullptr if there is none.
Context* FindContext(rocattach_sdk_context_id id);
ContextList AllContexts();
// A consistent snapshot; cheap.
std::shared_ptr<const ContextList> ActiveContexts();
// True if any context, active or not, has this tracing; decides what is wrapped at all.
bool AnyContextTraces(int32_t buffer_kind, int32_t callback_kind);
bool AnyContextNeedsQueues();

// Start and stop a context as the API does, without the checks of the API.
rocattach_sdk_status StartContext(Context* context);
rocattach_sdk_status StopContext(Context* context);
void StopContextsOfClient(uint32_t client);
// Called around fork(): in the child the lock is free, and no context is active.
void HoldContextsForFork();
void ReleaseContextsAfterFork(bool child);
// Never returns in a child that was forked while its parent counted dispatches:
// upstream waits there for dispatches whose end only the parent sees.
void StopInChild();

// CLOCK_BOOTTIME, ns: the domain of all times.
uint64_t Now();
uint64_t ThreadId();

}  // namespace simrocm::sdk

#endif  // ROCATTACH_TESTS_SIMROCM_SDK_STATE_H_
