// The lost records of a process by reason, for --json.
#ifndef ROCATTACH_USERSPACE_CLI_COMMON_LOSSES_JSON_H_
#define ROCATTACH_USERSPACE_CLI_COMMON_LOSSES_JSON_H_

#include <string>

#include "userspace/base/json.h"
#include "userspace/stream/losses.h"

namespace rocattach {

// {"ring_full": 12, "unseen": 3}: only reasons that occurred.
inline Json LossesJson(const v1::LossAccount& account) {
  auto json = Json::object();
  for (const Loss& loss : LossesOf(account)) json[std::string(loss.name)] = loss.count;
  return json;
}

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CLI_COMMON_LOSSES_JSON_H_
