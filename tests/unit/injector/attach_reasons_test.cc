#include "injector/attach_reasons.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace rocattach {
namespace {

TEST(AttachReasonsTest, EachHasANameOfItsOwnAndHelp) {
  std::set<std::string> names;
  for (const AttachReasonEntry& entry : AttachReasons()) {
    const std::string name(entry.name);
    SCOPED_TRACE(name);
    EXPECT_THAT(name, testing::MatchesRegex("[a-z][a-z-]*"));
    EXPECT_TRUE(names.insert(name).second);
    EXPECT_EQ(AttachReasonName(entry.reason), entry.name);
    EXPECT_EQ(AttachReasonHelp(entry.reason), entry.help);
    ASSERT_FALSE(entry.help.empty());
    EXPECT_TRUE(absl::ascii_isalpha(static_cast<unsigned char>(entry.help.front())));
    EXPECT_EQ(entry.help.back(), '.');
  }
}

TEST(AttachReasonsTest, AValueOfALaterVersionIsUnknown) {
  const auto later = static_cast<AttachReason>(AttachReasons().size());
  EXPECT_EQ(AttachReasonName(later), "unknown");
  EXPECT_EQ(AttachReasonHelp(later), "");
}

// The table of verdicts lists each reason, with its meaning and a remedy.
TEST(AttachReasonsTest, EachIsInTheTableOfVerdicts) {
  const std::string path = absl::StrCat(ROCATTACH_TEST_SOURCE, "/docs/operations.md");
  std::ifstream file(path);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const size_t begin = text.find("\n## Verdicts and what to do\n");
  ASSERT_NE(begin, std::string::npos) << path;
  const std::string table = text.substr(begin, text.find("\n## ", begin + 1) - begin);
  for (const AttachReasonEntry& entry : AttachReasons()) {
    if (entry.reason == AttachReason::kNone) continue;
    EXPECT_THAT(table, testing::HasSubstr(absl::StrCat("`", entry.name, "`")));
  }
}

}  // namespace
}  // namespace rocattach
