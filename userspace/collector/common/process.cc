#include "userspace/collector/common/process.h"

#include <string.h>
#include <unistd.h>

// Registers exit handlers that, unlike those of atexit, are not bound to this library.
extern "C" int __cxa_atexit(void (*function)(void*), void* argument, void* dso);

namespace rocattach::collector {

constinit Process g_process;

// The service reads this process's phase as a state (control->state_address).
static_assert(int{kPhaseNone} == ROCATTACH_STATE_NONE &&
              int{kPhaseLoaded} == ROCATTACH_STATE_LOADED &&
              int{kPhaseArmed} == ROCATTACH_STATE_ARMED &&
              int{kPhaseUnloaded} == ROCATTACH_STATE_UNLOADED);

int Process::SetUp(const rocattach_collector_config& new_config, const Upcalls* calls) {
  StoreRelaxed(&clock_offset_ns, new_config.clock_offset_ns);
  int error = guard.Arm();
  if (error == 0) error = memory.Create(new_config);
  if (error == 0) error = rings.Init(&memory);
  if (error != 0) return error;
  StoreRelaxed(&memory.control()->state_address, reinterpret_cast<uint64_t>(&phase));
  config = new_config;
  upcalls = calls;
  plans.Init(&memory);
  dictionary.Init(&memory);
  environment.set_variable(&environ);
  worker.Init(calls->run_worker, &memory.control()->command);
  return 0;
}

int Process::InstallVariables() {
  const char* path = config.collector_path;
  if (config.backend == ROCATTACH_BACKEND_SDK) {
    return environment.Install(path, ToolVariables::kSdk);
  }
  if (config.backend == ROCATTACH_BACKEND_SDK_ATTACH) return 0;
  // A runtime that starts again finds the SDK that a session has loaded.
  return environment.Install(path, LoadAcquire(&sdk_added) != 0
                                       ? ToolVariables::kHsaToolsBesideSdk
                                       : ToolVariables::kHsaTools);
}

void Process::RegisterEnd() {
  // Exit handlers run in reverse order, and the runtime's were registered earlier.
  __cxa_atexit(upcalls->end, nullptr, nullptr);
}

void Process::WaitForService() {
  rocattach_control* control = memory.control();
  // Waits in parts: if the machine is paused for a while (a virtual machine), only one
  // of them expires, not the whole wait.
  constexpr uint32_t kParts = 8;
  const uint32_t part_msec = (config.map_wait_msec + kParts - 1) / kParts;
  for (uint32_t i = 0; i < kParts && part_msec != 0; ++i) {
    if (LoadAcquire(&control->service_mapped) != 0) return;
    FutexWait(&control->service_mapped, 0, part_msec);
  }
}

void Process::PublishBackend(rocattach_backend backend, rocattach_backend_reason why,
                             const char* text) {
  rocattach_control* control = memory.control();
  size_t bytes = strnlen(text, sizeof(control->backend_text) - 1);
  memcpy(control->backend_text, text, bytes);
  control->backend_text[bytes] = '\0';
  StoreRelaxed(&control->backend_reason, static_cast<uint32_t>(why));
  StoreRelease(&control->backend, static_cast<uint32_t>(backend));
}

void Process::PublishEntryFailure(const char* why) {
  rocattach_control* control = memory.control();
  const size_t bytes = strnlen(why, sizeof(control->entry_text) - 1);
  memcpy(control->entry_text, why, bytes);
  control->entry_text[bytes] = '\0';
}

void Process::Refuse(rocattach_collector_reason reason, const char* why) {
  StoreRelease(&phase, static_cast<uint32_t>(kPhaseRefused));
  memory.Refuse(reason, why);
}

}  // namespace rocattach::collector
