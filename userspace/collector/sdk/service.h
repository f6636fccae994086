// A context of rocprofiler-sdk, which can be started and stopped.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_SDK_SERVICE_H_
#define ROCATTACH_USERSPACE_COLLECTOR_SDK_SERVICE_H_

#include "userspace/collector/common/plan_set.h"
#include "userspace/collector/sdk/abi.h"
#include "userspace/collector/sdk/configs.h"

namespace rocattach::collector {

// Its owner decides which service is configured in it.
struct SdkService {
  rocattach_sdk_context_id context = {0};
  bool on = false;

  // Starts or stops the context, unless it is in that state already.
  rocattach_sdk_status Switch(const rocattach_sdk_functions& sdk, bool wanted) {
    if (on == wanted) return ROCATTACH_SDK_STATUS_SUCCESS;
    const rocattach_sdk_status status =
        wanted ? sdk.start_context(context) : sdk.stop_context(context);
    // A service that cannot be stopped is not running.
    on = wanted && status == ROCATTACH_SDK_STATUS_SUCCESS;
    return status;
  }
};

// The answer to a plan whose service `what` could not be started.
inline PlanResult SdkStartError(const rocattach_sdk_functions& sdk, const char* what,
                                rocattach_sdk_status status) {
  return PlanResult::Error(PlanErrorOf(status), status, "%s does not start: %s", what,
                           StatusName(sdk, status));
}

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_SDK_SERVICE_H_
