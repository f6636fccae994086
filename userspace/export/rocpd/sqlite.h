// Wraps SQLite's C API with ownership and absl::Status.
#ifndef ROCATTACH_USERSPACE_EXPORT_ROCPD_SQLITE_H_
#define ROCATTACH_USERSPACE_EXPORT_ROCPD_SQLITE_H_

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace rocattach {

// A prepared INSERT: bind the parameters in their order, then Run().
class SqliteInsert {
 public:
  SqliteInsert& Integer(int64_t value) {
    sqlite3_bind_int64(statement_.get(), ++bound_, value);
    return *this;
  }
  // Numbers from 2^63 on are stored as negative ones: all bits are kept.
  SqliteInsert& Number(uint64_t value) { return Integer(static_cast<int64_t>(value)); }
  SqliteInsert& Real(double value) {
    sqlite3_bind_double(statement_.get(), ++bound_, value);
    return *this;
  }
  // `text` must stay valid until Run().
  SqliteInsert& Text(absl::string_view text) {
    sqlite3_bind_text64(statement_.get(), ++bound_, text.data(), text.size(),
                        SQLITE_STATIC, SQLITE_UTF8);
    return *this;
  }
  SqliteInsert& Null() {
    sqlite3_bind_null(statement_.get(), ++bound_);
    return *this;
  }
  absl::Status Run();

 private:
  friend class SqliteDatabase;
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  int bound_ = 0;
};

class SqliteDatabase {
 public:
  // Creates an empty database; the file must not exist.
  static absl::StatusOr<SqliteDatabase> Create(const std::string& path);

  // Executes any statements.
  absl::Status Execute(const std::string& sql);
  absl::StatusOr<SqliteInsert> Prepare(const std::string& sql);
  // Registers virtual tables for statements of this connection; both pointers must stay
  // valid as long as these.
  absl::Status AddModule(const std::string& name, const sqlite3_module* module,
                         void* argument);
  // Prepared statements must have been destroyed.
  absl::Status Close();

  const std::string& path() const { return path_; }

 private:
  struct CloseDatabase {
    void operator()(sqlite3* database) const { sqlite3_close_v2(database); }
  };
  explicit SqliteDatabase(std::string path) : path_(std::move(path)) {}

  std::string path_;
  std::unique_ptr<sqlite3, CloseDatabase> database_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_EXPORT_ROCPD_SQLITE_H_
