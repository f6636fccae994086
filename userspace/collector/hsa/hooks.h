// Our functions in the runtime's API tables.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_HSA_HOOKS_H_
#define ROCATTACH_USERSPACE_COLLECTOR_HSA_HOOKS_H_

#include "userspace/collector/hsa/api_tables.h"

namespace rocattach::collector {

// True if a runtime that starts again brings a table with our functions in it: an SDK
// that has come late puts back the table as it found it, and its own functions over
// ours. Then nothing is to be replaced, and what our functions call is as it was: the
// SDK's would call ours again.
bool HooksInPlace(const ApiTableRoot* root);
// Replaces the table entries that we hook.
void InstallHooks(ApiTableRoot* root, const AmdSlots& slots);
// Has hsa_init pass through our hook.
void HookRuntimeInit();
// Gives the table its own hsa_init back.
void UnhookInit(ApiTable* core);

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_HSA_HOOKS_H_
