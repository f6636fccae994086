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

// Columns that TerminalSafe text takes, counting one for each character.
size_t DisplayWidth(absl::string_view text);

// At most `width` columns; "…" replaces what is cut from the end.
std::string FitWidth(absl::string_view text, size_t width);

// The text in lines of at most `width` columns, broken at blanks where there are any;
// what exceeds `max_lines` is cut. `width` 0: one uncut line.
std::vector<std::string> WrapWidth(absl::string_view text, size_t width,
                                   size_t max_lines);

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
