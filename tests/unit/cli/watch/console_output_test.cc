#include "userspace/cli/watch/console_output.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/unit/cli/watch/console_file.h"
#include "userspace/base/unique_fd.h"

namespace rocattach {
namespace {

TEST(ConsoleOutputTest, SaysALineOfTextForPeople) {
  const ConsoleFile file;
  ConsoleOutput out(file.Options());
  out.Say(LogLevel::kInfo, "wrote", "wrote run.rwa");
  EXPECT_EQ(file.Text(), "rocattach-watch: wrote run.rwa\n");
}

TEST(ConsoleOutputTest, SaysAnObjectForAJsonLog) {
  const ConsoleFile file;
  WatchConsoleOptions options = file.Options();
  options.log_format = LogFormat::kJson;
  ConsoleOutput out(options);
  out.Say({.level = LogLevel::kWarning,
           .event = "refused",
           .message = "not now",
           .pid = 7,
           .comm = "app",
           .uid = 1000,
           .reason = "loader-busy"});
  const std::string text = file.Text();
  ASSERT_EQ(text.back(), '\n');
  const auto line = nlohmann::json::parse(text);
  EXPECT_EQ(line.value("event", ""), "refused");
  EXPECT_EQ(line.value("message", ""), "not now");
  EXPECT_EQ(line.value("pid", 0), 7);
  EXPECT_EQ(line.value("uid", 0), 1000);
  EXPECT_EQ(line.value("reason", ""), "loader-busy");
}

// Bytes from a target that are not UTF-8 must not make the line unreadable.
TEST(ConsoleOutputTest, AnEventIsOneLineOfValidJson) {
  const ConsoleFile file;
  ConsoleOutput out(file.Options());
  out.AddEvent({{"event", "window"}, {"comm", "a\xff\nb"}});
  const std::string text = file.Text();
  EXPECT_EQ(text.find('\n'), text.size() - 1);
  EXPECT_EQ(nlohmann::json::parse(text).value("comm", ""), "a\xEF\xBF\xBD\nb");
}

TEST(ConsoleOutputTest, AnErrorIsOnStandardError) {
  const ConsoleFile file;
  testing::internal::CaptureStderr();
  {
    ConsoleOutput out(file.Options());
    out.SayError("session_empty", "nothing was collected");
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "rocattach-watch: nothing was collected\n");
  EXPECT_EQ(file.Text(), "");
}

TEST(ConsoleOutputTest, TheLiveLineIsForTerminals) {
  const ConsoleFile file;
  ConsoleOutput out(file.Options());
  EXPECT_FALSE(out.shows_live());
  out.ShowLive("3 running");
  out.ClearLive();
  EXPECT_EQ(file.Text(), "");
}

// A pipe whose reader does not read.
class ConsolePipeTest : public testing::Test {
 protected:
  void SetUp() override {
    signal(SIGPIPE, SIG_IGN);
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    reading_.reset(ends[0]);
    out_ = fdopen(ends[1], "w");
    ASSERT_NE(out_, nullptr);
  }
  void TearDown() override { fclose(out_); }

  UniqueFd reading_;
  FILE* out_ = nullptr;
};

TEST_F(ConsolePipeTest, LostLinesAreReportedOnce) {
  WatchConsoleOptions options;
  options.out = out_;
  ConsoleOutput out(options);
  const std::string message(1000, 'x');
  out.Say(LogLevel::kInfo, "a", message);
  EXPECT_EQ(out.TakeLinesLost(), 0u);
  // Far more lines than are kept.
  for (int i = 0; i < 20'000; ++i) out.Say(LogLevel::kInfo, "a", message);
  const uint64_t lost = out.TakeLinesLost();
  EXPECT_GT(lost, 10'000u);
  EXPECT_LT(lost, 20'000u);
  EXPECT_EQ(out.TakeLinesLost(), 0u);
  out.Say(LogLevel::kInfo, "a", message);
  EXPECT_EQ(out.TakeLinesLost(), 1u);
  reading_.reset();  // so that the end of the output does not wait for a reader
}

class ConsoleTerminalTest : public testing::Test {
 protected:
  void SetUp() override {
    int keyboard, screen;
    if (openpty(&keyboard, &screen, nullptr, nullptr, nullptr) != 0) {
      GTEST_SKIP() << "no pseudo-terminals";
    }
    terminal_.reset(keyboard);
    out_ = fdopen(screen, "w");
    ASSERT_NE(out_, nullptr);
    options_.out = out_;
  }
  void TearDown() override {
    if (out_ != nullptr) fclose(out_);
  }
  // Expects this text as the next output on the terminal.
  void ExpectSent(const std::string& text) {
    std::string sent;
    while (sent.size() < text.size()) {
      pollfd fd = {terminal_.get(), POLLIN, 0};
      ASSERT_EQ(poll(&fd, 1, 10'000), 1) << "after \"" << sent << "\"";
      char chunk[256];
      const size_t room = std::min(sizeof(chunk), text.size() - sent.size());
      const ssize_t bytes = read(terminal_.get(), chunk, room);
      ASSERT_GT(bytes, 0);
      sent.append(chunk, static_cast<size_t>(bytes));
    }
    EXPECT_EQ(sent, text);
  }

  UniqueFd terminal_;
  FILE* out_ = nullptr;
  WatchConsoleOptions options_;
};

TEST_F(ConsoleTerminalTest, AMessageReplacesTheLiveLine) {
  ConsoleOutput out(options_);
  ASSERT_TRUE(out.shows_live());
  out.ShowLive("3 running");
  ExpectSent("3 running");
  out.ShowLive("4 running");
  ExpectSent("\r\033[K4 running");
  out.Say(LogLevel::kInfo, "end", "app has ended");
  ExpectSent("\r\033[Krocattach-watch: app has ended\r\n");
  // There is no live line any more.
  out.ClearLive();
  out.Say(LogLevel::kInfo, "end", "another has ended");
  ExpectSent("rocattach-watch: another has ended\r\n");
}

TEST_F(ConsoleTerminalTest, TheLiveLineIsNotForPrograms) {
  for (int what = 0; what < 4; ++what) {
    WatchConsoleOptions options = options_;
    if (what == 0) options.json = true;
    if (what == 1) options.quiet = true;
    if (what == 2) options.log_format = LogFormat::kJson;
    if (what == 3) options.live = false;
    ConsoleOutput out(options);
    EXPECT_FALSE(out.shows_live()) << what;
    out.ShowLive("3 running");
    out.AddEvent({{"what", what}});
    ExpectSent(absl::StrCat("{\"what\":", what, "}\r\n"));
  }
}

}  // namespace
}  // namespace rocattach
