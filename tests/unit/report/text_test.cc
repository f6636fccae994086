#include "userspace/report/text.h"
#include "userspace/base/display_width.h"

#include <gtest/gtest.h>

#include <vector>

#include "schemas/stream.pb.h"
#include "userspace/report/table.h"

namespace rocattach {
namespace {

TEST(TerminalSafe, HostileTextIsShownNotObeyed) {
  EXPECT_EQ(TerminalSafe("plain \xc3\xa4"), "plain \xc3\xa4");
  EXPECT_EQ(TerminalSafe("\x1b[2Jgone\n\r\t"), "\\x1b[2Jgone\\x0a\\x0d\\x09");
  EXPECT_EQ(TerminalSafe(absl::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(TerminalSafe("\x7f"), "\\x7f");
  EXPECT_EQ(TerminalSafe("\xc2\x9b"), "\\x9b") << "C1 control sequence introducer";
  EXPECT_EQ(TerminalSafe("\xff"), "\\xff");
  EXPECT_EQ(TerminalSafe("\xe2\x80\xae"), "\\u{202e}") << "right-to-left override";
}

TEST(FitWidth, CutsBetweenCharacters) {
  EXPECT_EQ(FitWidth("abc", 3), "abc");
  EXPECT_EQ(FitWidth("abcd", 3), "ab…");
  EXPECT_EQ(FitWidth("\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4", 3), "\xc3\xa4\xc3\xa4…");
  EXPECT_EQ(FitWidth("abc", 0), "");
  EXPECT_EQ(DisplayWidth("\xc3\xa4"
                         "b…"),
            3u);
}

TEST(WrapWidth, BreaksAtBlanks) {
  using Lines = std::vector<std::string>;
  EXPECT_EQ(WrapWidth("one two three", 8, 9), (Lines{"one two", "three"}));
  EXPECT_EQ(WrapWidth("one two three", 7, 9), (Lines{"one two", "three"}));
  EXPECT_EQ(WrapWidth("abcdefgh ij", 3, 9), (Lines{"abc", "def", "gh", "ij"}));
  EXPECT_EQ(WrapWidth("one two three", 7, 1), (Lines{"one tw…"}));
  EXPECT_EQ(WrapWidth("one two", 0, 9), (Lines{"one two"}));
  EXPECT_EQ(WrapWidth("", 5, 9), (Lines{""}));
  EXPECT_EQ(WrapWidth("\xc3\xa4\xc3\xa4\xc3\xa4", 2, 9),
            (Lines{"\xc3\xa4\xc3\xa4", "\xc3\xa4"}));
}

TEST(ShortName, IsStable) {
  EXPECT_EQ(ShortName(v1::WINDOW_STATE_ATTACHED), "attached");
  EXPECT_EQ(ShortName(v1::ATTACH_REASON_COLLECTOR_MISSING), "collector_missing");
  EXPECT_EQ(ShortName(v1::COPY_DIRECTION_HOST_TO_DEVICE), "host_to_device");
  EXPECT_EQ(ShortName(v1::ProcessEnd::EXITED), "exited");
  EXPECT_EQ(ShortName(static_cast<v1::WindowState>(99)), "99");
}

TEST(Table, LeavesColumnsOutBeforeItCutsTheText) {
  Table table({"share", "p50", "p99", "mean", "name"}, {"p50", "p99"});
  table.Add({"12.0 %", "1.00 us", "9.00 us", "2.00 us", std::string(40, 'n')});
  EXPECT_TRUE(table.LeftOut(2, 0).empty());
  EXPECT_TRUE(table.LeftOut(2, 2 + 8 + 9 + 9 + 9 + 24).empty());
  EXPECT_EQ(table.LeftOut(2, 2 + 8 + 9 + 9 + 9 + 23), std::vector<std::string>{"p50"});
  EXPECT_EQ(table.LeftOut(2, 30), (std::vector<std::string>{"p50", "p99"}));
  EXPECT_EQ(table.Format(2, 45, "", ""),
            "   share     mean  name\n"
            "  12.0 %  2.00 us  nnnnnnnnnnnnnnnnnnnnnnnnn…\n");
}

TEST(Table, FitsTheTerminal) {
  Table table({"n", "name"});
  table.Add({"1", "short"});
  table.Add({"1,000", "a name that is much too long for this terminal"});
  std::string cut = table.Format(2, 30, "<", ">");
  for (size_t at = 0; at < cut.size();) {
    size_t end = cut.find('\n', at);
    std::string line = cut.substr(at, end - at);
    if (at > 0) {
      EXPECT_LE(DisplayWidth(line), 30u) << line;
    }
    at = end + 1;
  }
  EXPECT_NE(cut.find("…"), std::string::npos);
  EXPECT_NE(table.Format(2, 0, "", "").find("for this terminal"), std::string::npos);
}

}  // namespace
}  // namespace rocattach
