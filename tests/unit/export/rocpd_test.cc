// The schema of rocpd and SQLite's owner.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/temporary_directory.h"
#include "userspace/export/common/recording_guid.h"
#include "userspace/export/export_format.h"
#include "userspace/export/rocpd/rocpd_schema.h"
#include "userspace/export/rocpd/rocpd_tables.h"
#include "userspace/export/rocpd/sqlite.h"
#include "userspace/export/rocpd/sqlite_rows.h"

namespace rocattach {
using testing_support::TemporaryDirectory;

namespace {

constexpr char kGuid[] = "0198c0de-0000-7abc-8def-000000000001";

TEST(RocpdSchema, EveryVersionIsValidSql) {
  for (absl::string_view version : kRocpdSchemas) {
    TemporaryDirectory directory;
    auto database = SqliteDatabase::Create(directory.path() + "/x.db");
    ASSERT_TRUE(database.ok()) << database.status();
    const RocpdSchema schema(version, kGuid);
    EXPECT_EQ(database->Execute(schema.Sql()), absl::OkStatus()) << version;
    // Views are only resolved when they are used.
    for (const char* view :
         {"kernels", "counters_collection", "regions_and_samples", "memory_copies",
          "memory_allocations", "scratch_memory", "busy", "top", "top_kernels",
          "code_objects", "kernel_symbols", "processes", "threads", "pmc_info",
          "pmc_events", "events_args", "stream_args", "region_args"}) {
      EXPECT_EQ(database->Execute(std::string("SELECT * FROM ") + view),
                absl::OkStatus())
          << version;
    }
    EXPECT_EQ(database->Execute("SELECT * FROM spm_counters").ok(), schema.has_spm());
    EXPECT_EQ(database->Execute("SELECT * FROM graph_launches").ok(),
              version >= "3.0.2");
  }
}

TEST(RocpdSchema, TablesAreNamedAfterTheGuid) {
  const RocpdSchema schema("3.0.3", kGuid);
  EXPECT_EQ(schema.suffix(), "_0198c0de_0000_7abc_8def_000000000001");
  EXPECT_EQ(schema.Table("event"),
            "\"rocpd_event_0198c0de_0000_7abc_8def_000000000001\"");
}

TEST(RocpdSchema, VersionsDiffer) {
  EXPECT_THAT(RocpdSchema("3.0.0", kGuid).Sql(),
              testing::Not(testing::HasSubstr("'NIC'")));
  EXPECT_THAT(RocpdSchema("3.0.1", kGuid).Sql(), testing::HasSubstr("'NIC'"));
  EXPECT_THAT(RocpdSchema("3.0.1", kGuid).Sql(),
              testing::Not(testing::HasSubstr("graph_exec_id")));
  EXPECT_THAT(RocpdSchema("3.0.2", kGuid).Sql(), testing::HasSubstr("graph_exec_id"));
  EXPECT_THAT(RocpdSchema("3.0.2", kGuid).Sql(),
              testing::Not(testing::HasSubstr("spm_support")));
  EXPECT_THAT(RocpdSchema("3.0.3", kGuid).Sql(), testing::HasSubstr("spm_support"));
}

TEST(UuidV7, HasVersionVariantAndTime) {
  EXPECT_EQ(UuidV7(0x0198c0dec0de, 0, 0), "0198c0de-c0de-7000-8000-000000000000");
  EXPECT_EQ(UuidV7(0, ~uint64_t{0}, ~uint64_t{0}),
            "00000000-0000-7fff-bfff-ffffffffffff");
}

class SqliteRowsTest : public testing::Test {
 protected:
  void SetUp() override {
    auto database = SqliteDatabase::Create(directory_.path() + "/x.db");
    ASSERT_TRUE(database.ok());
    database_ = std::make_unique<SqliteDatabase>(*std::move(database));
    ASSERT_TRUE(
        database_->Execute("CREATE TABLE t (id INTEGER PRIMARY KEY, x TEXT, n INTEGER)")
            .ok());
  }
  void Begin(bool any_id) {
    auto rows = SqliteRows::Create(database_.get(), "t", {"id", "n=7", "x"}, any_id);
    ASSERT_TRUE(rows.ok()) << rows.status();
    rows_ = *std::move(rows);
  }
  // `condition`, a query with one value, is true.
  bool Holds(const std::string& condition) {
    return database_
        ->Execute("CREATE TABLE IF NOT EXISTS ok (x CHECK (x)); INSERT INTO ok " +
                  condition)
        .ok();
  }

  TemporaryDirectory directory_;
  std::unique_ptr<SqliteDatabase> database_;
  std::unique_ptr<SqliteRows> rows_;
};

TEST_F(SqliteRowsTest, RowWithAUsedIdGetsAnotherId) {
  Begin(/*any_id=*/true);
  for (int64_t id : {5, 6, 5, 7, 6}) {
    EXPECT_TRUE(rows_->Integer(id).Text("abcde" + std::to_string(id)).EndRow().ok());
  }
  EXPECT_TRUE(rows_->Flush().ok());
  EXPECT_TRUE(rows_->Integer(5).Null().EndRow().ok());
  EXPECT_TRUE(rows_->Flush().ok());
  EXPECT_TRUE(
      Holds("SELECT group_concat(id || x) = '5abcde5,6abcde6,7abcde5,8abcde7,"
            "9abcde6' FROM (SELECT id, x FROM t WHERE x NOTNULL ORDER BY id)"));
  EXPECT_TRUE(Holds("SELECT count(*) = 6 AND min(n) = 7 AND max(n) = 7 FROM t"));
}

TEST_F(SqliteRowsTest, OtherwiseItIsAnError) {
  Begin(/*any_id=*/false);
  for (int64_t id : {5, 6, 5}) {
    EXPECT_TRUE(rows_->Integer(id).Text("a").EndRow().ok());
  }
  EXPECT_TRUE(absl::IsAlreadyExists(rows_->Flush()));
  EXPECT_TRUE(Holds("SELECT count(*) = 2 FROM t"));
}

TEST_F(SqliteRowsTest, ManyRowsKeepValuesAndOrder) {
  ASSERT_TRUE(database_->Execute("CREATE TABLE u (a, b, c, d)").ok());
  auto rows = SqliteRows::Create(database_.get(), "u", {"a", "b", "c", "d"}, false);
  ASSERT_TRUE(rows.ok());
  for (int64_t i = 0; i < 10'000; ++i) {
    (*rows)->Integer(i).Real(static_cast<double>(i) / 2);
    (*rows)->Text(std::string(static_cast<size_t>(i % 300), 'x')).Number(~uint64_t{0});
    ASSERT_TRUE((*rows)->EndRow().ok());
  }
  ASSERT_TRUE((*rows)->Flush().ok());
  ASSERT_TRUE((*rows)->Flush().ok());
  EXPECT_TRUE(Holds("SELECT count(*) = 10000 FROM u"));
  EXPECT_TRUE(
      Holds("SELECT count(*) = 0 FROM u WHERE a != rowid - 1 OR b != a / 2.0 "
            "OR length(c) != a % 300 OR d != -1"));
}

TEST(Sqlite, ErrorsNameTheFile) {
  auto database = SqliteDatabase::Create("/nowhere/x.db");
  ASSERT_FALSE(database.ok());
  EXPECT_THAT(std::string(database.status().message()),
              testing::HasSubstr("/nowhere/x.db"));
}

}  // namespace
}  // namespace rocattach
