#include "userspace/export/csv/csv_file.h"

#include <cmath>
#include <cstdio>

#include "absl/strings/str_split.h"
#include "userspace/base/status_macros.h"

namespace rocattach {

CsvRow& CsvRow::Text(absl::string_view text) {
  out_->push_back('"');
  for (size_t quote; (quote = text.find('"')) != absl::string_view::npos;) {
    out_->append(text.data(), quote + 1);
    out_->push_back('"');
    text.remove_prefix(quote + 1);
  }
  out_->append(text.data(), text.size());
  out_->append("\",", 2);
  return *this;
}

CsvRow& CsvRow::Real(double number) {
  char text[400];  // the largest double has 309 digits before the point
  const char* format = std::fabs(number) >= 1 ? "%.6f," : "%.8e,";
  const int length = snprintf(text, sizeof(text), format, number);
  out_->append(text, static_cast<size_t>(length));
  return *this;
}

absl::Status CsvFile::Begin() {
  if (begun()) return absl::OkStatus();
  ASSIGN_OR_RETURN(file_, OutputFile::Create(path_, options_));
  CsvRow row = Row();
  for (absl::string_view column : absl::StrSplit(columns_, ',')) row.Text(column);
  row.End();
  return absl::OkStatus();
}

}  // namespace rocattach
