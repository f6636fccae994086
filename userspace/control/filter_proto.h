// Filters as the control protocol carries them.
#ifndef ROCATTACH_USERSPACE_CONTROL_FILTER_PROTO_H_
#define ROCATTACH_USERSPACE_CONTROL_FILTER_PROTO_H_

#include "schemas/control.pb.h"
#include "userspace/session/session_types.h"

namespace rocattach {

v1::Filter FilterToProto(const FilterSpec& spec);

// Accepts any message: the session engine refuses what is invalid in it.
FilterSpec FilterFromProto(const v1::Filter& filter);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CONTROL_FILTER_PROTO_H_
