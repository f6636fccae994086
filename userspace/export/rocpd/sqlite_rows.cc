#include "userspace/export/rocpd/sqlite_rows.h"

#include <sqlite3.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

// More rows are not faster.
constexpr size_t kMostRows = 256;
constexpr size_t kMostTextBytes = size_t{1} << 20;

}  // namespace

// SQLite neither allocates nor frees these objects: both contain only their base and a
// pointer.
struct SqliteRows::Module {
  struct Table {
    sqlite3_vtab base;
    SqliteRows* rows;
  };
  struct Cursor {
    sqlite3_vtab_cursor base;
    SqliteRows* rows;
  };

  static SqliteRows* Of(sqlite3_vtab_cursor* cursor) {
    return reinterpret_cast<Cursor*>(cursor)->rows;
  }

  static int Connect(sqlite3* database, void* rows, int, const char* const*,
                     sqlite3_vtab** out, char**) {
    auto* self = static_cast<SqliteRows*>(rows);
    std::string columns = "c0";
    for (size_t i = 1; i < self->columns_; ++i) absl::StrAppend(&columns, ",c", i);
    const int code = sqlite3_declare_vtab(
        database, absl::StrCat("CREATE TABLE x(", columns, ")").c_str());
    if (code == SQLITE_OK) *out = &(new Table{{}, self})->base;
    return code;
  }
  static int Disconnect(sqlite3_vtab* table) {
    delete reinterpret_cast<Table*>(table);
    return SQLITE_OK;
  }
  static int BestIndex(sqlite3_vtab*, sqlite3_index_info*) { return SQLITE_OK; }
  static int Open(sqlite3_vtab* table, sqlite3_vtab_cursor** out) {
    *out = &(new Cursor{{}, reinterpret_cast<Table*>(table)->rows})->base;
    return SQLITE_OK;
  }
  static int Close(sqlite3_vtab_cursor* cursor) {
    delete reinterpret_cast<Cursor*>(cursor);
    return SQLITE_OK;
  }
  // Begins at the row where the previous statement ended.
  static int Filter(sqlite3_vtab_cursor*, int, const char*, int, sqlite3_value**) {
    return SQLITE_OK;
  }
  static int Next(sqlite3_vtab_cursor* cursor) {
    ++Of(cursor)->row_;
    return SQLITE_OK;
  }
  static int Eof(sqlite3_vtab_cursor* cursor) {
    return Of(cursor)->row_ >= Of(cursor)->rows_ ? 1 : 0;
  }
  static int RowId(sqlite3_vtab_cursor* cursor, sqlite3_int64* id) {
    *id = static_cast<sqlite3_int64>(Of(cursor)->row_);
    return SQLITE_OK;
  }
  static int Column(sqlite3_vtab_cursor* cursor, sqlite3_context* context, int column) {
    const SqliteRows* rows = Of(cursor);
    const Cell& cell =
        rows->cells_[rows->row_ * rows->columns_ + static_cast<size_t>(column)];
    switch (cell.type) {
      case Cell::kNull:
        break;  // NULL is the default
      case Cell::kInteger:
        sqlite3_result_int64(context, cell.integer);
        break;
      case Cell::kReal:
        sqlite3_result_double(context, cell.real);
        break;
      case Cell::kText:
        sqlite3_result_text64(context, rows->texts_.data() + cell.offset, cell.bytes,
                              SQLITE_STATIC, SQLITE_UTF8);
        break;
    }
    return SQLITE_OK;
  }

  static const sqlite3_module* Functions() {
    static constexpr sqlite3_module kFunctions = [] {
      sqlite3_module functions = {};
      functions.xConnect = &Connect;  // no xCreate: exists under the module's name
      functions.xBestIndex = &BestIndex;
      functions.xDisconnect = &Disconnect;
      functions.xOpen = &Open;
      functions.xClose = &Close;
      functions.xFilter = &Filter;
      functions.xNext = &Next;
      functions.xEof = &Eof;
      functions.xColumn = &Column;
      functions.xRowid = &RowId;
      return functions;
    }();
    return &kFunctions;
  }
};

absl::StatusOr<std::unique_ptr<SqliteRows>> SqliteRows::Create(
    SqliteDatabase* database, absl::string_view table,
    const std::vector<std::string>& columns, bool any_id) {
  std::vector<std::string> names, values;
  size_t given = 0;
  for (const std::string& column : columns) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(column, absl::MaxSplits('=', 1));
    names.push_back(parts.first);
    values.push_back(parts.second.empty() ? absl::StrCat("c", given++) : parts.second);
  }
  std::unique_ptr<SqliteRows> rows(new SqliteRows(given, any_id));
  const std::string source =
      absl::StrCat("rocattach_rows_", reinterpret_cast<uintptr_t>(rows.get()));
  RETURN_IF_ERROR(database->AddModule(source, Module::Functions(), rows.get()));
  // After an error, the rows before it stay, and the statement is repeated from there.
  ASSIGN_OR_RETURN(rows->insert_, database->Prepare(absl::StrCat(
                                      "INSERT OR FAIL INTO ", table, " (\"",
                                      absl::StrJoin(names, "\",\""), "\") SELECT ",
                                      absl::StrJoin(values, ","), " FROM ", source)));
  return rows;
}

SqliteRows& SqliteRows::Text(absl::string_view text) {
  Cell& cell = Add(Cell::kText);
  cell.bytes = static_cast<uint32_t>(text.size());
  cell.offset = texts_.size();
  texts_.append(text.data(), text.size());
  return *this;
}

absl::Status SqliteRows::EndRow() {
  ++rows_;
  if (rows_ < kMostRows && texts_.size() < kMostTextBytes) return absl::OkStatus();
  return Flush();
}

absl::Status SqliteRows::Flush() {
  if (rows_ == 0) return absl::OkStatus();
  absl::Status status = insert_.Run();
  while (absl::IsAlreadyExists(status) && any_id_ && row_ < rows_ &&
         cells_[row_ * columns_].type != Cell::kNull) {
    cells_[row_ * columns_].type = Cell::kNull;
    status = insert_.Run();
  }
  cells_.clear();
  texts_.clear();
  rows_ = row_ = 0;
  return status;
}

}  // namespace rocattach
