// Filters as the control protocol carries them.
#ifndef ROCATTACH_USERSPACE_CONTROL_FILTER_PROTO_H_
#define ROCATTACH_USERSPACE_CONTROL_FILTER_PROTO_H_

#include "schemas/control.pb.h"
#include "userspace/session/session_types.h"

namespace rocattach {

v1::Filter FilterToProto(const FilterSpec& spec);

// Takes any message: what makes no sense in it, the session engine refuses.
FilterSpec FilterFromProto(const v1::Filter& filter);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CONTROL_FILTER_PROTO_H_
