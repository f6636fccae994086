#include "userspace/library/attach_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "userspace/library/attach_log.h"

namespace rocattach {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

AttachSettings Read(const std::map<std::string, std::string>& environment) {
  return ReadAttachSettings([&](const char* name) -> std::optional<std::string> {
    const auto found = environment.find(name);
    if (found == environment.end()) return std::nullopt;
    return found->second;
  });
}

TEST(AttachSettingsTest, NothingIsAskedForByDefault) {
  const AttachSettings settings = Read({});
  EXPECT_THAT(settings.options, IsEmpty());
  EXPECT_THAT(settings.tool_libraries, IsEmpty());
  EXPECT_THAT(settings.ignored, IsEmpty());
}

TEST(AttachSettingsTest, TheDocumentedExample) {
  EXPECT_THAT(Read({{"ROCPROF_HIP_RUNTIME_API_TRACE", "1"},
                    {"ROCPROF_KERNEL_TRACE", "1"},
                    {"ROCPROF_MEMORY_COPY_TRACE", "1"},
                    {"ROCPROF_OUTPUT_PATH", "./attachment-output"},
                    {"ROCPROF_OUTPUT_FILE_NAME", "attached_profile"}})
                  .options,
              ElementsAre("--output-directory", "./attachment-output",
                          "--output-file=attached_profile", "--kernel-trace",
                          "--memory-copy-trace", "--hip-trace"));
}

TEST(AttachSettingsTest, FlagsAreReadAsRocmReadsThem) {
  for (const char* no : {"", "0", "n", "No", "f", "FALSE", "off"}) {
    EXPECT_THAT(Read({{"ROCPROF_KERNEL_TRACE", no}}).options, IsEmpty()) << no;
  }
  for (const char* yes : {"1", "true", "ON", "yes", "2"}) {
    EXPECT_THAT(Read({{"ROCPROF_KERNEL_TRACE", yes}}).options,
                ElementsAre("--kernel-trace"))
        << yes;
  }
}

TEST(AttachSettingsTest, SiblingsShareAnOption) {
  EXPECT_THAT(Read({{"ROCPROF_HSA_CORE_API_TRACE", "1"},
                    {"ROCPROF_HSA_AMD_EXT_API_TRACE", "1"},
                    {"ROCPROF_HIP_COMPILER_API_TRACE", "1"},
                    {"ROCPROF_MARKER_API_TRACE", "1"}})
                  .options,
              ElementsAre("--hip-trace", "--hsa-trace", "--marker-trace"));
}

TEST(AttachSettingsTest, Counters) {
  const auto options = [](const std::string& counters) {
    return Read({{"ROCPROF_COUNTERS", counters}}).options;
  };
  EXPECT_THAT(options("pmc: SQ_WAVES GRBM_COUNT"),
              ElementsAre("--pmc=SQ_WAVES,GRBM_COUNT"));
  EXPECT_THAT(options("SQ_WAVES, GRBM_COUNT"),
              ElementsAre("--pmc=SQ_WAVES,GRBM_COUNT"));
  EXPECT_THAT(options("pmc: A\npmc: B\n"), ElementsAre("--pmc=A", "--pmc=B"));
  EXPECT_THAT(options("pmc:"), IsEmpty());
  EXPECT_THAT(Read({{"ROCPROF_COUNTER_GROUPS", "pmc: A B\npmc: C"}}).options,
              ElementsAre("--pmc=A,B", "--pmc=C"));
  EXPECT_THAT(
      Read({{"ROCPROF_COUNTERS", "pmc: A"}, {"ROCPROF_COUNTER_COLLECTION", "0"}})
          .options,
      IsEmpty());
  EXPECT_THAT(
      Read({{"ROCPROF_COUNTERS", "pmc: A"}, {"ROCPROF_COUNTER_COLLECTION", "1"}})
          .options,
      ElementsAre("--pmc=A"));
}

TEST(AttachSettingsTest, AFilterImpliesATraceThatItAppliesTo) {
  EXPECT_THAT(Read({{"ROCPROF_KERNEL_FILTER_INCLUDE_REGEX", "After"}}).options,
              ElementsAre("--kernel-include-regex=After", "--kernel-trace"));
  EXPECT_THAT(Read({{"ROCPROF_KERNEL_FILTER_RANGE", "[1-3]"},
                    {"ROCPROF_KERNEL_FILTER_EXCLUDE_REGEX", "-x"},
                    {"ROCPROF_COUNTERS", "A"}})
                  .options,
              ElementsAre("--pmc=A", "--kernel-exclude-regex=-x",
                          "--kernel-iteration-range=[1-3]"));
}

TEST(AttachSettingsTest, NamesWithKeys) {
  EXPECT_THAT(
      Read({{"ROCPROF_OUTPUT_PATH", "out/%hostname%"},
            {"ROCPROF_OUTPUT_FILE_NAME", "run"}})
          .options,
      ElementsAre("--output-directory", ".", "--output-file=out/%hostname%/run"));
  EXPECT_THAT(Read({{"ROCPROF_OUTPUT_PATH", "/out/{pid}"}}).options,
              ElementsAre("--output-directory", "/",
                          "--output-file=/out/{pid}/rocattach-%pid%"));
}

TEST(AttachSettingsTest, NamesThatCouldBeSomethingElse) {
  EXPECT_THAT(Read({{"ROCPROF_OUTPUT_FILE_NAME", "-"}}).options,
              ElementsAre("--output-file=./-"));
  EXPECT_THAT(Read({{"ROCPROF_OUTPUT_FILE_NAME", "/a/b"}}).options,
              ElementsAre("--output-directory", "/", "--output-file=/a/b"));
  EXPECT_THAT(Read({{"ROCPROF_OUTPUT_FILE_NAME", "--json"}}).options,
              ElementsAre("--output-file=--json"));
  EXPECT_THAT(
      Read({{"ROCPROF_OUTPUT_PATH", ""}, {"ROCPROF_OUTPUT_FILE_NAME", ""}}).options,
      IsEmpty());
}

TEST(AttachSettingsTest, ToolLibraries) {
  const auto others = [](const std::string& libraries) {
    return Read({{"ROCPROF_ATTACH_TOOL_LIBRARY", libraries}}).tool_libraries;
  };
  EXPECT_THAT(others(""), IsEmpty());
  EXPECT_THAT(others("::"), IsEmpty());
  EXPECT_THAT(others("/usr/lib/rocattach/librocattach-collector.so"), IsEmpty());
  EXPECT_THAT(others("librocattach-collector.so:/opt/rocm/lib/librocprofv3-attach.so"),
              IsEmpty());
  EXPECT_THAT(others("/x/librocprofiler-sdk-rocattach.so.1"), IsEmpty());
  EXPECT_THAT(others("a.so::/b/librocattach.so:/c/d.so:"),
              ElementsAre("a.so", "/c/d.so"));
  // Similar names are not the same.
  EXPECT_THAT(others("librocattach.sox:my-librocattach.so"),
              ElementsAre("librocattach.sox", "my-librocattach.so"));
}

TEST(AttachSettingsTest, TheDurationIsReadFromOurVariable) {
  EXPECT_EQ(Read({}).duration_msec, 0u);
  EXPECT_EQ(Read({{"ROCATTACH_DURATION_MSEC", "1500"}}).duration_msec, 1500u);
  EXPECT_EQ(Read({{"ROCATTACH_DURATION_MSEC", "soon"}}).duration_msec, 0u);
  EXPECT_EQ(Read({{"ROCPROF_ATTACH_DURATION", "1500"}}).duration_msec, 0u);
}

TEST(AttachSettingsTest, MemoryAndCollectives) {
  EXPECT_THAT(Read({{"ROCPROF_RCCL_API_TRACE", "1"},
                    {"ROCPROF_MEMORY_ALLOCATION_TRACE", "true"},
                    {"ROCPROF_SCRATCH_MEMORY_TRACE", "on"}})
                  .options,
              ElementsAre("--rccl-trace", "--memory-allocation-trace",
                          "--scratch-memory-trace"));
}

TEST(AttachSettingsTest, Formats) {
  EXPECT_THAT(Read({{"ROCPROF_OUTPUT_FORMAT", "csv"}}).options,
              ElementsAre("--output-format=csv"));
  const AttachSettings several =
      Read({{"ROCPROF_OUTPUT_FORMAT", "CSV,rocpd;OTF2 csv"}});
  EXPECT_THAT(several.options, ElementsAre("--output-format=csv,rocpd"));
  EXPECT_THAT(several.ignored, ElementsAre("ROCPROF_OUTPUT_FORMAT=OTF2"));
  // pprof is not one of ROCm's formats, and the variable is ROCm's.
  EXPECT_THAT(Read({{"ROCPROF_OUTPUT_FORMAT", "pprof"}}).options, IsEmpty());
  EXPECT_THAT(Read({{"ROCPROF_OUTPUT_FORMAT", ""}}).options, IsEmpty());
}

TEST(AttachSettingsTest, Periods) {
  EXPECT_THAT(
      Read({{"ROCPROF_COLLECTION_PERIOD", "0:1000:1; 5:20:0"}}).options,
      ElementsAre("--collection-period=0:1000:1", "--collection-period=5:20:0",
                  "--collection-period-unit=nsec", "--no-recording", "--kernel-trace"));
  EXPECT_THAT(
      Read({{"ROCPROF_COLLECTION_PERIOD", ""}, {"ROCPROF_KERNEL_TRACE", "1"}}).options,
      ElementsAre("--kernel-trace"));
}

TEST(AttachSettingsTest, VariablesWithoutEffectAreNamed) {
  EXPECT_THAT(Read({{"ROCPROF_ROCJPEG_API_TRACE", "1"}, {"ROCPROF_KERNEL_RENAME", "0"}})
                  .ignored,
              ElementsAre("ROCPROF_ROCJPEG_API_TRACE"));
}

TEST(AttachLogTest, Levels) {
  EXPECT_EQ(ParseLogLevel("fatal"), AttachLogLevel::kFatal);
  EXPECT_EQ(ParseLogLevel("Error"), AttachLogLevel::kError);
  EXPECT_EQ(ParseLogLevel("TRACE"), AttachLogLevel::kTrace);
  EXPECT_EQ(ParseLogLevel(""), AttachLogLevel::kWarning);
  EXPECT_EQ(ParseLogLevel("loud"), AttachLogLevel::kWarning);
}

}  // namespace
}  // namespace rocattach
