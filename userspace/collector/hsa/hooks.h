// Our functions in the runtime's API tables.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_HSA_HOOKS_H_
#define ROCATTACH_USERSPACE_COLLECTOR_HSA_HOOKS_H_

#include "userspace/collector/hsa/api_tables.h"

namespace rocattach::collector {

// True if the table of a runtime that has started again already contains our functions:
// an SDK that was loaded late restores the table as it found it, and puts its own
// functions over ours. Then nothing must be replaced, and our functions call the same
// functions as before: those of the SDK would call ours again.
bool HooksInPlace(const ApiTableRoot* root);
// True if `function` is our hook for hsa_queue_destroy.
bool IsOurQueueDestroy(const void* function);
// Stores one of our functions in a table, unless the entry is another tool's function
// that calls ours: the two would call each other forever. Does nothing for kNoSlot.
void ReplaceEntry(ApiTable* table, uint32_t slot, void* hook);
template <typename F>
void ReplaceEntry(ApiTable* table, uint32_t slot, F* hook) {
  ReplaceEntry(table, slot, reinterpret_cast<void*>(hook));
}
// Replaces the table entries that we hook.
void InstallHooks(ApiTableRoot* root, const AmdSlots& slots);
// Replaces the entries that copy memory, and those that allocate and free it.
void InstallCopyHooks(ApiTableRoot* root, const AmdSlots& slots);
void InstallMemoryHooks(ApiTableRoot* root, const AmdSlots& slots);
// Replaces the functions that reserve packets of a queue.
void InstallOldQueueHooks(ApiTable* core);
// Routes hsa_init through our hook.
void HookRuntimeInit();
// Restores the table's own hsa_init.
void UnhookInit(ApiTable* core);

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_HSA_HOOKS_H_
