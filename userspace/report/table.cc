#include "userspace/report/table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "userspace/report/text.h"

namespace rocattach {
namespace {

// The text column keeps at least this many columns, however narrow the terminal.
constexpr size_t kMinTextWidth = 12;
constexpr size_t kGap = 2;

}  // namespace

std::string Table::Format(size_t indent, size_t width, const char* heading_on,
                          const char* heading_off) const {
  size_t columns = rows_[0].size();
  std::vector<size_t> widths(columns, 0);
  for (const auto& row : rows_) {
    for (size_t i = 0; i < columns; ++i) {
      widths[i] = std::max(widths[i], DisplayWidth(row[i]));
    }
  }
  size_t before_text = indent;
  for (size_t i = 0; i + 1 < columns; ++i) before_text += widths[i] + kGap;
  size_t text_width = widths[columns - 1];
  if (width > 0) {
    size_t left = width > before_text ? width - before_text : 0;
    text_width = std::max(left, kMinTextWidth);
  }
  std::string out;
  for (size_t r = 0; r < rows_.size(); ++r) {
    out.append(indent, ' ');
    if (r == 0) out += heading_on;
    for (size_t i = 0; i + 1 < columns; ++i) {
      out.append(widths[i] - DisplayWidth(rows_[r][i]), ' ');
      absl::StrAppend(&out, rows_[r][i], std::string(kGap, ' '));
    }
    out += FitWidth(rows_[r][columns - 1], text_width);
    if (r == 0) out += heading_off;
    out += '\n';
  }
  return out;
}

}  // namespace rocattach
