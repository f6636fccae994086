// Whose a process is, as recordings have it.
#ifndef ROCATTACH_USERSPACE_SERVICE_WORKLOAD_MESSAGE_H_
#define ROCATTACH_USERSPACE_SERVICE_WORKLOAD_MESSAGE_H_

#include "schemas/stream.pb.h"
#include "userspace/attribution/workload.h"

namespace rocattach {

// All but the executable and the number of the control group, which v1::Process has.
v1::Workload WorkloadToProto(const WorkloadIdentity& workload);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SERVICE_WORKLOAD_MESSAGE_H_
