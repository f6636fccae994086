// The schema of rocpd and SQLite's owner.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/temporary_directory.h"
#include "userspace/export/common/recording_guid.h"
#include "userspace/export/export_format.h"
#include "userspace/export/rocpd/rocpd_schema.h"
#include "userspace/export/rocpd/rocpd_tables.h"
#include "userspace/export/rocpd/sqlite.h"

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
              schema.has_graphs());
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

TEST(Sqlite, ARowWhoseIdIsTakenGetsAnother) {
  TemporaryDirectory directory;
  auto database = SqliteDatabase::Create(directory.path() + "/x.db");
  ASSERT_TRUE(database.ok());
  ASSERT_TRUE(
      database->Execute("CREATE TABLE t (id INTEGER PRIMARY KEY, x TEXT)").ok());
  {
    auto insert = database->Prepare("INSERT INTO t (id, x) VALUES (?, ?)");
    ASSERT_TRUE(insert.ok());
    EXPECT_TRUE(insert->Integer(5).Text("a").Run().ok());
    EXPECT_TRUE(absl::IsAlreadyExists(insert->Integer(5).Text("b").Run()));
    EXPECT_TRUE(insert->Integer(5).Text("c").RunWithAnyId().ok());
  }
  EXPECT_TRUE(
      database
          ->Execute("CREATE TABLE ok (x CHECK (x)); INSERT INTO ok SELECT "
                    "group_concat(x) = 'a,c' FROM (SELECT x FROM t ORDER BY id)")
          .ok());
  EXPECT_TRUE(database->Close().ok());
}

TEST(Sqlite, ErrorsNameTheFile) {
  auto database = SqliteDatabase::Create("/nowhere/x.db");
  ASSERT_FALSE(database.ok());
  EXPECT_THAT(std::string(database.status().message()),
              testing::HasSubstr("/nowhere/x.db"));
}

}  // namespace
}  // namespace rocattach
