// The width of UTF-8 texts on terminals.
#ifndef ROCATTACH_USERSPACE_BASE_DISPLAY_WIDTH_H_
#define ROCATTACH_USERSPACE_BASE_DISPLAY_WIDTH_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace rocattach {

// Columns that TerminalSafe text takes, counting one for each character.
size_t DisplayWidth(absl::string_view text);

// At most `width` columns; "…" replaces what is cut from the end.
std::string FitWidth(absl::string_view text, size_t width);

// The text in lines of at most `width` columns, broken at blanks where there are any;
// what exceeds `max_lines` is cut. `width` 0: one uncut line.
std::vector<std::string> WrapWidth(absl::string_view text, size_t width,
                                   size_t max_lines);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_BASE_DISPLAY_WIDTH_H_
