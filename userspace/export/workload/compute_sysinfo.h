// Describes the machine of a workload for rocprof-compute.
#ifndef ROCATTACH_USERSPACE_EXPORT_WORKLOAD_COMPUTE_SYSINFO_H_
#define ROCATTACH_USERSPACE_EXPORT_WORKLOAD_COMPUTE_SYSINFO_H_

#include <string>

#include "schemas/records.pb.h"
#include "userspace/export/common/export_process.h"

namespace rocattach {

// The workload for which the machine is described.
struct ComputeWorkload {
  std::string name;
  std::string directory;
  std::string command;
};

// The arguments as one human-readable line.
std::string CommandLine(const v1::Process& process);

// sysinfo.csv: a header and one row. Data that the recording lacks is read from this
// machine if it made the recording in its current boot; otherwise numbers are those
// common to all products of the GPU's architecture, and texts are "N/A".
std::string ComputeSysinfo(const ExportProcess& process, const v1::Agent& gpu,
                           const ComputeWorkload& workload);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_EXPORT_WORKLOAD_COMPUTE_SYSINFO_H_
