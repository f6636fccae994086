// A compiled plan as described in the stream.
#ifndef ROCATTACH_USERSPACE_RECORD_SESSIONS_SESSION_PLAN_H_
#define ROCATTACH_USERSPACE_RECORD_SESSIONS_SESSION_PLAN_H_

#include "schemas/records.pb.h"
#include "userspace/session/compiled_plan.h"

namespace rocattach {

// All that a reader needs to name values and to evaluate metrics; `id` is not set.
v1::SessionPlan SessionPlanToProto(const CompiledPlan& plan);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_SESSIONS_SESSION_PLAN_H_
