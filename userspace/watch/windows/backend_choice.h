// Chooses the backend of a collector, from outside of its process.
#ifndef ROCATTACH_USERSPACE_WATCH_WINDOWS_BACKEND_CHOICE_H_
#define ROCATTACH_USERSPACE_WATCH_WINDOWS_BACKEND_CHOICE_H_

#include <sys/types.h>

#include <string>

#include "userspace/abi/shared_memory.h"

namespace rocattach {

struct SdkSearch {
  bool allowed = true;  // false: never
  // The folder in which the kernel driver lists GPUs, as the process sees it.
  std::string topology = "/sys/class/kfd/kfd/topology";
};

struct BackendChoice {
  rocattach_backend backend = ROCATTACH_BACKEND_HSA_TOOLS;
  std::string sdk;  // its library's path in the process's root; empty without it
  // Why rocprofiler-sdk is not available, for users; empty if it is, or if no session
  // needs it.
  std::string missing;
};

// Inspects a process that is about to initialise HSA: rocprofiler-sdk is chosen only if
// the runtime comes with rocprofiler-register, the process would find the SDK, and the
// driver's topology is visible. Otherwise the SDK would never be called, or would abort
// the process.
BackendChoice ChooseBackend(pid_t pid, const SdkSearch& search);

// The steps of this, with `root` for /proc/PID/root.
// Path of the mapped librocprofiler-register, from the text of /proc/PID/maps; empty if
// there is none.
std::string MappedRegister(const std::string& maps);
// Path of librocprofiler-sdk.so as the dynamic linker would find it for
// rocprofiler-register: its RUNPATH, LD_LIBRARY_PATH (from the text of
// /proc/PID/environ), the linker's cache, the standard directories. Empty: not found.
std::string FindSdk(const std::string& root, const std::string& register_path,
                    const std::string& environment);
// True if the topology has a node with SIMDs.
bool HasGpuTopology(const std::string& root, const std::string& topology);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_WINDOWS_BACKEND_CHOICE_H_
