// What rocprof-compute wants to know of the machine of a workload.
#ifndef ROCATTACH_USERSPACE_EXPORT_WORKLOAD_COMPUTE_SYSINFO_H_
#define ROCATTACH_USERSPACE_EXPORT_WORKLOAD_COMPUTE_SYSINFO_H_

#include <string>

#include "schemas/records.pb.h"
#include "userspace/export/common/export_process.h"

namespace rocattach {

// The workload that the machine is described for.
struct ComputeWorkload {
  std::string name;
  std::string directory;
  std::string command;
};

// Arguments as one line for people.
std::string CommandLine(const v1::Process& process);

// sysinfo.csv: a header and one row. What the recording does not have is read from this
// machine if it is the one that recorded, since the same boot; else numbers are those
// that all products of the GPU's architecture have, and texts are "N/A".
std::string ComputeSysinfo(const ExportProcess& process, const v1::Agent& gpu,
                           const ComputeWorkload& workload);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_EXPORT_WORKLOAD_COMPUTE_SYSINFO_H_
