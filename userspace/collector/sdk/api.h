// API calls as rocprofiler-sdk reports them.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_SDK_API_H_
#define ROCATTACH_USERSPACE_COLLECTOR_SDK_API_H_

#include <stdint.h>

#include "userspace/collector/common/dictionary.h"
#include "userspace/collector/common/plan_set.h"
#include "userspace/collector/common/ring.h"
#include "userspace/collector/sdk/functions.h"

namespace rocattach::collector {

struct SdkApiTable;

// Calls are seen on the thread that makes them and go straight to its ring.
class SdkApi {
 public:
  // Configures the services of one domain in `context` and publishes its functions'
  // names. False if the SDK has none of them. `callback` must forward calls to OnCall.
  bool Configure(const rocattach_sdk_functions* sdk, rocattach_sdk_context_id context,
                 rocattach_plan_api domain, Dictionary* dictionary,
                 rocattach_sdk_callback_tracing_cb callback, void* data);
  void Init(PlanSet* plans, RingSet* rings) {
    plans_ = plans;
    rings_ = rings;
  }

  // Sets our own thread, whose calls are not the program's.
  void set_own_thread(uint32_t tid) { StoreRelaxed(&own_thread_, tid); }

  void OnCall(const rocattach_sdk_callback_record& record,
              rocattach_sdk_user_data* user_data);
  // A call of hsa_init or hsa_shut_down that has not reached the SDK, and so has no
  // number.
  void OnKeptCall(bool init, uint64_t begin_ns);

 private:
  // The active plan, if it traces the function.
  const PlanState* Traces(rocattach_plan_api domain, uint32_t function) const;
  void PublishNames(const rocattach_sdk_functions& sdk, const SdkApiTable& table,
                    Dictionary* dictionary);
  // `record`: null for a call that the SDK does not know.
  void Publish(const rocattach_sdk_callback_record* record, uint64_t begin_ns,
               const PlanState* state, rocattach_plan_api domain, uint32_t function);

  const rocattach_sdk_functions* sdk_ = nullptr;
  PlanSet* plans_ = nullptr;
  RingSet* rings_ = nullptr;
  uint32_t own_thread_ = 0;
  // Numbers of these functions; kNoFunction: the SDK does not name them.
  static constexpr uint32_t kNoFunction = UINT32_MAX;
  uint32_t hsa_init_ = kNoFunction, hsa_shut_down_ = kNoFunction;
};

// The number of a function of the SDK's callback kind within its domain. False for a
// kind that is not an API.
bool ApiFunctionOf(int32_t callback_kind, rocattach_sdk_operation operation,
                   rocattach_plan_api* domain, uint32_t* function);

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_SDK_API_H_
