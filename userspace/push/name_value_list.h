// Lists of names and values, as OpenTelemetry has them in environment variables.
#ifndef ROCATTACH_USERSPACE_PUSH_NAME_VALUE_LIST_H_
#define ROCATTACH_USERSPACE_PUSH_NAME_VALUE_LIST_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace rocattach {

using NameValueList = std::vector<std::pair<std::string, std::string>>;

// "a=1,b=2", values percent-encoded: W3C Baggage, as the specification has it for headers
// and attributes. INVALID_ARGUMENT names `variable`, where the text is from, and no value.
absl::StatusOr<NameValueList> ParseNameValueList(absl::string_view variable,
                                                 absl::string_view text);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_PUSH_NAME_VALUE_LIST_H_
