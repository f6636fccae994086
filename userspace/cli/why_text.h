// The output of `rocattach why` about a process.
#ifndef ROCATTACH_USERSPACE_CLI_WHY_TEXT_H_
#define ROCATTACH_USERSPACE_CLI_WHY_TEXT_H_

#include <string>

#include "schemas/sessions.pb.h"
#include "schemas/stream.pb.h"
#include "userspace/base/json.h"

namespace rocattach {

// True if a verdict says that the process was attached to.
bool WasAttached(const v1::ProcessLife& life);

// Lines for users; `clock` converts the times to calendar time.
std::string LifeText(const v1::ProcessLife& life, const v1::ClockSnapshot& clock);

// The same for programs: the fields of the message that are set, "attached", and for
// each verdict the documentation's word for its reason.
Json LifeJson(const v1::ProcessLife& life);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CLI_WHY_TEXT_H_
