#include "userspace/cli/options/help_formatter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "userspace/base/display_width.h"

namespace rocattach {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::Not;

TEST(WrapText, BreaksAtBlanks) {
  EXPECT_EQ(WrapText("one two three", 2, 10), "one two\n  three");
  EXPECT_EQ(WrapText("one two three", 2, 0), "one two three");
  EXPECT_EQ(WrapText("one\ntwo", 2, 80), "one\n  two");
  EXPECT_EQ(WrapText("", 2, 10), "");
}

class HelpTest : public testing::Test {
 protected:
  std::string Help(size_t width) {
    CLI::App app("Test", "test");
    app.formatter(std::make_shared<HelpFormatter>(width));
    app.add_option("--threads", threads_, "Windows served at the same time")
        ->check(CLI::Range(1, 1024))
        ->capture_default_str();
    app.add_option("--hold", hold_, "How a thread is held")
        ->check(CLI::IsMember({"yielding", "signal"}));
    app.add_option("--pmc", names_, "Counters")->type_name("NAME…");
    auto* json =
        app.add_flag("--json", json_, "One object with all that is known of it");
    app.add_flag("--names", only_names_, "Only names")->excludes(json);
    app.add_flag("--force", force_, "Replace it")->needs(json);
    app.add_option("--tools", hold_, "Tools")->type_name("LIB[:LIB…]");
    app.add_option("--size", threads_, "Size")->transform(CLI::AsSizeValue(true));
    app.add_option("FILE", file_, "Recording")->required()->type_name("");
    return app.help();
  }

  bool json_ = false, only_names_ = false, force_ = false;
  int threads_ = 64;
  std::string hold_, file_;
  std::vector<std::string> names_;
};

TEST_F(HelpTest, ValuesAreInWords) {
  const std::string help = Help(0);
  EXPECT_THAT(help,
              HasSubstr("  --threads N                 Windows served at the same "
                        "time (1 to 1024; default: 64)\n"));
  EXPECT_THAT(help, HasSubstr("  --hold {yielding,signal}    How a thread is held\n"));
  EXPECT_THAT(help, HasSubstr("  --pmc NAME…                 Counters\n"));
  EXPECT_THAT(help, HasSubstr("  --names                     Only names (not with "
                              "--json)\n"));
  EXPECT_THAT(help, HasSubstr("  --force                     Replace it (only with "
                              "--json)\n"));
  EXPECT_THAT(help, HasSubstr("  FILE                        Recording (required)\n"));
  EXPECT_THAT(help, HasSubstr("  --tools LIB[:LIB…]          Tools\n"));
  EXPECT_THAT(help, HasSubstr("  --size N                    Size\n"));
  EXPECT_THAT(help, Not(HasSubstr("UINT")));
}

TEST_F(HelpTest, NoLineIsWiderThanTheTerminal) {
  std::vector<size_t> widths;
  for (absl::string_view line : absl::StrSplit(Help(60), '\n')) {
    widths.push_back(DisplayWidth(line));
  }
  EXPECT_THAT(widths, Each(testing::Le(60u)));
}

}  // namespace
}  // namespace rocattach
