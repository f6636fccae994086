// Checks of the ROCm installation: GPUs, runtimes, profiling libraries.
#ifndef ROCATTACH_USERSPACE_DOCTOR_LIBRARY_CHECKS_H_
#define ROCATTACH_USERSPACE_DOCTOR_LIBRARY_CHECKS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "userspace/doctor/check.h"
#include "userspace/doctor/machine.h"
#include "userspace/watch/discovery/library_scanner.h"

namespace rocattach {

// A library file found in one of the standard locations.
struct FoundLibrary {
  std::string path;    // as found, without following links
  std::string real;    // the file after following links
  std::string soname;  // empty if there is none, or the file cannot be parsed
};

// Files `name`*.so* in the places where HSA runtimes are looked for, and in
// `directories`; each file once, however many links lead to it.
std::vector<FoundLibrary> FindLibraries(const Machine& machine, absl::string_view name,
                                        const std::vector<std::string>& directories);

// "gpu": /dev/kfd and the KFD topology.
Check CheckGpu(const Machine& machine);

// A KFD gfx_target_version as the name of the architecture: 90010 is gfx90a.
std::string GfxName(uint32_t target_version);

// "hsa-runtime": the library copies that get probes. `all_processes`: other users'
// processes could be inspected too.
Check CheckHsaRuntimes(const LibraryScan& scan, bool all_processes);

// "rocprofiler-register" and "rocprofiler-sdk", which are also looked for in the
// directories of `library_path`.
Check CheckRocprofilerRegister(const Machine& machine, const LibraryScan& scan,
                               const std::vector<std::string>& library_path = {});
Check CheckRocprofilerSdk(const Machine& machine, const LibraryScan& scan,
                          const std::vector<std::string>& library_path = {});

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_DOCTOR_LIBRARY_CHECKS_H_
