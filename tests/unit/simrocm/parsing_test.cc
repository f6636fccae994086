// The parsers: environment buffers, Boolean words, tool lists, expressions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <string.h>

#include "tests/simrocm/environment.h"
#include "tests/simrocm/sdk/expression.h"
#include "tests/simrocm/sdk/tool_search.h"

namespace simrocm {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

TEST(EnvironmentBuffer, HoldsPairsOfStrings) {
  EXPECT_THAT(ParseEnvironmentBuffer(nullptr), IsEmpty());
  EXPECT_THAT(ParseEnvironmentBuffer("\0\0\0\0ignored"), IsEmpty());
  static const char two[] = "\2\0\0\0A\0one\0B\0";
  EXPECT_THAT(ParseEnvironmentBuffer(two),
              ElementsAre(Pair("A", "one"), Pair("B", "")));
  static const char equals[] = "\1\0\0\0A\0x=y\0";
  EXPECT_THAT(ParseEnvironmentBuffer(equals), ElementsAre(Pair("A", "x=y")));
  static const char absurd[] = "\xff\xff\xff\xff";
  EXPECT_THAT(ParseEnvironmentBuffer(absurd), IsEmpty());
}

TEST(EnvironmentBuffer, ChangesCanBeReverted) {
  setenv("SIMROCM_A", "before", 1);
  unsetenv("SIMROCM_B");
  EnvironmentChange change({{"SIMROCM_A", "1"},
                            {"SIMROCM_B", "2"},
                            {"SIMROCM_A", "3"},
                            {"ROCPROFILER_REGISTER_TOOL_ATTACHED", "x"}});
  EXPECT_STREQ(getenv("SIMROCM_A"), "3");
  EXPECT_STREQ(getenv("SIMROCM_B"), "2");
  EXPECT_EQ(getenv("ROCPROFILER_REGISTER_TOOL_ATTACHED"), nullptr);
  change.Restore();
  EXPECT_STREQ(getenv("SIMROCM_A"), "before");
  EXPECT_EQ(getenv("SIMROCM_B"), nullptr);
}

TEST(Booleans, AcceptTheDocumentedWords) {
  for (const char* no : {"0", "no", "No", "FALSE", "f", "off", "n"}) {
    setenv("SIMROCM_A", no, 1);
    EXPECT_FALSE(GetBool("SIMROCM_A", true)) << no;
  }
  for (const char* yes : {"1", "true", "on", "anything"}) {
    setenv("SIMROCM_A", yes, 1);
    EXPECT_TRUE(GetBool("SIMROCM_A", false)) << yes;
  }
  setenv("SIMROCM_A", "", 1);
  EXPECT_TRUE(GetBool("SIMROCM_A", true));
  EXPECT_FALSE(GetBool("SIMROCM_A", false));
}

TEST(ToolLibraries, DropTheLastOfAList) {
  EXPECT_THAT(sdk::SplitToolLibraries(""), IsEmpty());
  EXPECT_THAT(sdk::SplitToolLibraries("/a.so"), ElementsAre("/a.so"));
  EXPECT_THAT(sdk::SplitToolLibraries("/a.so:"), ElementsAre("/a.so"));
  EXPECT_THAT(sdk::SplitToolLibraries("/a.so:/b.so"), ElementsAre("/a.so"));
  EXPECT_THAT(sdk::SplitToolLibraries("/a.so:/b.so:"), ElementsAre("/a.so", "/b.so"));
  EXPECT_THAT(sdk::SplitToolLibraries("::/a.so::"), ElementsAre("/a.so"));
}

std::optional<std::vector<double>> Lookup(const std::string& name) {
  if (name == "A") return std::vector<double>{1, 2, 3, 4};
  if (name == "B") return std::vector<double>{10, 20, 30, 40};
  if (name == "TWO") return std::vector<double>{5, 6};
  if (name == "ONE") return std::vector<double>{2};
  return std::nullopt;
}

TEST(Expressions, Evaluate) {
  auto value = [](const char* text) { return sdk::Evaluate(text, Lookup); };
  EXPECT_EQ(value("1+2*3"), std::vector<double>{7});
  EXPECT_EQ(value("(1+2)*3 - 10/4"), std::vector<double>{6.5});
  EXPECT_EQ(value("reduce(A,sum)"), std::vector<double>{10});
  EXPECT_EQ(value("reduce(A, max) + reduce(A, min)"), std::vector<double>{5});
  EXPECT_EQ(value("reduce(A,avr)"), std::vector<double>{2.5});
  EXPECT_EQ(value("reduce(B/A,sum)"), std::vector<double>{40});
  EXPECT_EQ(value("A+B"), (std::vector<double>{11, 22, 33, 44}));
  EXPECT_EQ(value("A*ONE"), (std::vector<double>{2, 4, 6, 8}));
  EXPECT_EQ(value("3/0"), std::vector<double>{0});
  for (const char* bad : {"", "1+", "(1", "reduce(A,median)", "reduce(A)", "C", "A+TWO",
                          "1 2", "reduce(A,sum", "@"}) {
    EXPECT_FALSE(value(bad).has_value()) << bad;
  }
  EXPECT_FALSE(value(std::string(5000, '(').c_str()).has_value());
}

}  // namespace
}  // namespace simrocm
