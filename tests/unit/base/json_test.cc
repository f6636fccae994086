#include "userspace/base/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <optional>

namespace rocattach {
namespace {

TEST(DumpJson, BytesThatAreNotUtf8AreReplaced) {
  EXPECT_EQ(DumpJson("a\"\\\n\x1f\xc3\xa4\xff"),
            "\"a\\\"\\\\\\n\\u001f\xc3\xa4\xef\xbf\xbd\"");
}

TEST(NumberJson, ReadsBackTheSame) {
  EXPECT_EQ(NumberJson(3).dump(), "3");
  EXPECT_EQ(NumberJson(-2e14).dump(), "-200000000000000");
  EXPECT_EQ(NumberJson(0.1).dump(), "0.1");
  EXPECT_EQ(NumberJson(1.0 / 3).get<double>(), 1.0 / 3);
  EXPECT_EQ(NumberJson(INFINITY).dump(), "null");
  EXPECT_EQ(NumberJson(NAN).dump(), "null");
  EXPECT_EQ(NumberJson(std::nullopt).dump(), "null");
}

TEST(DumpJson, IndentsOnRequest) {
  EXPECT_EQ(DumpJson({{"b", 1}, {"a", 2}}, 2), "{\n  \"b\": 1,\n  \"a\": 2\n}");
}

TEST(ParseJsonObject, AcceptsObjectsOnly) {
  for (const char* text :
       {"", "{", "[]", "1", "null", "\"a\"", "{} {}", "{\"a\":\xff}"}) {
    EXPECT_FALSE(ParseJsonObject(text).has_value()) << text;
  }
  EXPECT_TRUE(ParseJsonObject("{}").has_value());
}

TEST(ParseJsonObject, MembersOfAnotherTypeAreAbsent) {
  const auto object =
      ParseJsonObject(R"({"text":"a","count":7,"negative":-7,"real":7.5,"none":null})");
  ASSERT_TRUE(object.has_value());
  EXPECT_EQ(JsonString(*object, "text"), "a");
  EXPECT_EQ(JsonString(*object, "count"), "");
  EXPECT_EQ(JsonString(*object, "missing"), "");
  EXPECT_EQ(JsonUnsigned(*object, "count"), 7u);
  for (const char* key : {"text", "negative", "real", "none", "missing"}) {
    EXPECT_EQ(JsonUnsigned(*object, key), 0u) << key;
  }
}

}  // namespace
}  // namespace rocattach
