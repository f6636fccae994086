// Inserts rows of one table, many at a time. A separate statement for each row would
// cost SQLite about as much as the row itself.
#ifndef ROCATTACH_USERSPACE_EXPORT_ROCPD_SQLITE_ROWS_H_
#define ROCATTACH_USERSPACE_EXPORT_ROCPD_SQLITE_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "userspace/export/rocpd/sqlite.h"

namespace rocattach {

class SqliteRows {
 public:
  // Rows of `columns` of `table` (a quoted name). A column "name=5" has this number in
  // all rows, and is not passed. `any_id`: the first column is the id; a row whose id
  // is taken, which only a damaged input or a hostile process causes, gets another one.
  // The database must outlive the result.
  static absl::StatusOr<std::unique_ptr<SqliteRows>> Create(
      SqliteDatabase* database, absl::string_view table,
      const std::vector<std::string>& columns, bool any_id);
  SqliteRows(const SqliteRows&) = delete;
  SqliteRows& operator=(const SqliteRows&) = delete;

  // Pass the values of a row, in the order of the columns, then call EndRow().
  SqliteRows& Integer(int64_t value) {
    Cell& cell = Add(Cell::kInteger);
    cell.integer = value;
    return *this;
  }
  // Numbers from 2^63 on are stored as negative ones: all bits are kept.
  SqliteRows& Number(uint64_t value) { return Integer(static_cast<int64_t>(value)); }
  SqliteRows& Real(double value) {
    Add(Cell::kReal).real = value;
    return *this;
  }
  // `text` is copied.
  SqliteRows& Text(absl::string_view text);
  SqliteRows& Null() {
    (void)Add(Cell::kNull);
    return *this;
  }
  // The error may come from an earlier row.
  absl::Status EndRow();

  // Inserts the waiting rows.
  absl::Status Flush();

 private:
  struct Cell {
    enum Type : uint32_t { kNull, kInteger, kReal, kText };
    Type type;
    uint32_t bytes;  // length of a text
    union {
      int64_t integer;
      double real;
      size_t offset;  // in texts_
    };
  };
  // The waiting rows as a virtual table, which the statement reads.
  struct Module;

  SqliteRows(size_t columns, bool any_id) : columns_(columns), any_id_(any_id) {}
  Cell& Add(Cell::Type type) {
    Cell& cell = cells_.emplace_back();
    cell.type = type;
    return cell;
  }

  const size_t columns_;
  const bool any_id_;
  SqliteInsert insert_;
  std::vector<Cell> cells_;
  std::string texts_;
  size_t rows_ = 0;  // complete rows
  size_t row_ = 0;   // the row that is being inserted
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_EXPORT_ROCPD_SQLITE_ROWS_H_
