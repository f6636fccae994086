// Text from targets, made fit for terminals.
#ifndef ROCATTACH_USERSPACE_REPORT_TEXT_H_
#define ROCATTACH_USERSPACE_REPORT_TEXT_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/generated_enum_reflection.h>

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace rocattach {

// A target chooses its names: control characters, terminal escapes and characters that
// turn the direction of writing around come out as \xHH or \u{HHHH}. Bytes that are not
// UTF-8 come out as \xHH.
std::string TerminalSafe(absl::string_view text);

// Columns that TerminalSafe text takes, counting one for each character.
size_t DisplayWidth(absl::string_view text);

// At most `width` columns; "…" stands for what is cut from the end.
std::string FitWidth(absl::string_view text, size_t width);

// The text in lines of at most `width` columns, broken at blanks where there are any;
// what does not fit in `max_lines` is cut. `width` 0: one line, whole.
std::vector<std::string> WrapWidth(absl::string_view text, size_t width,
                                   size_t max_lines);

// "WINDOW_STATE_ATTACHED" of WindowState as "attached"; a number that has no name as
// the number. These names are stable: JSON output and metrics use them.
std::string ShortEnumName(const google::protobuf::EnumDescriptor* type, int number);

template <typename Enum>
std::string ShortName(Enum value) {
  return ShortEnumName(google::protobuf::GetEnumDescriptor<Enum>(),
                       static_cast<int>(value));
}

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_REPORT_TEXT_H_
