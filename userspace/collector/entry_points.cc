// Functions that the library exports. Nothing else is visible (collector.map).
#include <stdint.h>

#include "userspace/collector/collector.h"

#define ROCATTACH_EXPORT extern "C" __attribute__((visibility("default")))

// The service's uprobe is placed here, so the call must be a real one.
ROCATTACH_EXPORT __attribute__((noinline)) void rocattach_collector_ready(
    const void* memory, uint64_t bytes, uint64_t window_id) {
  // A plain instruction for the probe to be placed on; the arguments stay in their
  // registers.
  __asm__ volatile("nop" : : "r"(memory), "r"(bytes), "r"(window_id) : "memory");
}

// The same for the end of the runtime: after it, hsa_init opens a window again.
ROCATTACH_EXPORT __attribute__((noinline)) void rocattach_collector_unloaded() {
  __asm__ volatile("nop" : : : "memory");
}

ROCATTACH_EXPORT int rocattach_collector_start(
    const rocattach_collector_config* config) {
  rocattach::collector::ErrnoKeeper keep_errno;
  int error = rocattach::collector::Start(config);
  if (error != 0) {
    // The service receives the failed call instead of an address, and need not wait.
    if (config != nullptr) {
      rocattach_collector_ready(
          nullptr, ROCATTACH_SETUP_FAILURE(rocattach::collector::FailedCall(), error),
          config->window_id);
    }
    return error;
  }
  const rocattach::collector::Memory& memory = rocattach::collector::g_process.memory;
  rocattach_collector_ready(memory.base(), memory.geometry().total_bytes,
                            config->window_id);
  return 0;
}

ROCATTACH_EXPORT bool OnLoad(void* table, uint64_t, uint64_t, const char* const*) {
  rocattach::collector::ErrnoKeeper keep_errno;
  return rocattach::collector::Load(
      static_cast<rocattach::collector::ApiTableRoot*>(table));
}

// Entry points for rocprofiler-sdk, which finds them through ROCP_TOOL_LIBRARIES, or
// when it searches all libraries of a process in which another tool is globally
// visible. In either case we decline if the SDK was not requested.
ROCATTACH_EXPORT rocattach_sdk_configure_result* rocprofiler_configure(
    uint32_t version, const char*, uint32_t priority, rocattach_sdk_client_id* client) {
  rocattach::collector::ErrnoKeeper keep_errno;
  return rocattach::collector::g_collector.sdk.Configure(
      version, priority, __builtin_return_address(0), client);
}

ROCATTACH_EXPORT rocattach_sdk_configure_attach_result* rocprofiler_configure_attach(
    uint32_t, const char*, uint32_t, rocattach_sdk_client_id*) {
  return rocattach::collector::g_collector.sdk.ConfigureAttach();
}

ROCATTACH_EXPORT void OnUnload() {
  rocattach::collector::Unload();
  rocattach_collector_unloaded();
}
