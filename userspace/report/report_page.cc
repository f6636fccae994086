#include "userspace/report/report_page.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "userspace/base/display_width.h"
#include "userspace/report/report_words.h"
#include "userspace/report/text.h"

namespace rocattach {
namespace {

constexpr size_t kIndent = 2;
constexpr size_t kKeyWidth = 10;
// Text is not wrapped to a narrower width.
constexpr size_t kLeastWidth = 20;

}  // namespace

void ReportPage::Gap() {
  if (!out_.empty()) out_ += '\n';
}

void ReportPage::Line(absl::string_view key, absl::string_view text, const char* color,
                      size_t max_lines) {
  const size_t used = kIndent + kKeyWidth;
  const size_t width = options_.width == 0                   ? 0
                       : options_.width > used + kLeastWidth ? options_.width - used
                                                             : kLeastWidth;
  for (const std::string& line : WrapWidth(text, width, max_lines)) {
    absl::StrAppend(&out_, std::string(kIndent, ' '), Dim());
    absl::StrAppendFormat(&out_, "%-10s", key);
    absl::StrAppend(&out_, Off(), color, line, *color ? Off() : "", "\n");
    key = "";
  }
}

void ReportPage::AddRemark(absl::string_view text) {
  absl::StrAppend(&out_, std::string(kIndent, ' '), Yellow(), text, Off(), "\n");
}

void ReportPage::Add(const Table& table) {
  absl::StrAppend(&out_, "\n", table.Format(kIndent, options_.width, Dim(), Off()));
  const std::vector<std::string> left_out = table.LeftOut(kIndent, options_.width);
  if (left_out.empty()) return;
  absl::StrAppend(&out_, std::string(kIndent, ' '), Dim(),
                  "(in a wider terminal: ", absl::StrJoin(left_out, ", "), ")", Off(),
                  "\n");
}

size_t ReportPage::Shown(size_t all) const {
  return options_.top == 0 ? all : std::min(options_.top, all);
}

void ReportPage::LeftOut(size_t all, const char* one, const char* many) {
  const size_t shown = Shown(all);
  if (shown == all) return;
  absl::StrAppend(&out_, std::string(kIndent, ' '), "… and ",
                  Plural(all - shown, one, many), " (--top ", all, " shows all)\n");
}

}  // namespace rocattach
