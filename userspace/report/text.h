// Makes text from targets safe for terminals.
#ifndef ROCATTACH_USERSPACE_REPORT_TEXT_H_
#define ROCATTACH_USERSPACE_REPORT_TEXT_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/generated_enum_reflection.h>

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace rocattach {

// A target chooses its names: control characters, terminal escapes and characters that
// change the direction of writing become \xHH or \u{HHHH}. Bytes that are not UTF-8
// become \xHH.
std::string TerminalSafe(absl::string_view text);

// "WINDOW_STATE_ATTACHED" of WindowState as "attached"; a value without a name as its
// number. These names are stable: JSON output and metrics use them.
std::string ShortEnumName(const google::protobuf::EnumDescriptor* type, int number);

template <typename Enum>
std::string ShortName(Enum value) {
  return ShortEnumName(google::protobuf::GetEnumDescriptor<Enum>(),
                       static_cast<int>(value));
}

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_REPORT_TEXT_H_
