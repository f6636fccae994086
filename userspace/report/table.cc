#include "userspace/report/table.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "userspace/base/display_width.h"
#include "userspace/report/text.h"

namespace rocattach {
namespace {

// The text column keeps at least this many columns, however narrow the terminal.
constexpr size_t kMinTextWidth = 12;
// Other columns are left out until the text has this many, or all that it needs.
constexpr size_t kWantedTextWidth = 24;
constexpr size_t kGap = 2;

}  // namespace

std::vector<size_t> Table::Widths() const {
  std::vector<size_t> widths(rows_[0].size(), 0);
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], DisplayWidth(row[i]));
    }
  }
  return widths;
}

std::vector<std::string> Table::LeftOut(size_t indent, size_t width) const {
  if (width == 0) return {};
  const std::vector<size_t> widths = Widths();
  size_t used = indent + std::min(widths.back(), kWantedTextWidth);
  for (size_t i = 0; i + 1 < widths.size(); ++i) used += widths[i] + kGap;
  std::vector<std::string> left_out;
  for (const std::string& heading : may_go_) {
    if (used <= width) break;
    const auto column = absl::c_find(rows_[0], heading);
    if (column == rows_[0].end()) continue;
    used -= widths[static_cast<size_t>(column - rows_[0].begin())] + kGap;
    left_out.push_back(heading);
  }
  return left_out;
}

std::string Table::Format(size_t indent, size_t width, const char* heading_on,
                          const char* heading_off) const {
  const std::vector<size_t> widths = Widths();
  const std::vector<std::string> left_out = LeftOut(indent, width);
  const size_t text = widths.size() - 1;
  std::vector<size_t> numbers;  // columns that are shown before the text
  size_t before_text = indent;
  for (size_t i = 0; i < text; ++i) {
    if (absl::c_linear_search(left_out, rows_[0][i])) continue;
    numbers.push_back(i);
    before_text += widths[i] + kGap;
  }
  size_t text_width = widths[text];
  if (width > 0) {
    text_width = std::max(width > before_text ? width - before_text : 0, kMinTextWidth);
  }
  std::string out;
  for (const std::vector<std::string>& row : rows_) {
    const bool heading = &row == &rows_[0];
    out.append(indent, ' ');
    if (heading) out += heading_on;
    for (size_t i : numbers) {
      out.append(widths[i] - DisplayWidth(row[i]), ' ');
      absl::StrAppend(&out, row[i], std::string(kGap, ' '));
    }
    out += FitWidth(row[text], text_width);
    if (heading) out += heading_off;
    out += '\n';
  }
  return out;
}

}  // namespace rocattach
