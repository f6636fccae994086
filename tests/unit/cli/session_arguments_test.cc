// Converts command-line words to sessions and their filters.
#include "userspace/cli/options/session_arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "tests/temporary_directory.h"
#include "userspace/base/gpu_models.h"
#include "userspace/cli/options/machine_gpus.h"

namespace rocattach {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class SessionArgumentsTest : public testing::Test {
 protected:
  std::string File(const std::string& name, const std::string& text) {
    const std::string path = directory_ / name;
    std::ofstream(path) << text;
    return path;
  }

  // Parses and interprets the words as a command does.
  absl::StatusOr<SessionSpec> Interpret(std::vector<std::string> words,
                                        std::vector<SessionSpec>* runs = nullptr) {
    CLI::App app;
    SessionArguments arguments;
    AddSessionOptions(&app, &arguments);
    std::reverse(words.begin(), words.end());
    try {
      app.parse(words);
    } catch (const CLI::ParseError& error) {
      return absl::OutOfRangeError(error.what());
    }
    CounterCatalog catalog = *CounterCatalog::Builtin();
    auto present = [this]() -> absl::StatusOr<std::vector<std::string>> {
      return present_;
    };
    if (runs == nullptr) return InterpretSession(arguments, present, &catalog);
    auto specs = InterpretRuns(arguments, present, &catalog);
    if (!specs.ok()) return specs.status();
    *runs = *std::move(specs);
    return runs->front();
  }
  // The words must be valid.
  SessionSpec Spec(const std::vector<std::string>& words) {
    auto spec = Interpret(words);
    EXPECT_TRUE(spec.ok()) << spec.status();
    return spec.ok() ? *std::move(spec) : SessionSpec();
  }
  std::string Refusal(const std::vector<std::string>& words) {
    const auto spec = Interpret(words);
    EXPECT_FALSE(spec.ok()) << absl::StrCat("taken: ", words[0]);
    return std::string(spec.status().message());
  }

  const testing_support::TemporaryDirectory directory_;
  std::vector<std::string> present_;  // architectures
};

TEST_F(SessionArgumentsTest, NothingAskedForIsNoSession) {
  EXPECT_THAT(Spec({}).filters, IsEmpty());
}

TEST_F(SessionArgumentsTest, CountersInGroupsWithFilters) {
  const SessionSpec spec =
      Spec({"--pmc", "SQ_WAVES", "GRBM_COUNT", "--pmc", "TCC_HIT",
            "--kernel-include-regex", "a", "--kernel-exclude-regex", "b",
            "--kernel-iteration-range", "[1-3],[7]", "--dispatch-range", "100-200",
            "--gpu", "0", "--gpu", "0000:03:00.0", "--attach-duration-msec", "1500"});
  ASSERT_EQ(spec.filters.size(), 1u);
  const FilterSpec& filter = spec.filters[0];
  EXPECT_EQ(filter.kind, FilterKind::kCounters);
  EXPECT_THAT(filter.counters, ElementsAre(ElementsAre("SQ_WAVES", "GRBM_COUNT"),
                                           ElementsAre("TCC_HIT")));
  EXPECT_THAT(filter.selection.kernel_include, ElementsAre("a"));
  EXPECT_THAT(filter.selection.kernel_exclude, ElementsAre("b"));
  EXPECT_THAT(filter.selection.iterations,
              ElementsAre(NumberRange{1, 3}, NumberRange{7, 7}));
  EXPECT_THAT(filter.selection.dispatches, ElementsAre(NumberRange{100, 200}));
  EXPECT_THAT(filter.selection.gpus, ElementsAre("0", "0000:03:00.0"));
  EXPECT_EQ(spec.duration_ns, 1'500'000'000u);
}

TEST_F(SessionArgumentsTest, TracesAndFunctions) {
  const SessionSpec spec =
      Spec({"--kernel-trace", "--kernel-include-regex", "a", "--memory-copy-trace",
            "--marker-trace", "--api-function", "hsa_init", "--api-function",
            "hipMalloc", "--api-function", "__hipPushCallConfiguration"});
  ASSERT_EQ(spec.filters.size(), 2u);
  EXPECT_EQ(spec.filters[0].kind, FilterKind::kDispatchTimestamps);
  EXPECT_THAT(spec.filters[0].selection.kernel_include, ElementsAre("a"));
  EXPECT_THAT(spec.filters[0].selection.hsa_functions, IsEmpty());
  const FilterSpec& api = spec.filters[1];
  EXPECT_EQ(api.kind, FilterKind::kApiTrace);
  EXPECT_THAT(api.api_domains,
              ElementsAre(TraceDomain::kHsaApi, TraceDomain::kMemoryCopies,
                          TraceDomain::kHipApi, TraceDomain::kMarkers));
  EXPECT_THAT(api.selection.hsa_functions, ElementsAre("hsa_init"));
  EXPECT_THAT(api.selection.hip_functions,
              ElementsAre("hipMalloc", "__hipPushCallConfiguration"));
  EXPECT_THAT(api.selection.kernel_include, IsEmpty());
  EXPECT_THAT(Spec({"--hsa-trace"}).filters[0].api_domains,
              ElementsAre(TraceDomain::kHsaApi));
  EXPECT_THAT(Spec({"--hip-trace"}).filters[0].api_domains,
              ElementsAre(TraceDomain::kHipApi));
  EXPECT_THAT(Refusal({"--api-function", "malloc"}), HasSubstr("malloc"));
}

TEST_F(SessionArgumentsTest, TracesOfSeveralKindsAtOnce) {
  // Not every process supports these domains, and the user has not named any.
  const auto optional = [&](const char* option) {
    const SessionSpec spec = Spec({option, "--stats"});
    EXPECT_EQ(spec.filters.size(), 2u) << option;
    EXPECT_EQ(spec.filters[0].kind, FilterKind::kDispatchTimestamps);
    std::vector<TraceDomain> all = spec.filters.back().api_domains;
    EXPECT_EQ(all[0], TraceDomain::kMemoryCopies);
    all.erase(all.begin());
    EXPECT_EQ(all, spec.filters.back().optional_domains);
    return all;
  };
  for (const char* option : {"--sys-trace", "-s"}) {
    EXPECT_THAT(
        optional(option),
        ElementsAre(TraceDomain::kHsaApi, TraceDomain::kHipApi, TraceDomain::kMarkers,
                    TraceDomain::kRcclApi, TraceDomain::kMemoryAllocations,
                    TraceDomain::kScratchMemory));
  }
  for (const char* option : {"--runtime-trace", "-r"}) {
    EXPECT_THAT(
        optional(option),
        ElementsAre(TraceDomain::kHipApi, TraceDomain::kMarkers, TraceDomain::kRcclApi,
                    TraceDomain::kMemoryAllocations, TraceDomain::kScratchMemory));
  }
  // Domains that the user names are not optional.
  EXPECT_THAT(Spec({"-r", "--scratch-memory-trace"}).filters.back().optional_domains,
              ElementsAre(TraceDomain::kHipApi, TraceDomain::kMarkers,
                          TraceDomain::kRcclApi, TraceDomain::kMemoryAllocations));
  EXPECT_THAT(Spec({"-s", "--hip-trace"}).filters.back().optional_domains,
              Not(Contains(TraceDomain::kHipApi)));
  EXPECT_TRUE(Spec({"-s", "--api-arguments"}).filters.back().arguments);
  EXPECT_THAT(Spec({"--hip-runtime-trace"}).filters[0].api_domains,
              ElementsAre(TraceDomain::kHipApi));
}

TEST_F(SessionArgumentsTest, InstancesAndArguments) {
  EXPECT_TRUE(Spec({"--pmc", "SQ_WAVES", "--counter-instances"}).filters[0].instances);
  EXPECT_FALSE(Spec({"--pmc", "SQ_WAVES"}).filters[0].instances);
  EXPECT_THAT(Refusal({"--counter-instances"}), HasSubstr("--pmc"));
  const FilterSpec sampled =
      Spec({"--pmc", "SQ_WAVES", "--device-samples", "20", "--counter-instances"})
          .filters[0];
  EXPECT_EQ(sampled.kind, FilterKind::kCountersSampler);
  EXPECT_TRUE(sampled.instances);
  EXPECT_TRUE(Spec({"--rccl-trace", "--api-arguments"}).filters[0].arguments);
  EXPECT_THAT(Refusal({"--marker-trace", "--api-arguments"}), HasSubstr("--hip-trace"));
}

TEST_F(SessionArgumentsTest, ShortOptions) {
  const std::string file =
      File("more.yaml",
           "architectures: [gfx90a]\nmetrics: {Twice: {expression: 2 * "
           "SQ_WAVES}}\n");
  const SessionSpec spec = Spec(
      {"-E", file, "--arch", "gfx90a", "-b", "5.1.1", "--pmc", "Twice", "-P", "1:2:3"});
  ASSERT_EQ(spec.filters.size(), 1u);
  EXPECT_THAT(spec.filters[0].CounterList(),
              ElementsAre("Twice", "CPF_CPF_STAT_STALL", "CPF_CPF_STAT_BUSY"));
  EXPECT_EQ(spec.periods.size(), 1u);
}

TEST_F(SessionArgumentsTest, DeviceSamples) {
  const SessionSpec spec = Spec({"--pmc", "SQ_WAVES", "--device-samples", "20", "--gpu",
                                 "gfx90a", "--kernel-trace", "--dispatch-range", "1"});
  ASSERT_EQ(spec.filters.size(), 2u);
  const FilterSpec& samples = spec.filters[0];
  EXPECT_EQ(samples.kind, FilterKind::kCountersSampler);
  EXPECT_EQ(samples.sample_interval_ns, 20'000'000u);
  EXPECT_THAT(samples.selection.gpus, ElementsAre("gfx90a"));
  EXPECT_THAT(samples.selection.dispatches, IsEmpty());
  EXPECT_EQ(spec.filters[1].selection.dispatches.size(), 1u);
  EXPECT_THAT(Refusal({"--device-samples", "20"}), HasSubstr("--pmc"));
  EXPECT_THAT(Refusal({"--pmc", "SQ_WAVES", "--device-samples", "20",
                       "--kernel-include-regex", "a"}),
              HasSubstr("--kernel-trace"));
}

TEST_F(SessionArgumentsTest, NumbersOutOfRangeAreRefused) {
  for (const char* bad : {"-5", "18446744073710", "1.5", "x", "99999999999999999999"}) {
    EXPECT_TRUE(absl::IsOutOfRange(
        Interpret({"--pmc", "SQ_WAVES", "--attach-duration-msec", bad}).status()))
        << bad;
    EXPECT_TRUE(absl::IsOutOfRange(
        Interpret({"--pmc", "SQ_WAVES", "--device-samples", bad}).status()))
        << bad;
  }
  EXPECT_FALSE(Interpret({"--pmc", "SQ_WAVES", "--device-samples", "0"}).ok());
  Refusal({"--pmc", "SQ_WAVES", "--dispatch-range", "0"});
  Refusal({"--pmc", "SQ_WAVES", "--kernel-iteration-range", "3-1"});
  Refusal({"--pmc", "SQ_WAVES", "--kernel-include-regex", "("});
}

TEST_F(SessionArgumentsTest, OptionsWithoutAnyEffectAreRefused) {
  const std::string regex = Refusal({"--hip-trace", "--kernel-include-regex", "foo"});
  EXPECT_THAT(regex, HasSubstr("--kernel-trace"));
  EXPECT_THAT(Refusal({"--hsa-trace", "--dispatch-range", "1"}), HasSubstr("dispatch"));
  EXPECT_THAT(Refusal({"--hsa-trace", "--gpu", "0"}), HasSubstr("--gpu"));
  EXPECT_THAT(Refusal({"--kernel-include-regex", "foo"}), HasSubstr("--pmc"));
  EXPECT_THAT(Refusal({"--single-pass", "--hip-trace"}), HasSubstr("--pmc"));
  EXPECT_THAT(Refusal({"--attach-duration-msec", "5"}), HasSubstr("session"));
  EXPECT_THAT(Refusal({"--collection-period", "1:1:1"}), HasSubstr("session"));
  EXPECT_THAT(Refusal({"--arch", "gfx90a", "--hip-trace"}),
              HasSubstr("--arch requires counters"));
  EXPECT_THAT(Refusal({"--arch", "gfx9999", "--pmc", "SQ_WAVES"}),
              HasSubstr("gfx9999"));
  EXPECT_THAT(Refusal({"--pmc", "SQ_WAVES", "--collection-period-unit", "sec"}),
              HasSubstr("--collection-period"));
  EXPECT_THAT(Refusal({"--pmc", "SQ_WAVES", "--collection-period", "1:1:1",
                       "--collection-period-unit", "fortnight"}),
              HasSubstr("fortnight"));
}

TEST_F(SessionArgumentsTest, UnknownNamesNameTheNearest) {
  EXPECT_THAT(Refusal({"--pmc", "SQ_WAVE"}), HasSubstr("SQ_WAVES"));
  EXPECT_THAT(Refusal({"--arch", "gfx90a", "--pmc", "SQ_WAVE"}), HasSubstr("SQ_WAVES"));
  EXPECT_THAT(Refusal({"--arch", "gfx90a", "--block", "SQQ"}), HasSubstr("SQ"));
}

TEST_F(SessionArgumentsTest, BlocksAndSetsDependOnThePresentGpus) {
  EXPECT_THAT(Refusal({"--block", "SQ"}), HasSubstr("--arch"));
  present_ = {"gfx90a", "gfx942"};
  EXPECT_THAT(Refusal({"--block", "SQ"}), HasSubstr("gfx90a and gfx942"));
  const size_t named =
      Spec({"--block", "GRBM", "--arch", "gfx906"}).filters[0].CounterList().size();
  present_ = {"gfx906"};
  EXPECT_EQ(Spec({"--block", "GRBM"}).filters[0].CounterList().size(), named);
  const CounterCatalog catalog = *CounterCatalog::Builtin();
  present_ = {"gfx90a"};
  ASSERT_FALSE(catalog.Find("gfx90a")->sets().empty());
  EXPECT_FALSE(Spec({"--set", catalog.Find("gfx90a")->sets()[0].name}).filters.empty());
  present_ = {"gfx1036"};
  EXPECT_THAT(Refusal({"--block", "SQ"}),
              HasSubstr("unknown GPU architecture gfx1036"));
}

TEST_F(SessionArgumentsTest, SinglePassIsCheckedBeforeAnyAttach) {
  const CounterCatalog catalog = *CounterCatalog::Builtin();
  std::vector<std::string> words = {"--single-pass", "--pmc"};
  for (const HardwareCounter& counter : catalog.Find("gfx90a")->counters()) {
    if (counter.block == "TCC" && words.size() < 22) words.push_back(counter.name);
  }
  ASSERT_EQ(words.size(), 22u);
  Refusal(words);  // on any GPU
  present_ = {"gfx90a"};
  EXPECT_THAT(Refusal(words), HasSubstr("pass"));
  EXPECT_TRUE(Spec({"--single-pass", "--pmc", "SQ_WAVES"}).filters[0].single_pass);
  words[0] = "--kernel-trace";
  EXPECT_EQ(Spec(words).filters.size(), 2u) << "several passes are fine";
}

TEST_F(SessionArgumentsTest, InputFile) {
  const std::string file = File("job.json", R"({"jobs": [
    {"pmc": ["SQ_WAVES"], "kernel_trace": true, "memory_copy_trace": true,
     "hsa_trace": true, "stats": true, "output_file": "x",
     "kernel_include_regex": "file", "kernel_iteration_range": "[2-4]",
     "collection_period": ["1:2:3"], "collection_period_unit": "msec"}]})");
  const SessionSpec spec = Spec({"-i", file, "--kernel-include-regex", "line"});
  ASSERT_EQ(spec.filters.size(), 3u);
  EXPECT_EQ(spec.filters[0].kind, FilterKind::kCounters);
  EXPECT_THAT(spec.filters[0].selection.kernel_include, ElementsAre("line"))
      << "the command line wins";
  EXPECT_THAT(spec.filters[0].selection.iterations, ElementsAre(NumberRange{2, 4}));
  EXPECT_EQ(spec.filters[1].kind, FilterKind::kDispatchTimestamps);
  EXPECT_EQ(spec.filters[2].kind, FilterKind::kApiTrace);
  EXPECT_EQ(spec.filters[2].api_domains.size(), 2u);
  EXPECT_THAT(spec.periods, ElementsAre(CollectionPeriod{1'000'000, 2'000'000, 3}));
  EXPECT_THAT(spec.ignored, ElementsAre("output_file"));
}

TEST_F(SessionArgumentsTest, RefusesOrReportsUnusableInputFiles) {
  const std::string regex_only =
      File("regex.json", R"({"hip_trace": true, "kernel_include_regex": "foo"})");
  EXPECT_THAT(Spec({"-i", regex_only}).ignored, ElementsAre(HasSubstr("kernel_")));
  const std::string two = File("two.json", R"({"jobs": [
      {"pmc": ["SQ_WAVES"]}, {"pmc": ["TCC_HIT"], "kernel_include_regex": "a"}]})");
  EXPECT_THAT(Refusal({"-i", two}), HasSubstr("different filters"));
  EXPECT_THAT(Refusal({"-i", directory_ / "none.json"}), HasSubstr("none.json"));
}

// The command runs once for each kind of filter, as with rocprofv3.
TEST_F(SessionArgumentsTest, JobsWithOtherFiltersNeedSeparateRuns) {
  const std::string file = File("runs.json", R"({"jobs": [
      {"pmc": ["SQ_WAVES"]},
      {"pmc": ["TCC_HIT"], "kernel_include_regex": "a"},
      {"pmc": ["GRBM_COUNT"]},
      {"kernel_trace": true, "kernel_include_regex": "b"}]})");
  std::vector<SessionSpec> runs;
  ASSERT_TRUE(Interpret({"-i", file}, &runs).ok());
  ASSERT_EQ(runs.size(), 3u);
  ASSERT_EQ(runs[0].filters.size(), 1u);
  EXPECT_THAT(runs[0].filters[0].CounterList(), ElementsAre("SQ_WAVES", "GRBM_COUNT"));
  EXPECT_TRUE(runs[0].filters[0].selection.kernel_include.empty());
  EXPECT_THAT(runs[1].filters[0].CounterList(), ElementsAre("TCC_HIT"));
  EXPECT_THAT(runs[1].filters[0].selection.kernel_include, ElementsAre("a"));
  EXPECT_EQ(runs[2].filters[0].kind, FilterKind::kDispatchTimestamps);
  EXPECT_THAT(runs[2].filters[0].selection.kernel_include, ElementsAre("b"));
  // The command line overrides the file, so all jobs have the same filters.
  ASSERT_TRUE(Interpret({"-i", file, "--kernel-include-regex", "c"}, &runs).ok());
  EXPECT_EQ(runs.size(), 1u);
}

TEST_F(SessionArgumentsTest, OwnCountersComeWithTheirText) {
  const std::string text =
      "architectures: [gfx90a]\n"
      "metrics: {MyRatio: {expression: SQ_WAVES / GRBM_COUNT}}\n";
  const std::string file = File("mine.yaml", text);
  Refusal({"--pmc", "MyRatio"});
  SessionSpec spec = Spec({"--pmc", "MyRatio", "--extra-counters", file});
  ASSERT_EQ(spec.counter_files.size(), 1u);
  EXPECT_EQ(spec.counter_files[0].text, text);
  EXPECT_EQ(spec.counter_files[0].name, file);
  const std::string job = File(
      "job.json", R"({"pmc": ["MyRatio"], "extra_counters": [")" + file + R"("]})");
  spec = Spec({"-i", job});
  EXPECT_EQ(spec.counter_files.size(), 1u);
}

TEST_F(SessionArgumentsTest, ArchitecturesOfTheDriver) {
  EXPECT_EQ(ArchitectureName(90010), "gfx90a");
  EXPECT_EQ(ArchitectureName(90006), "gfx906");
  EXPECT_EQ(ArchitectureName(90402), "gfx942");
  EXPECT_EQ(ArchitectureName(100306), "gfx1036");
  EXPECT_EQ(ArchitectureName(120001), "gfx1201");
  EXPECT_THAT(TopologyArchitectures(directory_.path()), IsEmpty());
  for (const auto& [node, version] :
       {std::pair("0", "0"), {"1", "90010"}, {"2", "90402"}, {"3", "90010"}}) {
    std::filesystem::create_directories(directory_ / "nodes/" + node);
    File(std::string("nodes/") + node + "/properties",
         std::string("simd_count 4\ngfx_target_version ") + version + "\n");
  }
  EXPECT_THAT(TopologyArchitectures(directory_.path()),
              ElementsAre("gfx90a", "gfx942"));
}

TEST_F(SessionArgumentsTest, TheModelIsThatOfTheFirstGpu) {
  EXPECT_EQ(TopologyModel(directory_.path()), "");
  auto add = [&](const std::string& node, const std::string& properties) {
    std::filesystem::create_directories(directory_ / "nodes/" + node);
    File("nodes/" + node + "/properties", properties);
  };
  add("0", "gfx_target_version 0\ndevice_id 0\n");
  EXPECT_EQ(TopologyModel(directory_.path()), "") << "a processor";
  add("10", "gfx_target_version 90402\ndevice_id 29857\n");
  EXPECT_EQ(TopologyModel(directory_.path()), "MI300X_A1");
  add("9", "gfx_target_version 90402\ndevice_id 29876\n");
  EXPECT_EQ(TopologyModel(directory_.path()), "MI300A_A1") << "a virtual function";
  add("2", "gfx_target_version 90010\ndevice_id 29711\n");
  EXPECT_EQ(TopologyModel(directory_.path()), "MI210");
  add("1", "gfx_target_version 90006\n");
  EXPECT_EQ(TopologyModel(directory_.path()), "gfx906") << "of no known name";
}

}  // namespace
}  // namespace rocattach
