#include "userspace/cli/watch/watch_announcement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "tests/unit/cli/watch/console_file.h"

namespace rocattach {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class WatchAnnouncementTest : public testing::Test {
 protected:
  WatchAnnouncementTest() : options_(file_.Options()) {
    options_.attach = true;
    state_.hold_mode = HoldMode::kYielding;
    state_.libraries = &scan_;
    state_.output = "/tmp/run.rwa";
  }
  void AddCopy(const std::string& path) {
    LibraryCopy copy;
    copy.path = path;
    scan_.copies.push_back(std::move(copy));
  }
  std::string Announced() {
    {
      ConsoleOutput out(options_);
      AnnounceWatcher(state_, options_, &out);
    }
    return file_.Text();
  }

  const ConsoleFile file_;
  LibraryScan scan_;
  WatchConsoleOptions options_;
  WatchAnnouncement state_;
};

TEST_F(WatchAnnouncementTest, NamesTheLibraryCopiesAndTheOutput) {
  AddCopy("/opt/rocm/lib/libhsa-runtime64.so.1");
  EXPECT_EQ(Announced(),
            "rocattach-watch: attaching through 1 HSA runtime copy, hold 'yielding', "
            "output /tmp/run.rwa\n");
}

TEST_F(WatchAnnouncementTest, SaysWhyTheHoldIsNotTheBestOne) {
  AddCopy("/a");
  AddCopy("/b");
  state_.hold_mode = HoldMode::kSignal;
  state_.hold_mode_reason = "the kernel is too old";
  EXPECT_THAT(Announced(),
              HasSubstr("2 HSA runtime copies, hold 'signal' (the kernel is too old)"));
}

TEST_F(WatchAnnouncementTest, WithoutAHoldNothingIsAttached) {
  AddCopy("/a");
  state_.hold_mode = HoldMode::kNone;
  EXPECT_THAT(Announced(),
              HasSubstr("hold 'none' (as requested; no process is held or attached)"));
}

TEST_F(WatchAnnouncementTest, WatchesWithoutAttaching) {
  AddCopy("/a");
  options_.attach = false;
  state_.hold_mode = HoldMode::kNone;
  EXPECT_THAT(Announced(), HasSubstr("watching 1 HSA runtime copy, hold 'none', "));
}

TEST_F(WatchAnnouncementTest, WithMetricsItNamesTheirAddress) {
  AddCopy("/a");
  EXPECT_THAT(Announced(), Not(HasSubstr("metrics")));
  state_.metrics_address = "127.0.0.1:9410";
  EXPECT_THAT(Announced(), HasSubstr("metrics at http://127.0.0.1:9410/metrics\n"));
}

TEST_F(WatchAnnouncementTest, LibraryProblemsArePrintedEvenWhenQuiet) {
  options_.quiet = true;
  scan_.rejected.push_back({"/x\x1b/libhsa-runtime64.so", "it is no library"});
  const std::string text = Announced();
  EXPECT_THAT(text, HasSubstr("skipped /x"));
  EXPECT_THAT(text, HasSubstr(": it is no library\n"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b"))) << "a path must not reach the terminal";
  EXPECT_THAT(text, HasSubstr("no HSA runtime found yet"));
  EXPECT_THAT(text, Not(HasSubstr("attaching through")));
}

TEST_F(WatchAnnouncementTest, IsOneEventForPrograms) {
  options_.json = true;
  AddCopy("/a");
  scan_.rejected.push_back({"/b", "it is no library"});
  state_.realtime = true;
  state_.hold_mode_reason = "why";
  const auto event = nlohmann::json::parse(Announced());
  EXPECT_EQ(event.value("event", ""), "ready");
  EXPECT_EQ(event.value("hold", ""), "yielding");
  EXPECT_EQ(event.value("hold_reason", ""), "why");
  EXPECT_TRUE(event.value("realtime", false));
  EXPECT_EQ(event.at("libraries"), nlohmann::json::array({"/a"}));
  EXPECT_EQ(event.at("rejected"),
            nlohmann::json::parse(R"([{"path":"/b","reason":"it is no library"}])"));
  EXPECT_EQ(event.value("output", ""), "/tmp/run.rwa");
  EXPECT_EQ(event.count("metrics"), 0u);
}

TEST_F(WatchAnnouncementTest, TheEventHasTheAddressOfTheMetrics) {
  options_.json = true;
  state_.metrics_address = "127.0.0.1:9410";
  const auto event = nlohmann::json::parse(Announced());
  EXPECT_EQ(event.value("metrics", ""), "127.0.0.1:9410");
  EXPECT_THAT(event.at("libraries"), IsEmpty());
}

}  // namespace
}  // namespace rocattach
