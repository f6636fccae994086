// Builds the text of a report: lines with keys, tables, colours.
#ifndef ROCATTACH_USERSPACE_REPORT_REPORT_PAGE_H_
#define ROCATTACH_USERSPACE_REPORT_REPORT_PAGE_H_

#include <cstddef>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "userspace/report/report_text.h"
#include "userspace/report/table.h"

namespace rocattach {

// Callers must make foreign text safe for terminals.
class ReportPage {
 public:
  explicit ReportPage(const TextReportOptions& options) : options_(options) {}

  // Escape sequences that switch one attribute on, or all off; "" without colours.
  const char* Bold() const { return Color("\x1b[1m"); }
  const char* Dim() const { return Color("\x1b[2m"); }
  const char* Red() const { return Color("\x1b[31m"); }
  const char* Green() const { return Color("\x1b[32m"); }
  const char* Yellow() const { return Color("\x1b[33m"); }
  const char* Off() const { return Color("\x1b[0m"); }

  // Appends text unchanged.
  void Raw(absl::string_view text) { out_.append(text.data(), text.size()); }
  // Appends an empty line, except at the beginning.
  void Gap();
  // "  key       text", wrapped to the terminal's width, on at most `max_lines` lines.
  void Line(absl::string_view key, absl::string_view text, const char* color = "",
            size_t max_lines = 8);
  // A remark below a table.
  void AddRemark(absl::string_view text);
  // Appends a table after an empty line, and the names of columns for which the
  // terminal is too narrow.
  void Add(const Table& table);
  // Number of rows that are shown, of `all`.
  size_t Shown(size_t all) const;
  // "… and 3 more kernels (--top 13 shows all)", if rows are omitted.
  void LeftOut(size_t all, const char* one, const char* many);

  std::string Finish() { return std::move(out_); }

 private:
  const char* Color(const char* code) const { return options_.color ? code : ""; }

  const TextReportOptions options_;
  std::string out_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_REPORT_REPORT_PAGE_H_
