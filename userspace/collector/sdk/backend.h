// The collector as a tool of rocprofiler-sdk.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_SDK_BACKEND_H_
#define ROCATTACH_USERSPACE_COLLECTOR_SDK_BACKEND_H_

#include <stdint.h>

#include "userspace/collector/common/kernel_table.h"
#include "userspace/collector/common/plan_set.h"
#include "userspace/collector/common/process.h"
#include "userspace/collector/hsa/ring_gate.h"
#include "userspace/collector/sdk/agents.h"
#include "userspace/collector/sdk/api.h"
#include "userspace/collector/sdk/code_objects.h"
#include "userspace/collector/sdk/configs.h"
#include "userspace/collector/sdk/copy_service.h"
#include "userspace/collector/sdk/counting.h"
#include "userspace/collector/sdk/dispatches.h"
#include "userspace/collector/sdk/memory_trace.h"
#include "userspace/collector/sdk/registration_replay.h"
#include "userspace/collector/sdk/samples.h"
#include "userspace/collector/sdk/service.h"
#include "userspace/collector/sdk/streams.h"

namespace rocattach::collector {

// The SDK requires every service to be configured while the tool is initialised; later,
// contexts can only be started and stopped. So there is a context for each kind of data
// that a plan may request, and only the one for code objects runs until a plan does.
class SdkBackend {
 public:
  // Called by the SDK; see abi_tool.h. `priority` is 0 for the first of its tools.
  // `caller` is a code address of the SDK.
  rocattach_sdk_configure_result* Configure(uint32_t version, uint32_t priority,
                                            const void* caller,
                                            rocattach_sdk_client_id* client);
  rocattach_sdk_configure_attach_result* ConfigureAttach();

  // True once the SDK has initialised us: then the HSA backend is not used.
  bool in_force() const { return LoadAcquire(&in_force_) != 0; }
  // The reason why it is not, although requested.
  rocattach_backend_reason reason() const { return reason_; }
  const char* text() const { return text_; }

  // The worker's share of the work. Returns nanoseconds to the next call; 0: no limit.
  uint64_t Tick(RingHandle* ring);
  // True if something is recorded, or may be at the next dispatch.
  bool busy() const { return LoadRelaxed(&plan_kinds_) != 0; }
  // The runtime has shut down, and may start again.
  void RuntimeGone();
  // At exit: contexts are stopped before the SDK ends, and remaining records are
  // published.
  void End();

  // Called around fork(): a child in which counting is on would wait in its
  // exit() forever, for dispatches whose end only its parent sees. So counting is
  // off at the moment of the fork.
  void BeforeFork();
  void AfterFork();
  void AfterForkInChild();

 private:
  static int OnInitialize(rocattach_sdk_client_finalize_fn finalize, void* self);
  static void OnFinalize(void* self);
  static int OnAttach(rocattach_sdk_client_detach_fn detach,
                      rocattach_sdk_context_id* contexts, uint64_t count, void* self);
  static void OnDetach(void* self);
  static void OnCodeObject(rocattach_sdk_callback_record record,
                           rocattach_sdk_user_data* user_data, void* self);
  static void OnDispatchTrace(rocattach_sdk_callback_record record,
                              rocattach_sdk_user_data* user_data, void* self);
  static void OnDispatch(rocattach_sdk_dispatch_data dispatch,
                         rocattach_sdk_counter_config_id* config,
                         rocattach_sdk_user_data* user_data, void* self);
  static void OnDispatchValues(rocattach_sdk_dispatch_data dispatch,
                               rocattach_sdk_counter_record* records, size_t count,
                               rocattach_sdk_user_data user_data, void* self);
  static void OnApiCall(rocattach_sdk_callback_record record,
                        rocattach_sdk_user_data* user_data, void* self);
  static void OnStream(rocattach_sdk_callback_record record,
                       rocattach_sdk_user_data* user_data, void* self);
  static void OnKeptCall(void* self, bool init, uint64_t begin_ns);
  static void OnHsaTable(int32_t table, uint64_t lib_version, uint64_t instance,
                         void** tables, uint64_t count, void* self);

  // True if callbacks have something to do.
  bool Live() const { return process_->Live() && in_force(); }
  bool Initialize();
  bool ConfigureServices(uint32_t wanted);
  bool ConfigureDispatches(uint32_t wanted);
  void InstallGate(void** tables, uint64_t count);
  void ConfigureApi(uint32_t wanted);
  void ConfigureMemory(uint32_t wanted);
  void ConfigureStreams();
  void Arm();
  bool Fail(rocattach_backend_reason reason, const char* format, ...)
      __attribute__((format(printf, 3, 4)));

  // Does what the service requests; control.cc.
  void Update();
  void ApplyPlan();
  PlanResult CheckKinds(const rocattach_plan& plan) const;
  PlanResult StartPlan(const PlanState* state);
  void EndPlan();
  void EndSelection();
  void ApplyBaseline();
  void StopAll();
  // Records memory for the plan from now on; `generation` 0: for none.
  PlanResult SwitchMemory(uint32_t kinds, uint64_t generation);
  bool CanCount() const {
    return (record_kinds_ & ROCATTACH_PLAN_RECORD_COUNTERS) != 0;
  }
  bool UnsetVariables();

  // Set from the beginning, since the SDK may call in a forked child as well.
  Process* process_ = &g_process;
  bool called_ = false;  // by the SDK, to configure
  bool first_ = false;   // of the SDK's tools
  rocattach_sdk_functions sdk_ = {};
  rocattach_sdk_configure_result result_ = {};
  rocattach_sdk_configure_attach_result attach_result_ = {};
  uint32_t version_ = 0;
  uint32_t in_force_ = 0;
  uint32_t finalized_ = 0;
  rocattach_backend_reason reason_ = ROCATTACH_BACKEND_REASON_NONE;
  char text_[sizeof(rocattach_control::backend_text)] = {};

  // In a process that the SDK attaches to late, contexts run between attach and detach.
  bool attached_ = true;
  bool detached_ = false;  // by the SDK, after having been attached

  // Guards changes of everything below.
  TinyLock lock_;
  rocattach_sdk_context_id names_ = {0};
  SdkService dispatches_service_;
  SdkCounting counting_;
  SdkCopyService copy_service_;

  // tid of the thread that holds the lock and forks; 0: none.
  uint32_t forking_ = 0;
  SdkService api_services_[ROCATTACH_PLAN_API_DOMAINS];
  SdkService memory_service_, scratch_service_, streams_service_;
  uint32_t record_kinds_ = 0;
  uint32_t api_domains_ = 0;
  uint32_t plan_kinds_ = 0;  // the active plan's
  uint64_t plan_generation_ = 0;
  RegistrationReplay replay_;

  SdkAgents agents_;
  SdkCodeObjects code_objects_;
  SdkConfigs configs_;
  SdkDispatches dispatches_;
  SdkSamples samples_;
  SdkMemoryTrace memory_, scratch_;
  SdkStreams streams_;
  SdkApi api_;
  uint64_t next_correlation_ = 1;
};

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_SDK_BACKEND_H_
