// One CSV file as rocprofv3 writes it: texts in double quotes, numbers bare.
#ifndef ROCATTACH_USERSPACE_EXPORT_CSV_CSV_FILE_H_
#define ROCATTACH_USERSPACE_EXPORT_CSV_CSV_FILE_H_

#include <charconv>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "userspace/export/common/output_file.h"
#include "userspace/export/csv/csv_columns.h"

namespace rocattach {

// Appends cells to a buffer.
class CsvRow {
 public:
  explicit CsvRow(std::string* out) : out_(out) {}

  // Quotes within the text are doubled, so that a reader gets it back whole; rocprofv3
  // leaves them as they are.
  CsvRow& Text(absl::string_view text);
  CsvRow& Number(uint64_t number) {
    char digits[24];
    char* end = std::to_chars(digits, digits + sizeof(digits) - 1, number).ptr;
    *end++ = ',';
    out_->append(digits, static_cast<size_t>(end - digits));
    return *this;
  }
  // Six decimals from 1 on; below that, nine digits and an exponent.
  CsvRow& Real(double number);
  // Ends the row: replaces its last comma.
  void End() { out_->back() = '\n'; }

 private:
  std::string* out_;
};

// The file is created when it gets its first row.
class CsvFile {
 public:
  CsvFile(const std::string& base, absl::string_view stem, absl::string_view columns,
          const ExportOptions& options)
      : path_(base + "_" + std::string(stem) + ".csv"),
        columns_(columns),
        options_(options) {}

  // Creates the file with its header, unless it exists already.
  absl::Status Begin();
  bool begun() const { return file_ != nullptr; }
  // After Begin(): add one row's cells, End() it, then Written().
  CsvRow Row() { return CsvRow(file_->buffer()); }
  absl::Status Written() { return file_->WriteIfFull(); }
  absl::Status Flush() { return begun() ? file_->Flush() : absl::OkStatus(); }
  absl::Status Complete() { return begun() ? file_->Complete() : absl::OkStatus(); }
  // After Begin().
  const std::string& name() const { return file_->name(); }

 private:
  const std::string path_;
  const absl::string_view columns_;
  const ExportOptions options_;
  std::unique_ptr<OutputFile> file_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_EXPORT_CSV_CSV_FILE_H_
