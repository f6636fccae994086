// Rows of one table that are inserted many at a time. A statement of its own for each row
// costs SQLite about as much as the row itself.
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
  // Rows of `columns` of `table` (a quoted name). A column "name=5" is the same number in
  // all rows, and not given. `any_id`: the first column is the id;
  // a row whose id is taken, which only a damaged input or a hostile process brings
  // about, gets another one. The database outlives what is returned.
  static absl::StatusOr<std::unique_ptr<SqliteRows>> Create(
      SqliteDatabase* database, absl::string_view table,
      const std::vector<std::string>& columns, bool any_id);
  SqliteRows(const SqliteRows&) = delete;
  SqliteRows& operator=(const SqliteRows&) = delete;

  // The values of a row, in the order of the columns, then EndRow().
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
  // Copied.
  SqliteRows& Text(absl::string_view text);
  SqliteRows& Null() {
    (void)Add(Cell::kNull);
    return *this;
  }
  // The error may be that of an earlier row.
  absl::Status EndRow();

  // Inserts the rows that wait.
  absl::Status Flush();

 private:
  struct Cell {
    enum Type : uint32_t { kNull, kInteger, kReal, kText };
    Type type;
    uint32_t bytes;  // of a text
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
  size_t rows_ = 0;  // complete ones
  size_t row_ = 0;   // the one that is being inserted
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_EXPORT_ROCPD_SQLITE_ROWS_H_
