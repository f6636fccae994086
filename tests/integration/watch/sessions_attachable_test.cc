// Sessions on processes that were started with ROCP_TOOL_ATTACH=1: they have
// rocprofiler-sdk, and wait for tools.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "tests/integration/watch/first_attach_fixture.h"
#include "tests/integration/watch/harness.h"

namespace rocattach::testing_support {
namespace {

class AttachableTest : public FirstAttachTest {
 protected:
  RecordedProcess Process(pid_t pid, const std::string& name = "t") {
    return ReadRecording(directory_.path() + "/" + name + ".rwa").Process(pid);
  }
  static std::set<std::string> Measured(const RecordedProcess& process) {
    std::set<std::string> names;
    for (const CounterRecord& record : process.counters) {
      names.insert(
          process.plans.at(record.plan).counters(static_cast<int>(record.counter)));
    }
    return names;
  }
};

// As documented: --pid 12345 --pmc SQ_WAVES GRBM_COUNT; with other counters each time,
// on a queue that existed before.
TEST_F(AttachableTest, CountersOfDispatchesAnyNumberOfTimes) {
  auto target = StartTarget({"--attachable"});
  const pid_t pid = target->pid();
  const std::vector<std::vector<std::string>> rounds = {
      {"SQ_WAVES", "GRBM_COUNT"}, {"TCC_HIT"}, {"SQ_WAVES"}};
  for (size_t i = 0; i < rounds.size(); ++i) {
    SCOPED_TRACE(i);
    const std::string name = "round" + std::to_string(i);
    std::vector<std::string> options = {"--pmc"};
    options.insert(options.end(), rounds[i].begin(), rounds[i].end());
    const nlohmann::json result = Record(pid, options, 0, name);
    EXPECT_EQ(result.value("entry", ""), "listener");
    EXPECT_EQ(result.value("status", ""), "recorded");
    const RecordedProcess process = Process(pid, name);
    EXPECT_EQ(process.verdict.collector().backend(), v1::BACKEND_ROCPROFILER_SDK);
    EXPECT_EQ(process.verdict.mode(), v1::WINDOW_MODE_LISTENER);
    EXPECT_EQ(Measured(process),
              std::set<std::string>(rounds[i].begin(), rounds[i].end()));
    EXPECT_GT(process.dispatches.size(), 100u);
    EXPECT_EQ(process.dropped(), 0u);
    EXPECT_EQ(process.account.counted_dropped(), 0u);
  }
  End(target.get());
}

// Once entered through its listener, a process is entered so without a session, too.
TEST_F(AttachableTest, ARecordingWithoutCountersAfterOneWithThem) {
  auto target = StartTarget({"--attachable"});
  EXPECT_EQ(Record(target->pid(), {"--pmc", "SQ_WAVES"}, 0, "with").value("entry", ""),
            "listener");
  const nlohmann::json plain = Record(target->pid(), {}, 0, "without");
  EXPECT_EQ(plain.value("entry", ""), "listener");
  EXPECT_GT(plain.value("dispatches", 0), 100);
  End(target.get());
}

TEST_F(AttachableTest, CallsAreTraced) {
  auto target = StartTarget({"--attachable"});
  const nlohmann::json result = Record(target->pid(), {"--hsa-trace"}, 0);
  EXPECT_EQ(result.value("entry", ""), "listener");
  EXPECT_GT(result.value("api_calls", 0), 10);
  End(target.get());
}

// Without a session that needs the SDK, no part of the SDK is loaded.
TEST_F(AttachableTest, WithoutASessionItIsEnteredLikeAnyOther) {
  auto target = StartTarget({"--attachable"});
  const nlohmann::json result = Record(target->pid(), {}, 0);
  EXPECT_THAT(result.value("entry", ""), testing::StartsWith("late"));
  End(target.get());
}

// Another tool has the SDK: the process is recorded below that tool, without counters,
// and the reason is given.
TEST_F(AttachableTest, BesideAnotherTool) {
  auto target = StartTarget({"--attachable", "--tool", ROCATTACH_TEST_TOOL});
  const nlohmann::json result = Record(target->pid(), {"--sys-trace"}, 0);
  EXPECT_THAT(result.value("entry", ""), testing::StartsWith("late"));
  EXPECT_THAT(Missing(result, "another tool"), testing::Contains("markers"));
  End(target.get());
}

}  // namespace
}  // namespace rocattach::testing_support
