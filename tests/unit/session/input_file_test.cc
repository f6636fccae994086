#include "userspace/session/input_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "tests/temporary_directory.h"

namespace rocattach {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<std::vector<InputJob>> Yaml(const std::string& text) {
  auto document = ParseYaml(text, "in.yaml");
  if (!document.ok()) return document.status();
  return ParseInput(*document, "in.yaml");
}

absl::StatusOr<std::vector<InputJob>> Json(const std::string& text) {
  auto document = ParseJson(text, "in.json");
  if (!document.ok()) return document.status();
  return ParseInput(*document, "in.json");
}

constexpr char kJson[] = R"({
  "jobs": [
    {"pmc": ["SQ_WAVES", "GRBM_COUNT", "GRBM_GUI_ACTIVE"]},
    {"pmc": ["FETCH_SIZE", "WRITE_SIZE"],
     "kernel_include_regex": ".*_kernel",
     "kernel_exclude_regex": "multiply",
     "kernel_iteration_range": "[1-2],[3-4],[8]",
     "output_file": "out", "output_format": ["csv"], "truncate_kernels": true},
    {"kernel_trace": true, "hsa_trace": false, "memory_copy_trace": true, "stats": true,
     "collection_period": ["1:2:3", "4:5:0"], "collection_period_unit": "msec"}
  ]})";

void CheckJobs(const std::vector<InputJob>& jobs) {
  ASSERT_EQ(jobs.size(), 3u);
  EXPECT_THAT(jobs[0].groups,
              ElementsAre(ElementsAre("SQ_WAVES", "GRBM_COUNT", "GRBM_GUI_ACTIVE")));
  EXPECT_FALSE(jobs[0].keep_groups);
  EXPECT_THAT(jobs[1].kernel_include, ElementsAre(".*_kernel"));
  EXPECT_THAT(jobs[1].kernel_exclude, ElementsAre("multiply"));
  EXPECT_THAT(jobs[1].iterations, ElementsAre(NumberRange{1, 4}, NumberRange{8, 8}));
  EXPECT_THAT(jobs[1].ignored,
              ElementsAre("output_file", "output_format", "truncate_kernels"));
  EXPECT_THAT(jobs[2].traces,
              ElementsAre("kernel_trace", "memory_copy_trace", "stats"));
  EXPECT_THAT(jobs[2].periods, ElementsAre(CollectionPeriod{1'000'000, 2'000'000, 3},
                                           CollectionPeriod{4'000'000, 5'000'000, 0}));
}

TEST(InputFile, ReadsJsonAndYamlAlike) {
  auto json = Json(kJson);
  ASSERT_TRUE(json.ok()) << json.status();
  CheckJobs(*json);
  auto yaml = Yaml(R"(
jobs:
  - pmc: [SQ_WAVES, GRBM_COUNT, GRBM_GUI_ACTIVE]
  - pmc:
      - FETCH_SIZE
      - WRITE_SIZE
    kernel_include_regex: ".*_kernel"
    kernel_exclude_regex: "multiply"
    kernel_iteration_range: "[1-2],[3-4],[8]"
    output_file: out
    output_format: [csv]
    truncate_kernels: true
  - kernel_trace: true
    hsa_trace: false
    memory_copy_trace: True
    stats: true
    collection_period: ["1:2:3", "4:5:0"]
    collection_period_unit: msec
)");
  ASSERT_TRUE(yaml.ok()) << yaml.status();
  CheckJobs(*yaml);
}

TEST(InputFile, ReadsGroups) {
  auto jobs = Yaml(R"(
jobs:
  - pmc_groups: [[SQ_WAVES, GRBM_COUNT], ["TCC_HIT TCC_MISS"]]
    pmc_group_interval: 10
)");
  ASSERT_TRUE(jobs.ok()) << jobs.status();
  ASSERT_EQ(jobs->size(), 1u);
  EXPECT_TRUE((*jobs)[0].keep_groups);
  EXPECT_EQ((*jobs)[0].group_interval, 10u);
  EXPECT_THAT((*jobs)[0].groups, ElementsAre(ElementsAre("SQ_WAVES", "GRBM_COUNT"),
                                             ElementsAre("TCC_HIT", "TCC_MISS")));
}

TEST(InputFile, ReadsOneJobWithoutAList) {
  auto jobs = Yaml("pmc: SQ_WAVES,GRBM_COUNT\n");
  ASSERT_TRUE(jobs.ok()) << jobs.status();
  EXPECT_THAT((*jobs)[0].groups, ElementsAre(ElementsAre("SQ_WAVES", "GRBM_COUNT")));
}

TEST(InputFile, ErrorsNameFileJobAndKey) {
  auto jobs = Yaml("jobs:\n  - pmc: [A]\n  - pmc_group_interval: none\n");
  ASSERT_FALSE(jobs.ok());
  EXPECT_THAT(std::string(jobs.status().message()),
              HasSubstr("in.yaml: job 2, pmc_group_interval"));
}

TEST(InputFile, RefusesContradictoryInput) {
  for (const char* text :
       {"[]", "3", "jobs: []", "jobs: 3", "jobs: [3]", "jobs: [{pmc: [{a: 1}]}]",
        "jobs: [{pmc_groups: SQ_WAVES}]", "jobs: [{pmc_groups: [[]]}]",
        "jobs: [{pmc_group_interval: 0}]",
        "jobs: [{kernel_iteration_range: \"[4-1]\"}]",
        "jobs: [{kernel_iteration_range: \"[1\"}]", "jobs: [{kernel_trace: 7}]",
        "jobs: [{collection_period: \"1:2\"}]",
        "jobs: [{collection_period: \"1:2:3\", collection_period_unit: moon}]"}) {
    EXPECT_FALSE(Yaml(text).ok()) << text;
  }
}

TEST(InputFile, ReadsTheTextForm) {
  auto jobs = ParseTextInput(
      "# first\npmc: SQ_WAVES GRBM_COUNT # why\n\n pmc : TCC_HIT\n", "in.txt");
  ASSERT_TRUE(jobs.ok()) << jobs.status();
  ASSERT_EQ(jobs->size(), 2u);
  EXPECT_THAT((*jobs)[1].groups, ElementsAre(ElementsAre("TCC_HIT")));
  EXPECT_FALSE(ParseTextInput("", "in.txt").ok());
  EXPECT_FALSE(ParseTextInput("pmc:\n", "in.txt").ok());
  EXPECT_FALSE(ParseTextInput("range: 1:4\n", "in.txt").ok());
}

TEST(InputFile, ChoosesTheFormByName) {
  const testing_support::TemporaryDirectory directory;
  auto write = [&](const char* name, const char* text) {
    const std::string path = directory / name;
    std::ofstream(path) << text;
    return path;
  };
  for (const auto& [name, text] :
       {std::pair("a.json", R"({"jobs":[{"pmc":["A"]}]})"),
        std::pair("a.yml", "jobs: [{pmc: [A]}]"), std::pair("a.txt", "pmc: A")}) {
    const std::string path = write(name, text);
    auto jobs = ReadInputFile(path);
    EXPECT_TRUE(jobs.ok()) << jobs.status();
    if (jobs.ok()) {
      EXPECT_THAT((*jobs)[0].groups, ElementsAre(ElementsAre("A")));
    }
  }
  EXPECT_FALSE(ReadInputFile("/nonexistent.json").ok());
}

}  // namespace
}  // namespace rocattach
