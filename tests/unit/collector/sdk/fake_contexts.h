// Contexts of a fake SDK, which only counts starts and stops.
#ifndef ROCATTACH_TESTS_UNIT_COLLECTOR_SDK_FAKE_CONTEXTS_H_
#define ROCATTACH_TESTS_UNIT_COLLECTOR_SDK_FAKE_CONTEXTS_H_

#include "userspace/collector/sdk/abi.h"

namespace rocattach::collector {

// State of the fake SDK, whose functions have no argument for it.
struct FakeContexts {
  int starts = 0, stops = 0;
  rocattach_sdk_status start_status = ROCATTACH_SDK_STATUS_SUCCESS;
  int active = 1;  // the SDK reports that a started context still runs
};
inline FakeContexts* g_contexts = nullptr;

inline void UseContexts(FakeContexts* contexts, rocattach_sdk_functions* sdk) {
  g_contexts = contexts;
  sdk->start_context = [](rocattach_sdk_context_id) {
    ++g_contexts->starts;
    return g_contexts->start_status;
  };
  sdk->stop_context = [](rocattach_sdk_context_id) -> rocattach_sdk_status {
    ++g_contexts->stops;
    return ROCATTACH_SDK_STATUS_SUCCESS;
  };
  sdk->context_is_active = [](rocattach_sdk_context_id,
                              int* active) -> rocattach_sdk_status {
    *active = g_contexts->active;
    return ROCATTACH_SDK_STATUS_SUCCESS;
  };
}

}  // namespace rocattach::collector

#endif  // ROCATTACH_TESTS_UNIT_COLLECTOR_SDK_FAKE_CONTEXTS_H_
