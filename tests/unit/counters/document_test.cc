#include "userspace/counters/document.h"

#include <gtest/gtest.h>

#include <string>

namespace rocattach {
namespace {

TEST(ParseYaml, TypesPlainScalarsAndKeepsQuotedOnes) {
  auto document = ParseYaml("a: 3\nb: \"3\"\nc: true\nd: 1.5\ne: x y\nf: ~\n", "t");
  ASSERT_TRUE(document.ok()) << document.status();
  EXPECT_EQ(document->dump(), R"({"a":3,"b":"3","c":true,"d":1.5,"e":"x y","f":null})");
}

TEST(ParseYaml, ReadsJson) {
  auto document = ParseYaml(R"({"jobs": [{"pmc": ["A", "B"]}]})", "t");
  ASSERT_TRUE(document.ok()) << document.status();
  EXPECT_EQ((*document)["jobs"][0]["pmc"][1], "B");
}

TEST(ParseYaml, NamesFileAndLine) {
  auto document = ParseYaml("a: 1\nb: [1, 2\n", "counters.yaml");
  ASSERT_FALSE(document.ok());
  EXPECT_EQ(document.status().message().rfind("counters.yaml:", 0), 0u)
      << document.status();
}

TEST(ParseYaml, SurvivesAliasesThatMultiply) {
  std::string text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int j = 0; j < 10; ++j) text += (j ? "," : "") + before;
    text += "]\n";
  }
  EXPECT_FALSE(ParseYaml(text, "bomb").ok());
}

TEST(ParseYaml, BoundsDepthAndSize) {
  EXPECT_FALSE(ParseYaml(std::string(100000, '['), "t").ok());
  std::string nested;
  for (int i = 0; i < 100; ++i) nested += std::string(i, ' ') + "a:\n";
  EXPECT_FALSE(ParseYaml(nested, "t").ok());
  EXPECT_FALSE(ParseYaml(std::string(kMaxDocumentBytes + 1, ' '), "t").ok());
  EXPECT_FALSE(ParseYaml(std::string("a\0b", 3), "t").ok());
}

TEST(ParseJson, AllowsCommentsAndBoundsDepth) {
  auto document = ParseJson("// why\n{\"a\": 1 /* x */}", "t");
  ASSERT_TRUE(document.ok()) << document.status();
  EXPECT_EQ((*document)["a"], 1);
  EXPECT_FALSE(ParseJson("{\"a\": }", "t").ok());
  EXPECT_FALSE(ParseJson(std::string(100, '[') + std::string(100, ']'), "t").ok());
  EXPECT_FALSE(ParseJson(std::string(1000000, '['), "t").ok());
}

TEST(ReadDocument, NamesTheMissingFile) {
  auto document = ReadDocument("/nonexistent/file.yaml");
  ASSERT_FALSE(document.ok());
  EXPECT_NE(document.status().message().find("/nonexistent/file.yaml"),
            std::string::npos);
}

}  // namespace
}  // namespace rocattach
