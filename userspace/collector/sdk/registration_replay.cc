#include "userspace/collector/sdk/registration_replay.h"

#include "userspace/collector/sdk/functions.h"
#include "userspace/collector/sdk/register_abi.h"

namespace rocattach::collector {

// Our variables must be set meanwhile, or rocprofiler-register does not look for tools.
void RegistrationReplay::Try(Process* process) {
  auto invoke = reinterpret_cast<rocattach_register_invoke_fn>(
      FindRegisterFunction("rocprofiler_register_invoke_nonpropagated_registrations"));
  // An hsa_init or a registration is in progress: try later.
  if (process->environment.installed()) {
    --attempts_left_;
    return;
  }
  if (invoke == nullptr || process->environment.Install(process->config.collector_path,
                                                        ToolVariables::kSdk) != 0) {
    attempts_left_ = 0;
    return;
  }
  int32_t status = invoke();
  process->environment.Restore();
  attempts_left_ = status == ROCATTACH_REGISTER_DEADLOCK ? attempts_left_ - 1 : 0;
}

}  // namespace rocattach::collector
