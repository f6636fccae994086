// What `rocattach why` says of a process.
#ifndef ROCATTACH_USERSPACE_CLI_WHY_TEXT_H_
#define ROCATTACH_USERSPACE_CLI_WHY_TEXT_H_

#include <string>

#include "schemas/control.pb.h"
#include "schemas/stream.pb.h"
#include "userspace/report/message_json.h"

namespace rocattach {

// A verdict says that the process was attached to.
bool WasAttached(const v1::ProcessLife& life);

// Lines for users; `clock` relates the times to the calendar.
std::string LifeText(const v1::ProcessLife& life, const v1::ClockSnapshot& clock);

// The same for programs: the message's fields, without those that are not set,
// "attached", and for each verdict the word of the documentation for its reason.
Json LifeJson(const v1::ProcessLife& life);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CLI_WHY_TEXT_H_
