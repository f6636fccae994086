#include "userspace/cli/terminal/top_view.h"

#include <gtest/gtest.h>

#include <string>

namespace rocattach {
namespace {

// Pages as served by the service, two seconds apart.
constexpr char kBefore[] = R"json({"boot_ns":1000000000,"dropped":0,
  "gpus":[{"gpu":"GPU-1","architecture":"gfx90a","counters":"none","dispatches":10,
           "time_ns":0}],
  "processes":[
   {"pid":7,"start_ns":5,"comm":"train","workload":{},"ended":false,"dropped":0,
    "gpus":[{"gpu":"GPU-1","dispatches":10,"time_ns":0}],"copies":[],"counters":[],
    "kernels":[]}]})json";
constexpr char kNow[] = R"json({"boot_ns":3000000000,"dropped":4,
  "gpus":[{"gpu":"GPU-1","architecture":"gfx90a","counters":"session",
           "dispatches":3010,"time_ns":1500000000}],
  "processes":[
   {"pid":7,"start_ns":5,"comm":"train","ended":false,"dropped":4,
    "workload":{"pod":"trainer-0","namespace":"ml"},
    "gpus":[{"gpu":"GPU-1","dispatches":2010,"time_ns":1000000000}],
    "copies":[{"direction":"host_to_device","copies":4,"bytes":8000000,"time_ns":9}],
    "counters":[{"gpu":"GPU-1","counter":"SQ_WAVES","sum":640,"dispatches":10}],
    "kernels":[{"id":"00000000000000ab","name":"Scale(float*)","dispatches":2000,
                "time_ns":900000000},
               {"id":"other","dispatches":10,"time_ns":100000000}]},
   {"pid":8,"start_ns":9,"comm":"infer","ended":false,"dropped":0,"workload":{},
    "gpus":[{"gpu":"GPU-1","dispatches":1000,"time_ns":500000000}],
    "copies":[],"counters":[],"kernels":[]}]})json";

TEST(TopViewTest, RatesAreOfTheTimeBetweenTheSamples) {
  const auto sample = CompareSamples(kBefore, kNow);
  ASSERT_TRUE(sample.ok()) << sample.status();
  EXPECT_DOUBLE_EQ(sample->seconds, 2);
  ASSERT_EQ(sample->processes.size(), 2u);
  const TopProcess& train = sample->processes[0];
  EXPECT_DOUBLE_EQ(train.busy, 0.5);
  EXPECT_DOUBLE_EQ(train.dispatches_per_second, 1000);
  EXPECT_DOUBLE_EQ(train.copies_per_second, 2);
  EXPECT_DOUBLE_EQ(train.bytes_per_second, 4e6);
  EXPECT_EQ(train.workload, "ml/trainer-0");
  EXPECT_EQ(train.dispatches, 2010u);
  ASSERT_EQ(train.kernels.size(), 2u);
  EXPECT_DOUBLE_EQ(train.kernels[0].busy, 0.45);
  EXPECT_EQ(train.kernels[1].name, "(other kernels)");
  EXPECT_DOUBLE_EQ(train.counters[0].per_second, 320);
  // A process that has just started is counted from zero.
  EXPECT_DOUBLE_EQ(sample->processes[1].dispatches_per_second, 500);
  EXPECT_DOUBLE_EQ(sample->gpus[0].busy, 0.75);
}

TEST(TopViewTest, MemoryIsShownWhereItIsKnown) {
  constexpr char kPage[] = R"json({"boot_ns":3000000000,"dropped":0,
    "gpus":[{"gpu":"GPU-1","architecture":"gfx90a","counters":"none","dispatches":0,
             "time_ns":0,"vram_bytes":64000000000,"vram_used_bytes":5000000}],
    "processes":[
     {"pid":7,"start_ns":5,"comm":"other","workload":{},"attached":false,"gpus":[],
      "copies":[],"counters":[],"kernels":[],
      "use":[{"gpu":"GPU-1","vram_bytes":2000000},{"gpu":"GPU-2","vram_bytes":1000000},
             {"gpu":"GPU-3","sdma_us":5}]},
     {"pid":8,"start_ns":9,"comm":"unknown","workload":{},"gpus":[],"copies":[],
      "counters":[],"kernels":[]}]})json";
  const auto sample = CompareSamples(kPage, kPage);
  ASSERT_TRUE(sample.ok()) << sample.status();
  EXPECT_EQ(sample->processes[0].vram_bytes, 3'000'000u);
  EXPECT_FALSE(sample->processes[0].attached);
  EXPECT_FALSE(sample->processes[1].vram_bytes.has_value());
  const auto json = TopJson(*sample);
  EXPECT_EQ(json["gpus"][0]["vram_used_bytes"], 5'000'000);
  EXPECT_EQ(json["processes"][0]["vram_bytes"], 3'000'000);
  EXPECT_FALSE(json["processes"][0].contains("busy")) << "it is not known";
  EXPECT_FALSE(json["processes"][1].contains("vram_bytes"));
  const auto lines = TopLines(*sample, TopOptions());
  EXPECT_NE(lines[1].find("5.0 of 64.0k MB"), std::string::npos) << lines[1];
  EXPECT_NE(lines[3].find("-       -       -     3.0"), std::string::npos) << lines[3];
}

TEST(TopViewTest, SortsAndFilters) {
  auto sample = CompareSamples(kBefore, kNow);
  ASSERT_TRUE(sample.ok());
  TopOptions options;
  options.sort = TopSort::kName;
  Arrange(options, &*sample);
  EXPECT_EQ(sample->processes[0].name, "infer");
  options.sort = TopSort::kBytes;
  Arrange(options, &*sample);
  EXPECT_EQ(sample->processes[0].name, "train");
  options.filter = "ML/";
  Arrange(options, &*sample);
  ASSERT_EQ(sample->processes.size(), 1u);
  EXPECT_EQ(sample->processes[0].pid, 7);
}

TEST(TopViewTest, FitsEightyColumns) {
  auto sample = CompareSamples(kBefore, kNow);
  ASSERT_TRUE(sample.ok());
  sample->processes[0].kernels[0].name = std::string(500, 'k');
  sample->processes[0].name = "\xc3\xa4\xc3\xb6\xc3\xbc";
  TopOptions options;
  const auto lines = TopLines(*sample, options);
  ASSERT_GE(lines.size(), 7u);
  for (const std::string& line : lines) EXPECT_LE(line.size(), 80u + 3u) << line;
  EXPECT_NE(lines[1].find("75.0"), std::string::npos) << lines[1];
  EXPECT_NE(lines[1].find("counters: session"), std::string::npos) << lines[1];
  EXPECT_NE(lines[3].find("50.0    1000"), std::string::npos) << lines[3];
  EXPECT_NE(lines[3].find("ml/trainer-0"), std::string::npos) << lines[3];
  EXPECT_NE(lines[4].find("lost: 4"), std::string::npos) << lines[4];
  options.height = 4;
  EXPECT_EQ(TopLines(*sample, options).size(), 4u);
  options.kernels = false;
  options.height = 24;
  EXPECT_LT(TopLines(*sample, options).size(), lines.size());
}

TEST(TopViewTest, AnInvalidPageIsAnError) {
  EXPECT_FALSE(CompareSamples("", kNow).ok());
  EXPECT_FALSE(CompareSamples(kBefore, "{}").ok());
  EXPECT_FALSE(CompareSamples(kBefore, R"({"gpus":7,"processes":[]})").ok());
  EXPECT_FALSE(CompareSamples(kBefore, R"({"gpus":[],"processes":[7]})").ok());
}

}  // namespace
}  // namespace rocattach
