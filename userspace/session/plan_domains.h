// The domains of a trace, as plans name them.
#ifndef ROCATTACH_USERSPACE_SESSION_PLAN_DOMAINS_H_
#define ROCATTACH_USERSPACE_SESSION_PLAN_DOMAINS_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "userspace/session/session_record.h"

namespace rocattach {

// The kind of record of a domain that is not an API.
struct PlanKind {
  uint32_t record_kind = 0;  // ROCATTACH_PLAN_RECORD_COPIES …
  absl::string_view name;    // for users
};
// nullopt for the calls of an API.
std::optional<PlanKind> PlanKindOf(TraceDomain domain);

// The enum rocattach_plan_api that stands for the calls of an API; TraceDomainOf() is
// the inverse.
uint32_t PlanApiOf(TraceDomain api);
// The name of an API's calls, for users: "calls of the HIP API".
absl::string_view ApiText(TraceDomain api);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SESSION_PLAN_DOMAINS_H_
