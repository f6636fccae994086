// Counting is switched on and off, in every way that the command line has, while a HIP
// program keeps several streams busy from two threads. Nothing hangs, and nothing is
// lost. (The simulated SDK counts a dispatch before it serializes it, like the real
// one, in which a switch at the wrong moment never ends.)
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "tests/integration/watch/session_truth.h"
#include "tests/integration/watch/sessions_fixture.h"

namespace rocattach::testing_support {
namespace {

using ::testing::HasSubstr;

class BusyTest : public SessionsTest {
 protected:
  using Json = nlohmann::json;

  // The client's JSON; null if it failed.
  Json Client(std::vector<std::string> arguments) {
    std::vector<std::string> words = {ClientPath(), "session"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    words.insert(words.end(), {"--socket", Socket(), "--json"});
    const Finished answer = Child(words).Wait();
    said_ = answer.errors;
    if (!answer.exited_with(0)) return nullptr;
    return Json::parse(answer.output, nullptr, /*allow_exceptions=*/false);
  }

  // Waits for a state of the sessions, including those that are over.
  bool EventuallySessions(const std::function<bool(const Json&)>& is_so) {
    return Eventually([&] {
      const Json status = Client({"status"});
      return status.is_object() && status.contains("sessions") &&
             is_so(status["sessions"]);
    });
  }

  // Starts a program that runs until EndTarget().
  void StartTarget() {
    target_ = std::make_unique<Child>(
        OnSimrocm({}, {"hip_pipeline", "-t", "2", "--streams", "4", "--elements", "256",
                       "--until", Done()}),
        Child::Options{.dies_with_us = true});
  }
  Finished EndTarget() {
    std::ofstream(Done()) << "now";
    return target_->Wait();
  }
  std::string Done() const { return directory_.path() + "/done"; }

  // Expects that the recording has exactly what the program reports of itself.
  static void ExpectAllOf(const Finished& result, const RecordedProcess& process) {
    const int64_t dispatches = Reported(result.output, "dispatches") +
                               Reported(result.output, "runtime_dispatches");
    EXPECT_EQ(process.dispatches.size(), static_cast<uint64_t>(dispatches));
    EXPECT_EQ(process.copies.size(),
              static_cast<uint64_t>(Reported(result.output, "copies")));
    EXPECT_EQ(process.dropped(), 0u);
    EXPECT_EQ(process.account.counted_dropped(), 0u);
  }

  std::unique_ptr<Child> target_;
  std::string said_;  // standard error of the last client
};

// Expects at least `starts` starts, as many stops, and dispatches without counters.
void ExpectSwitched(const RecordedProcess& process, int starts) {
  EXPECT_LT(process.counters.size(), process.dispatches.size());
  int started = 0, stopped = 0;
  for (const v1::SessionEvent& event : process.sessions) {
    started += event.what() == v1::SessionEvent::STARTED;
    stopped += event.what() == v1::SessionEvent::STOPPED;
  }
  EXPECT_GE(started, starts);
  EXPECT_EQ(stopped, started);
}

struct Schedule {
  const char* name;
  std::vector<std::string> options;
};

class BusyScheduleTest : public BusyTest,
                         public testing::WithParamInterface<Schedule> {};

TEST_P(BusyScheduleTest, NothingHangsOrIsLost) {
  std::vector<std::string> options = {"--pmc", "SQ_WAVES", "--socket", Socket()};
  options.insert(options.end(), GetParam().options.begin(), GetParam().options.end());
  WatcherProcess watcher(Watch(options));
  ASSERT_TRUE(watcher.ready());
  StartTarget();
  const pid_t pid = target_->pid();
  EXPECT_TRUE(EventuallySessions([](const Json& sessions) {
    return !sessions.empty() && sessions.back().value("over", false);
  })) << said_;
  const Finished result = EndTarget();
  EXPECT_TRUE(result.exited_with(0)) << result.output << result.errors;
  EXPECT_THAT(result.output, HasSubstr("result=ok"));
  const Finished ended = watcher.Stop();
  EXPECT_TRUE(ended.exited_with(0)) << ended.errors;
  const RecordedProcess process = ReadRecording(watcher.recording()).Process(pid);
  ExpectAllOf(result, process);
  // On a busy machine the time may have passed before the program's first dispatch.
  ExpectSwitched(process, 1);
}

INSTANTIATE_TEST_SUITE_P(
    , BusyScheduleTest,
    testing::Values(Schedule{"Duration", {"--attach-duration-msec", "400"}},
                    Schedule{"Periods",
                             {"-P", "50:50:20", "--collection-period-unit", "msec"}}),
    [](const auto& test) { return test.param.name; });

TEST_F(BusyTest, StartedAndStoppedFromOutside) {
  WatcherProcess watcher(Watch({"--backend", "sdk", "--socket", Socket()}));
  ASSERT_TRUE(watcher.ready());
  StartTarget();
  const pid_t pid = target_->pid();
  constexpr int kRounds = 4;
  for (int round = 0; round < kRounds; ++round) {
    Json started;
    ASSERT_TRUE(Eventually([&] {  // the process may not be ready for that yet
      started = Client({"start", "--pid", std::to_string(pid), "--pmc",
                        round % 2 == 0 ? "SQ_WAVES" : "GRBM_COUNT"});
      return started.is_object();
    })) << said_;
    const std::string number = started["session"].dump();
    EXPECT_TRUE(EventuallySessions([](const Json& sessions) {
      return !sessions.empty() && sessions.back().contains("collected") &&
             !sessions.back()["collected"].empty();
    })) << said_;
    EXPECT_TRUE(Client({"stop", number}).is_object()) << said_;
  }
  const Finished result = EndTarget();
  EXPECT_TRUE(result.exited_with(0)) << result.output << result.errors;
  EXPECT_THAT(result.output, HasSubstr("result=ok"));
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  const RecordedProcess process = ReadRecording(watcher.recording()).Process(pid);
  ExpectAllOf(result, process);
  ExpectSwitched(process, kRounds);
  EXPECT_GT(process.counters.size(), 0u);
}

// The service ends in the middle of a session, and the program goes on.
TEST_F(BusyTest, TheServiceIsInterrupted) {
  WatcherProcess watcher(Watch({"--pmc", "SQ_WAVES", "--socket", Socket()}));
  ASSERT_TRUE(watcher.ready());
  StartTarget();
  const pid_t pid = target_->pid();
  EXPECT_TRUE(EventuallySessions([](const Json& sessions) {
    return !sessions.empty() && sessions.back().contains("collected") &&
           !sessions.back()["collected"].empty();
  })) << said_;
  const Finished ended = watcher.Stop();
  EXPECT_TRUE(ended.exited_with(0)) << ended.errors;
  const Finished result = EndTarget();
  EXPECT_TRUE(result.exited_with(0)) << result.output << result.errors;
  EXPECT_THAT(result.output, HasSubstr("result=ok"));
  const RecordedProcess process = ReadRecording(watcher.recording()).Process(pid);
  EXPECT_GT(process.counters.size(), 0u);
  EXPECT_LT(process.dispatches.size(),
            static_cast<uint64_t>(Reported(result.output, "dispatches") +
                                  Reported(result.output, "runtime_dispatches")));
  EXPECT_EQ(process.account.counted_dropped(), 0u);
}

}  // namespace
}  // namespace rocattach::testing_support
