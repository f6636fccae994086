// What the library exports. Nothing else is visible (collector.map).
#include <stdint.h>

#include "userspace/collector/collector.h"

#define ROCATTACH_EXPORT extern "C" __attribute__((visibility("default")))

// The service's uprobe stands here, so the call must be a real one.
ROCATTACH_EXPORT __attribute__((noinline)) void rocattach_collector_ready(
    const void* memory, uint64_t bytes, uint64_t window_id) {
  // A plain instruction for the probe to stand on; the arguments stay in their
  // registers.
  __asm__ volatile("nop" : : "r"(memory), "r"(bytes), "r"(window_id) : "memory");
}

// The same for the end of the runtime: behind it, hsa_init opens a window again.
ROCATTACH_EXPORT __attribute__((noinline)) void rocattach_collector_unloaded() {
  __asm__ volatile("nop" : : : "memory");
}

ROCATTACH_EXPORT int rocattach_collector_start(
    const rocattach_collector_config* config) {
  rocattach::collector::ErrnoKeeper keep_errno;
  int error = rocattach::collector::Start(config);
  if (error != 0) return error;
  const rocattach::collector::Memory& memory = rocattach::collector::g_collector.memory;
  rocattach_collector_ready(memory.base(), memory.layout().total_bytes,
                            config->window_id);
  return 0;
}

ROCATTACH_EXPORT bool OnLoad(void* table, uint64_t runtime_version, uint64_t,
                             const char* const*) {
  rocattach::collector::ErrnoKeeper keep_errno;
  return rocattach::collector::Load(
      static_cast<rocattach::collector::ApiTableRoot*>(table), runtime_version);
}

ROCATTACH_EXPORT void OnUnload() {
  rocattach::collector::Unload();
  rocattach_collector_unloaded();
}
