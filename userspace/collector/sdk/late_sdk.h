// rocprofiler-sdk in a process that was armed with the HSA tools: counters of whole
// GPUs, calls of HIP and RCCL, markers.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_SDK_LATE_SDK_H_
#define ROCATTACH_USERSPACE_COLLECTOR_SDK_LATE_SDK_H_

#include <stdint.h>

#include "userspace/collector/common/environment.h"
#include "userspace/collector/common/plan_set.h"
#include "userspace/collector/common/process.h"
#include "userspace/collector/sdk/agents.h"
#include "userspace/collector/sdk/api.h"
#include "userspace/collector/sdk/configs.h"
#include "userspace/collector/sdk/samples.h"

namespace rocattach::collector {

// The SDK is loaded when the first plan requests samples or calls, and remains loaded.
// It is used for device counting and for calls of libraries other than the HSA runtime:
// with such a tool it does not change queues, nor the functions that create and ring
// them, so the HSA backend continues to record. Its functions for code objects in the
// runtime's table call those that were there before. Calls of the HSA runtime are not
// traced: for those it would replace every function of the table, above ours.
//
// Loading takes long, and must not delay other threads, so it has its own thread. The
// order of its steps:
// 1. Only if rocprofiler-register is loaded, which has the runtime's table, and the SDK
//    is not: an SDK that another tool has loaded keeps a table from before our
//    functions.
// 2. The variables that the SDK sets are put into a new array of the environment first.
//    setenv then replaces entries in place; otherwise it may move the array under
//    another thread's getenv.
// 3. rocprofiler_force_configure: the SDK calls us back to configure, then makes
//    rocprofiler-register pass the tables, also those of HIP, RCCL and ROCTx. It can be
//    configured only once, so every service is, whatever the first plan requests.
// 4. The variables are removed: children must not load the SDK.
class LateSdk {
 public:
  // Starts the samples and the tracing of calls that `state` requests. False while the
  // runtime has only just started or the SDK is being loaded: the plan stays pending,
  // and the worker tries again later.
  bool Start(const PlanState* state, PlanResult* result);
  // True if the plan of that generation waits for the SDK.
  bool Awaited(uint64_t generation) const {
    return LoadAcquire(&state_) == kLoading && generation == awaited_generation_;
  }
  // The plan that was started is about to end. No last sample is taken without a ring.
  void Finish(RingHandle* ring);
  // The worker's share of the work. Returns nanoseconds to the next call; 0: no limit.
  uint64_t Tick(RingHandle* ring);
  // Stops, until a plan is started again. True if something was being recorded.
  bool Pause();
  // At exit, before the SDK's own end.
  void End();

 private:
  enum State : uint32_t { kNone = 0, kFailed = 1, kLoading = 2, kReady = 3 };

  static void* LoadMain(void* self);
  static rocattach_sdk_configure_result* OnConfigure(uint32_t version, const char*,
                                                     uint32_t,
                                                     rocattach_sdk_client_id* client);
  static int OnInitialize(rocattach_sdk_client_finalize_fn finalize, void* self);
  static void OnFinalize(void* self);

  static void OnApiCall(rocattach_sdk_callback_record record,
                        rocattach_sdk_user_data* user_data, void* self);

  struct ApiService {
    rocattach_sdk_context_id context;
    bool configured, on;
  };

  void SetState(State state);
  void ConfigureApi();
  // With the lock.
  PlanResult StartServices(const PlanState* state);
  PlanResult StartApi(const rocattach_plan& plan);
  // True if one was on.
  bool StopApi();
  bool StartLoading();
  bool Load();
  bool ForceConfigure();
  bool Initialize();
  bool Fail(const char* format, ...) __attribute__((format(printf, 2, 3)));

  // Set from the beginning: the SDK may call in a forked child as well.
  Process* process_ = &g_process;
  uint32_t state_ = kNone;
  uint64_t awaited_generation_ = 0;
  uint64_t retry_ns_ = 0;  // time at which a pending plan may be tried again
  char path_[sizeof(rocattach_plan::late_sdk)] = {};
  char text_[128] = {};  // reason for kFailed
  Environment environment_;
  rocattach_sdk_functions sdk_ = {};
  rocattach_sdk_configure_result result_ = {};
  uint32_t version_ = 0;
  bool initialized_ = false;
  uint32_t finalized_ = 0;

  TinyLock lock_;  // held to start, stop or take samples, and to switch tracing
  bool can_sample_ = false;
  ApiService api_services_[ROCATTACH_PLAN_API_DOMAINS] = {};
  SdkAgents agents_;
  SdkConfigs configs_;
  SdkSamples samples_;
  SdkApi api_;
};

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_SDK_LATE_SDK_H_
