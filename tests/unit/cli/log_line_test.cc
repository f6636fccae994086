#include "userspace/cli/terminal/log_line.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace rocattach {
namespace {

using Json = nlohmann::json;

absl::Time At() {
  return absl::FromUnixMicros(1'700'000'000'000'123);
}

Json Parsed(const LogEntry& entry) {
  const std::string line = LogLine(LogFormat::kJson, "p", entry, At());
  EXPECT_LE(line.size(), kMostLogLineBytes);
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  for (char c : line.substr(0, line.size() - 1)) {
    EXPECT_TRUE(c >= 0x20 && c < 0x7f) << static_cast<int>(c);
  }
  return Json::parse(line, nullptr, /*allow_exceptions=*/false);
}

TEST(LogLineTest, TextHasTheProgramAndTheMessage) {
  EXPECT_EQ(LogLine(LogFormat::kText, "rocattach-watch",
                    {.event = "ready", .message = "watching"}, At()),
            "rocattach-watch: watching\n");
}

TEST(LogLineTest, JsonHasStableKeys) {
  EXPECT_EQ(LogLine(LogFormat::kJson, "rocattach-watch",
                    {.level = LogLevel::kWarning,
                     .event = "refused",
                     .message = "refused a (pid 7): why",
                     .pid = 7,
                     .comm = "a",
                     .uid = 0,
                     .reason = "no-dlopen"},
                    At()),
            R"({"time":"2023-11-14T22:13:20.000123Z","level":"warning",)"
            R"("event":"refused","message":"refused a (pid 7): why","pid":7,)"
            R"("comm":"a","uid":0,"reason":"no-dlopen"})"
            "\n");
}

TEST(LogLineTest, UnknownValuesAreOmitted) {
  const Json line = Parsed({.level = LogLevel::kError, .event = "e", .message = "m"});
  EXPECT_EQ(line["level"], "error");
  EXPECT_EQ(line.size(), 4u) << line;
}

TEST(LogLineTest, ControlCharactersAndBadUtf8StayWithinTheLine) {
  const std::string text =
      std::string("a\n\"\\\x1b[2J\x7f\0", 10) + "\xc2\x9b\xff\u00e9";
  const Json line = Parsed({.event = "e", .message = text, .comm = text});
  ASSERT_TRUE(line.is_object());
  const std::string message = line["message"];
  EXPECT_EQ(message,
            std::string("a\n\"\\\x1b[2J\x7f\0", 10) + "\xc2\x9b\xef\xbf\xbd\u00e9");
}

TEST(LogLineTest, LongMessagesAreCutBetweenCharacters) {
  std::string text;
  for (int i = 0; i < 1'000'000; ++i) text += "\xc2\x9b";
  for (const char* before : {"", "a", "ab", "abc"}) {
    const Json line = Parsed({.event = text,
                              .message = before + text,
                              .comm = text,
                              .uid = 4294967295u,
                              .reason = text});
    ASSERT_TRUE(line.is_object());
    const std::string message = line["message"];
    EXPECT_LE(message.size(), kMostLogMessageBytes);
    EXPECT_EQ(message.substr(message.size() - 3), "...");
    EXPECT_EQ(message.find("\xef\xbf\xbd"), std::string::npos);
  }
  // Control characters only: each takes six bytes in JSON.
  EXPECT_TRUE(
      Parsed({.event = "e", .message = std::string(1 << 20, '\1')}).is_object());
}

}  // namespace
}  // namespace rocattach
