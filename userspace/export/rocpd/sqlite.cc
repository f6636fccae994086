#include "userspace/export/rocpd/sqlite.h"

#include <fcntl.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "userspace/base/file.h"
#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

absl::Status ErrorOf(sqlite3* database, absl::string_view path) {
  const int code = sqlite3_extended_errcode(database);
  const std::string message = absl::StrCat(path, ": ", sqlite3_errmsg(database));
  if (code == SQLITE_CONSTRAINT_PRIMARYKEY || code == SQLITE_CONSTRAINT_ROWID) {
    return absl::AlreadyExistsError(message);
  }
  if ((code & 0xff) == SQLITE_FULL) return absl::ResourceExhaustedError(message);
  return absl::UnavailableError(message);
}

}  // namespace

absl::Status SqliteInsert::Run() {
  const int code = sqlite3_step(statement_.get());
  bound_ = 0;
  absl::Status status;
  if (code != SQLITE_DONE) {
    sqlite3* database = sqlite3_db_handle(statement_.get());
    const char* path = sqlite3_db_filename(database, nullptr);
    status = ErrorOf(database, path == nullptr ? "" : path);
  }
  sqlite3_reset(statement_.get());
  return status;
}

absl::StatusOr<SqliteDatabase> SqliteDatabase::Create(const std::string& path) {
  // Uses the mode of our other outputs; SQLite takes an empty file as a new database.
  RETURN_IF_ERROR(OpenFile(path, O_WRONLY | O_CREAT | O_EXCL, 0640).status());
  SqliteDatabase created(path);
  sqlite3* opened = nullptr;
  const int code = sqlite3_open_v2(
      path.c_str(), &opened, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nullptr);
  created.database_.reset(opened);
  if (code != SQLITE_OK) return ErrorOf(opened, path);
  sqlite3_busy_timeout(opened, 10'000);  // a reader may hold a lock for a moment
  return created;
}

absl::Status SqliteDatabase::Execute(const std::string& sql) {
  if (sqlite3_exec(database_.get(), sql.c_str(), nullptr, nullptr, nullptr) ==
      SQLITE_OK) {
    return absl::OkStatus();
  }
  return ErrorOf(database_.get(), path_);
}

absl::StatusOr<SqliteInsert> SqliteDatabase::Prepare(const std::string& sql) {
  SqliteInsert insert;
  sqlite3_stmt* statement = nullptr;
  const int code =
      sqlite3_prepare_v3(database_.get(), sql.c_str(), static_cast<int>(sql.size()) + 1,
                         SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  insert.statement_.reset(statement);
  if (code != SQLITE_OK) return ErrorOf(database_.get(), path_);
  return insert;
}

absl::Status SqliteDatabase::AddModule(const std::string& name,
                                       const sqlite3_module* module, void* argument) {
  if (sqlite3_create_module(database_.get(), name.c_str(), module, argument) ==
      SQLITE_OK) {
    return absl::OkStatus();
  }
  return ErrorOf(database_.get(), path_);
}

absl::Status SqliteDatabase::Close() {
  if (sqlite3_close(database_.get()) != SQLITE_OK) {
    return ErrorOf(database_.get(), path_);
  }
  (void)database_.release();
  return absl::OkStatus();
}

}  // namespace rocattach
