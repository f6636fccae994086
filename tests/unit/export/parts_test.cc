// The parts that formats are made of: CSV cells, JSON text, statistics, files, and the
// join of values with their dispatches.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "tests/temporary_directory.h"
#include "userspace/base/duration_statistics.h"
#include "userspace/export/common/agent_properties.h"
#include "userspace/export/common/json_text.h"
#include "userspace/export/common/named_statistics.h"
#include "userspace/export/common/output_file.h"
#include "userspace/export/common/upstream_names.h"
#include "userspace/export/counter_join.h"
#include "userspace/export/csv/csv_agents.h"
#include "userspace/export/csv/csv_file.h"
#include "userspace/export/json/spill_file.h"

namespace rocattach {
using testing_support::TemporaryDirectory;

namespace {

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

bool Exists(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0;
}

TEST(CsvRow, QuotesTextsAndLeavesNumbersBare) {
  std::string out;
  CsvRow(&out).Text("a").Number(0).Text("b,\"c\"\n").Number(~uint64_t{0}).End();
  EXPECT_EQ(out, "\"a\",0,\"b,\"\"c\"\"\n\",18446744073709551615\n");
}

TEST(CsvRow, RealNumbersHaveRocprofv3sForm) {
  std::string out;
  CsvRow(&out).Real(1).Real(4096.5).Real(0.25).Real(0).Real(-0.5).End();
  EXPECT_EQ(out,
            "1.000000,4096.500000,2.50000000e-01,0.00000000e+00,-5.00000000e-01\n");
  out.clear();
  CsvRow(&out).Real(std::numeric_limits<double>::max()).End();
  EXPECT_EQ(out.size(), 309u + 1 + 6 + 1);
}

TEST(JsonText, EscapesCharactersThatJsonForbids) {
  for (const std::string& text :
       {std::string("plain"), std::string("\"\\/\b\f\n\r\t"),
        std::string("\x01\x1f\x7f"), std::string("gr\xc3\xbc\xc3\x9f \xf0\x9f\x9a\x80"),
        std::string("a\0b", 3), std::string()}) {
    std::string out;
    AppendJsonString(text, &out);
    EXPECT_EQ(nlohmann::json::parse(out).get<std::string>(), text) << out;
  }
}

TEST(JsonText, BytesThatAreNotUtf8AreReplaced) {
  std::string out;
  AppendJsonString("a\xff\xc3", &out);
  EXPECT_EQ(out, "\"a\xef\xbf\xbd\xef\xbf\xbd\"");
}

TEST(JsonText, RealNumbersReadBack) {
  for (double number : {0.0, 1.0, -3.0, 0.1, 1e300, 1e15, 123456789.125}) {
    std::string out;
    AppendReal(number, &out);
    EXPECT_EQ(nlohmann::json::parse(out).get<double>(), number) << out;
  }
  std::string out;
  AppendReal(5120, &out);
  AppendReal(std::numeric_limits<double>::infinity(), &out);
  EXPECT_EQ(out, "5120null");
}

TEST(JsonText, ObjectsNest) {
  std::string out;
  JsonObject(&out)
      .Begin()
      .Number("a", 1)
      .Object("b")
      .Signed("c", -2)
      .End()
      .Boolean("d", true)
      .End();
  EXPECT_EQ(out, R"({"a":1,"b":{"c":-2},"d":true})");
}

TEST(DurationStatistics, AgreesWithTheDefinition) {
  const std::vector<uint64_t> values = {5, 7, 7, 1'000'000'000'000, 9};
  DurationStatistics all, left, right;
  double sum = 0, squares = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    all.Add(values[i]);
    (i % 2 ? left : right).Add(values[i]);
    sum += static_cast<double>(values[i]);
  }
  const double mean = sum / 5;
  for (uint64_t value : values)
    squares += std::pow(static_cast<double>(value) - mean, 2);
  EXPECT_EQ(all.calls(), 5u);
  EXPECT_EQ(all.total(), 1'000'000'000'028u);
  EXPECT_EQ(all.min(), 5u);
  EXPECT_EQ(all.max(), 1'000'000'000'000u);
  EXPECT_DOUBLE_EQ(all.average(), mean);
  EXPECT_NEAR(all.deviation() / std::sqrt(squares / 4), 1, 1e-9);
  left.Merge(right);
  EXPECT_EQ(left.total(), all.total());
  EXPECT_EQ(left.min(), 5u);
  EXPECT_NEAR(left.deviation() / all.deviation(), 1, 1e-9);
}

TEST(DurationStatistics, OneCallHasNoDeviation) {
  DurationStatistics one;
  EXPECT_EQ(one.deviation(), 0);
  one.Add(3);
  EXPECT_EQ(one.deviation(), 0);
  EXPECT_EQ(one.min(), 3u);
}

TEST(NamedStatistics, NamesWithoutEndAreBounded) {
  NamedStatistics statistics;
  for (size_t i = 0; i < NamedStatistics::kMaxNames + 10; ++i) {
    statistics.Of(absl::StrCat(i))->Add(1);
  }
  EXPECT_EQ(statistics.names().size(), NamedStatistics::kMaxNames + 1);
  EXPECT_EQ(statistics.Of(NamedStatistics::kOtherNames)->calls(), 10u);
  EXPECT_EQ(statistics.Total().calls(), NamedStatistics::kMaxNames + 10);
}

TEST(OutputFile, HasItsNameOnlyWhenItIsComplete) {
  TemporaryDirectory directory;
  const std::string path = directory.path() + "/out.csv";
  auto file = OutputFile::Create(path, {});
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE((*file)->Append("text").ok());
  EXPECT_FALSE(Exists(path));
  EXPECT_TRUE(Exists(path + ".partial"));
  ASSERT_TRUE((*file)->Complete().ok());
  EXPECT_EQ(ReadAll(path), "text");
  EXPECT_FALSE(Exists(path + ".partial"));
}

TEST(OutputFile, IsNotReplacedUnlessForced) {
  TemporaryDirectory directory;
  const std::string path = directory.path() + "/out.csv";
  std::ofstream(path) << "old";
  EXPECT_TRUE(absl::IsAlreadyExists(OutputFile::Create(path, {}).status()));
  ExportOptions force;
  force.force = true;
  auto file = OutputFile::Create(path, force);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(ReadAll(path), "old") << "until the new one is complete";
  ASSERT_TRUE((*file)->Append("new").ok());
  ASSERT_TRUE((*file)->Complete().ok());
  EXPECT_EQ(ReadAll(path), "new");
}

TEST(OutputFile, AFileThatAppearsMeanwhileIsNotReplaced) {
  TemporaryDirectory directory;
  const std::string path = directory.path() + "/out.csv";
  auto file = OutputFile::Create(path, {});
  ASSERT_TRUE(file.ok());
  std::ofstream(path) << "someone else's";
  EXPECT_TRUE(absl::IsAlreadyExists((*file)->Complete()));
  EXPECT_EQ(ReadAll(path), "someone else's");
}

TEST(OutputFile, AFollowedFileHasItsNameAtOnce) {
  TemporaryDirectory directory;
  ExportOptions follow;
  follow.follow = true;
  auto file = OutputFile::Create(directory.path() + "/out.csv", follow);
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE((*file)->Append("a").ok());
  ASSERT_TRUE((*file)->Flush().ok());
  EXPECT_EQ(ReadAll(directory.path() + "/out.csv"), "a");
}

TEST(SpillFile, MovesAllDataIntoTheOutputFile) {
  TemporaryDirectory directory;
  auto file = OutputFile::Create(directory.path() + "/out", {});
  ASSERT_TRUE(file.ok());
  SpillFile spill(directory.path());
  std::string all;
  for (int i = 0; i < 50'000; ++i) {
    const std::string line = absl::StrCat("line ", i, "\n");
    all += line;
    *spill.buffer() += line;
    ASSERT_TRUE(spill.WriteIfFull().ok());
    ASSERT_LT(spill.buffer()->size(), 100'000u);
  }
  ASSERT_TRUE(spill.MoveTo(file->get()).ok());
  EXPECT_TRUE(spill.empty());
  ASSERT_TRUE((*file)->Complete().ok());
  EXPECT_EQ(ReadAll(directory.path() + "/out"), all);
}

// One result of the join.
struct Joined {
  uint64_t operation;
  bool has_dispatch;
  size_t values;
  bool operator==(const Joined&) const = default;
};

class CounterJoinTest : public testing::Test {
 protected:
  void AddDispatch(uint64_t correlation) {
    rocattach_dispatch dispatch = {};
    dispatch.correlation_id = correlation;
    dispatch.tid = static_cast<uint32_t>(correlation + 1000);
    join_.Add({dispatch, correlation + 5000});
  }
  void AddValues(uint64_t operation, size_t count) {
    std::vector<CounterRecord> values(count);
    for (CounterRecord& value : values) value.operation = operation;
    join_.AddValues(values);
  }

  std::vector<Joined> joined_;
  CounterJoin join_{[this](const CountedDispatch& counted) {
                      const uint64_t operation = counted.values[0].operation;
                      if (counted.dispatch != nullptr) {
                        EXPECT_EQ(counted.dispatch->correlation_id, operation);
                        EXPECT_EQ(counted.dispatch->tid, operation + 1000);
                        EXPECT_EQ(counted.correlation_id, operation + 5000);
                      } else {
                        EXPECT_EQ(counted.correlation_id, operation + 9000);
                      }
                      joined_.push_back({operation, counted.dispatch != nullptr,
                                         counted.values.size()});
                    },
                    [](uint64_t operation) { return operation + 9000; }};
};

TEST_F(CounterJoinTest, EitherMayComeFirst) {
  AddDispatch(1);
  AddDispatch(2);
  AddValues(2, 3);
  AddValues(9, 2);
  AddDispatch(9);
  AddValues(1, 1);
  join_.Finish();
  EXPECT_THAT(joined_, testing::ElementsAre(Joined{2, true, 3}, Joined{9, true, 2},
                                            Joined{1, true, 1}));
  EXPECT_EQ(join_.unmatched(), 0u);
}

TEST_F(CounterJoinTest, ValuesWithoutADispatchAreNotLost) {
  AddValues(5, 2);
  AddDispatch(6);
  join_.Finish();
  EXPECT_THAT(joined_, testing::ElementsAre(Joined{5, false, 2}));
  EXPECT_EQ(join_.unmatched(), 1u);
}

// The values of a quarter of a second of dispatches, with dozens of counters each, come
// before the dispatches themselves.
TEST_F(CounterJoinTest, ManyValuesOfEachDispatchMayComeFirst) {
  constexpr uint64_t kDispatches = 10'000;
  for (uint64_t i = 1; i <= kDispatches; ++i) AddValues(i, 60);
  EXPECT_THAT(joined_, testing::IsEmpty());
  for (uint64_t i = 1; i <= kDispatches; ++i) AddDispatch(i);
  join_.Finish();
  EXPECT_EQ(joined_.size(), kDispatches);
  EXPECT_EQ(join_.unmatched(), 0u);
}

TEST_F(CounterJoinTest, InstancesCountTowardsTheLimit) {
  join_.set_window(100, 1000);
  for (uint64_t i = 1; i <= 100; ++i) {
    CounterRecord value;
    value.operation = i;
    value.each = std::make_shared<std::vector<CounterInstance>>(300);
    join_.AddValues({&value, 1});
  }
  EXPECT_GE(joined_.size(), 80u) << "the oldest are given up";
}

TEST_F(CounterJoinTest, MemoryIsBounded) {
  join_.set_window(100, 100);
  for (uint64_t i = 0; i < 1000; ++i) AddValues(10'000 + i, 1);
  EXPECT_GE(joined_.size(), 900u) << "the oldest are given up";
  joined_.clear();
  join_.Finish();
  for (uint64_t i = 1; i <= 1000; ++i) AddDispatch(i);
  joined_.clear();
  for (uint64_t i = 901; i <= 1000; ++i) AddValues(i, 1);
  EXPECT_EQ(joined_.size(), 100u);
  for (const Joined& joined : joined_) EXPECT_TRUE(joined.has_dispatch);
  AddValues(1, 1);
  EXPECT_EQ(joined_.size(), 100u) << "long forgotten, so it waits";
}

TEST(UpstreamNames, FunctionsAreInTheirTables) {
  EXPECT_EQ(ApiKindName(v1::API_DOMAIN_HSA, 5), "HSA_CORE_API");
  EXPECT_EQ(ApiKindName(v1::API_DOMAIN_HSA, 256), "HSA_AMD_EXT_API");
  EXPECT_EQ(ApiKindName(v1::API_DOMAIN_HSA, 800), "HSA_FINALIZE_EXT_API");
  EXPECT_EQ(ApiKindName(v1::API_DOMAIN_HIP, 600), "HIP_RUNTIME_API_EXT");
  EXPECT_EQ(ApiOperation(v1::API_DOMAIN_HIP, 600), 600u);
  EXPECT_EQ(ApiKindName(v1::API_DOMAIN_HIP, 770), "HIP_COMPILER_API_EXT");
  EXPECT_EQ(ApiOperation(v1::API_DOMAIN_HIP, 770), 2u);
  EXPECT_EQ(ApiKindName(v1::API_DOMAIN_MARKER, 600), "MARKER_NAME_API");
  EXPECT_EQ(ApiKindName(v1::API_DOMAIN_MARKER, 60'000), "MARKER_NAME_API");
}

TEST(UpstreamNames, GfxTargetVersions) {
  EXPECT_EQ(GfxTargetVersion("gfx90a"), 90010u);
  EXPECT_EQ(GfxTargetVersion("gfx942"), 90402u);
  EXPECT_EQ(GfxTargetVersion("gfx1100"), 110000u);
  EXPECT_EQ(GfxTargetVersion("AMD EPYC"), 0u);
  EXPECT_EQ(GfxTargetVersion("gfx"), 0u);
}

TEST(UpstreamNames, LdsIsAllocatedInBlocks) {
  EXPECT_EQ(LdsBlockSize(0), 0u);
  EXPECT_EQ(LdsBlockSize(1), 512u);
  EXPECT_EQ(LdsBlockSize(1024), 1024u);
}

}  // namespace
}  // namespace rocattach
