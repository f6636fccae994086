// Definitions of accumulated counters, made from the text of the SDK's own file.
#include "userspace/collector/sdk/accumulators.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace rocattach::collector {
namespace {

constexpr Architectures kOne = {{"gfx90a"}, 1};

std::string Definitions(const std::string& known,
                        const Architectures& architectures = kOne,
                        size_t room = 65536) {
  std::vector<char> out(room);
  const size_t bytes = WriteAccumulators(known.data(), known.size(), architectures,
                                         out.data(), out.size());
  return {out.data(), bytes};
}

std::string Counter(const std::string& name, const std::string& block,
                    const std::string& architectures = "      - gfx90a\n") {
  return "  - name: " + name +
         "\n    description: Its block is\n      SQ or another.\n    properties: []\n"
         "    definitions:\n    - architectures:\n" +
         architectures + "      block: " + block + "\n      event: 4\n";
}

std::string Defined(const std::string& name, const std::string& resolution,
                    const std::string& architectures = "gfx90a") {
  return "  - name: ROCATTACH_" + resolution + "_" + name +
         "\n    description: Summed up over time, for rocattach\n"
         "    properties: []\n    definitions:\n    - architectures: [" +
         architectures + "]\n      expression: accumulate(" + name + "," + resolution +
         ")\n";
}

const std::string kHead =
    "rocprofiler-sdk:\n  counters-schema-version: 1\n  counters:\n";

TEST(Accumulators, DefinesBothResolutionsOfEachSequencerCounter) {
  EXPECT_EQ(Definitions(kHead + Counter("SQ_WAVES", "SQ") + Counter("TCC_HIT", "TCC") +
                        Counter("SQ_INSTS", "SQ")),
            kHead + Defined("SQ_WAVES", "HIGH_RES") + Defined("SQ_WAVES", "LOW_RES") +
                Defined("SQ_INSTS", "HIGH_RES") + Defined("SQ_INSTS", "LOW_RES"));
}

// The process's other GPUs do not have the counter.
TEST(Accumulators, OnlyArchitecturesThatHaveTheCounter) {
  const Architectures three = {{"gfx90a", "gfx906", "gfx942"}, 3};
  const std::string known =
      kHead +
      Counter("SQ_WAVES", "SQ", "      - gfx908\n      - gfx90a\n      - gfx942\n") +
      "    - architectures:\n      - gfx906\n      block: GRBM\n      event: 5\n" +
      Counter("SQ_OTHER", "SQ", "      - gfx1100\n");
  EXPECT_EQ(Definitions(known, three),
            kHead + Defined("SQ_WAVES", "HIGH_RES", "gfx90a, gfx942") +
                Defined("SQ_WAVES", "LOW_RES", "gfx90a, gfx942"));
}

TEST(Accumulators, TextThatIsNotUnderstoodDefinesNothing) {
  EXPECT_EQ(Definitions(""), "");
  EXPECT_EQ(Definitions(kHead), "");
  EXPECT_EQ(Definitions(kHead + Counter("SQ_ACCUM_PREV_HIRES", "SQ")), "");
  EXPECT_EQ(Definitions(kHead + Counter("SQ WAVES: [", "SQ")), "");
  EXPECT_EQ(Definitions(kHead + Counter(std::string(60, 'X'), "SQ")), "");
  EXPECT_EQ(Definitions(kHead + Counter(std::string(600, 'X'), "SQ")), "");
  EXPECT_EQ(Definitions(kHead + Counter("SQ_WAVES", "SQC")), "");
  // A derived counter has no block.
  EXPECT_EQ(
      Definitions(kHead + "  - name: Derived\n    definitions:\n    - architectures:\n"
                          "      - gfx90a\n      expression: reduce(SQ_WAVES,sum)\n"),
      "");
  // The last line has no end: the file is cut off.
  EXPECT_EQ(Definitions(kHead + "  - name: SQ_WAVES\n    - architectures:\n"
                                "      - gfx90a\n      block: SQ"),
            "");
}

// A definition is written as a whole or not at all.
TEST(Accumulators, DefinitionsThatDoNotFitAreLeftOut) {
  const std::string known = kHead + Counter("SQ_WAVES", "SQ");
  const std::string all = Definitions(known);
  const std::string first = kHead + Defined("SQ_WAVES", "HIGH_RES");
  for (size_t room = 1; room <= all.size() + 1; ++room) {
    const std::string got = Definitions(known, kOne, room);
    EXPECT_EQ(got, room > all.size()     ? all
                   : room > first.size() ? first
                                         : std::string())
        << room;
  }
}

}  // namespace
}  // namespace rocattach::collector
