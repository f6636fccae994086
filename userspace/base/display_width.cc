#include "userspace/base/display_width.h"

#include "absl/strings/str_cat.h"

namespace rocattach {

size_t DisplayWidth(absl::string_view text) {
  size_t width = 0;
  for (char byte : text) width += (byte & 0xc0) != 0x80;
  return width;
}

std::string FitWidth(absl::string_view text, size_t width) {
  if (DisplayWidth(text) <= width) return std::string(text);
  if (width == 0) return "";
  size_t end = 0;
  for (size_t columns = 1; columns < width; ++columns) {
    ++end;
    while (end < text.size() && (text[end] & 0xc0) == 0x80) ++end;
  }
  return absl::StrCat(text.substr(0, end), "…");
}

std::vector<std::string> WrapWidth(absl::string_view text, size_t width,
                                   size_t max_lines) {
  std::vector<std::string> lines;
  if (width == 0) return {std::string(text)};
  while (DisplayWidth(text) > width && lines.size() + 1 < max_lines) {
    // The end of the `width`th character, and the last blank up to it.
    size_t end = 0;
    for (size_t columns = 0; columns < width; ++columns) {
      ++end;
      while (end < text.size() && (text[end] & 0xc0) == 0x80) ++end;
    }
    size_t blank = text.substr(0, end + 1).rfind(' ');
    bool broken = blank == text.npos || blank == 0;
    lines.emplace_back(text.substr(0, broken ? end : blank));
    text.remove_prefix(broken ? end : blank + 1);
  }
  lines.push_back(FitWidth(text, width));
  return lines;
}

}  // namespace rocattach
