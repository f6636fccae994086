// Sessions on processes that are attached to while they run: data that rocprofiler-sdk,
// added late, can measure is recorded, and the rest is left out with its reason.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/integration/watch/attacher.h"
#include "tests/integration/watch/first_attach_fixture.h"
#include "tests/integration/watch/harness.h"
#include "tests/integration/watch/sample_totals.h"
#include "userspace/base/clock.h"

namespace rocattach::testing_support {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST_F(FirstAttachTest, CountersOfWholeGpus) {
  auto target = StartTarget();
  const nlohmann::json result =
      Record(target->pid(), {"--pmc", "SQ_WAVES", "--device-samples", "10"}, 0);
  End(target.get());
  EXPECT_GT(result.value("samples", 0), 10);
  EXPECT_GT(result.value("dispatches", 0), 100);
  EXPECT_EQ(result.value("missing", nlohmann::json()), nlohmann::json::array());
  const RecordedProcess process =
      ReadRecording(directory_.path() + "/t.rwa").Process(target->pid());
  EXPECT_EQ(process.verdict.collector().entry_path(), v1::ENTRY_PATH_LATE);
  EXPECT_GT(SamplesByCounter(process)["SQ_WAVES"].sum, 0);
}

TEST_F(FirstAttachTest, UnnamedTracesAreLeftOut) {
  auto target = StartTarget();
  const nlohmann::json result = Record(target->pid(), {"--sys-trace"}, 0);
  EXPECT_EQ(result.value("status", ""), "recorded");
  EXPECT_GT(result.value("dispatches", 0), 100);
  EXPECT_GT(result.value("tid", 0), 0);
  const std::vector<std::string> missing = Missing(result, "attached to later");
  EXPECT_THAT(missing, testing::Contains("calls of the HSA API"));
  EXPECT_THAT(missing, Not(testing::Contains("markers")));
  // A trace that was named is refused instead.
  const nlohmann::json refused =
      Record(target->pid(), {"--sys-trace", "--hsa-trace"}, 1);
  EXPECT_THAT(refused.value("detail", ""), HasSubstr("calls of the HSA API"));
  // Its dispatches are recorded, but not what was requested.
  EXPECT_EQ(refused.value("status", ""), "incomplete");
  EXPECT_GT(refused.value("dispatches", 0), 0);
  End(target.get());
}

TEST_F(FirstAttachTest, WithoutAnSdkCallsAreLeftOutWithTheReason) {
  auto target = StartTarget({"--without-sdk"});
  const nlohmann::json result = Record(target->pid(), {"--sys-trace"}, 0);
  EXPECT_EQ(result.value("status", ""), "recorded");
  EXPECT_GT(result.value("dispatches", 0), 100);
  EXPECT_THAT(Missing(result, "would not find librocprofiler-sdk.so"),
              testing::IsSupersetOf(
                  {"calls of the HIP API", "calls of the HSA API", "markers"}));
  End(target.get());
}

// The thread that adds the SDK never returns. The process forks and ends meanwhile.
TEST_F(FirstAttachTest, AnSdkThatHangsIsReported) {
  auto target = StartTarget({}, "SIMROCM_FORCE_CONFIGURE=hang");
  Attacher attach(Path("t.rwa"), {target->pid()},
                  {"--marker-trace", "--kfd-topology", directory_.path()});
  ASSERT_TRUE(attach.Saw("session_refused")) << attach.child().PollOutput();
  const Finished end = attach.Stop();
  EXPECT_TRUE(end.exited_with(1)) << end.output << end.errors;
  const nlohmann::json result = attach.Events("result").at(0);
  EXPECT_THAT(result.value("detail", ""), HasSubstr("may still be loading"));
  EXPECT_GT(result.value("dispatches", 0), 100) << "recorded meanwhile";
  // Adding the SDK is not tried again.
  const nlohmann::json left_out = Record(target->pid(), {"--sys-trace"}, 0, "again");
  EXPECT_THAT(Missing(left_out, "an attempt to add it"), testing::Contains("markers"));
  EXPECT_GT(left_out.value("dispatches", 0), 100);
  End(target.get());
}

// The session would be refused eight seconds after the attach. The recording does not
// wait for that before it ends, in either process.
TEST_F(FirstAttachTest, ALateRefusalDoesNotDelayTheEnd) {
  constexpr uint64_t kSecondNs = 1'000'000'000;
  auto silent = StartTarget({}, "SIMROCM_FORCE_CONFIGURE=hang");
  std::filesystem::remove(Path("ready"));
  auto other = StartTarget();
  Attacher attach(Path("t.rwa"), {silent->pid(), other->pid()},
                  {"--marker-trace", "--attach-duration-msec", "1000", "--kfd-topology",
                   directory_.path()});
  const Finished end = attach.child().Wait();
  EXPECT_TRUE(end.exited_with(1)) << end.output << end.errors;
  ASSERT_THAT(attach.Events("session_refused"), Not(testing::IsEmpty())) << end.output;
  for (const nlohmann::json& refused : attach.Events("session_refused")) {
    // This reason would show that the service has waited for the answer.
    EXPECT_THAT(refused.value("reason", ""), Not(HasSubstr("did not answer")));
  }
  const Recording recording = ReadRecording(Path("t.rwa"));
  for (const auto& target : {silent.get(), other.get()}) {
    const RecordedProcess process = recording.Process(target->pid());
    ASSERT_FALSE(process.dispatches.empty()) << target->pid();
    uint64_t last_ns = 0;
    for (const rocattach_dispatch& dispatch : process.dispatches) {
      last_ns = std::max(last_ns, dispatch.start_ns);
    }
    const uint64_t recorded_ns = ElapsedNs(process.verdict.released_ns(), last_ns);
    EXPECT_GT(recorded_ns, kSecondNs / 2) << target->pid();
    // A second before the duration begins, the duration, and as much again.
    EXPECT_LT(recorded_ns, 5 * kSecondNs) << target->pid();
  }
  End(silent.get());
  End(other.get());
}

TEST_F(FirstAttachTest, AnSdkThatRefusesIsReported) {
  auto target = StartTarget({}, "SIMROCM_FORCE_CONFIGURE=refuse");
  const nlohmann::json result = Record(target->pid(), {"--marker-trace"}, 1);
  EXPECT_THAT(result.value("detail", ""), HasSubstr("does not accept a tool now"));
  EXPECT_GT(result.value("dispatches", 0), 100);
  End(target.get());
}

// That is known only when the SDK is loaded: even then, unnamed traces are left out.
TEST_F(FirstAttachTest, TracesRefusedByTheSdkAreLeftOut) {
  auto target = StartTarget({}, "SIMROCM_FORCE_CONFIGURE=refuse");
  const nlohmann::json result = Record(target->pid(), {"--sys-trace"}, 0);
  EXPECT_EQ(result.value("status", ""), "recorded");
  EXPECT_GT(result.value("dispatches", 0), 100);
  EXPECT_THAT(Missing(result, "does not accept a tool now"),
              testing::IsSupersetOf({"calls of the HIP API", "markers"}));
  End(target.get());
}

// Whenever the recording ends, the process is unharmed, and if anything was not
// recorded, the command fails.
TEST_F(FirstAttachTest, ARecordingThatEndsWhileTheSdkIsAdded) {
  auto target = StartTarget();
  for (int round = 0; round < 4; ++round) {
    SCOPED_TRACE(round);
    Attacher attach(Path("t.rwa"), {target->pid()},
                    {"--marker-trace", "--kfd-topology", directory_.path()});
    ASSERT_TRUE(attach.Attached()) << attach.child().PollOutput();
    const bool answered = !attach.Events("ready").empty();
    const Finished end = attach.Stop();
    const nlohmann::json result = attach.Events("result").at(0);
    const std::string seen = result.dump();
    if (!end.exited_with(1)) {
      EXPECT_TRUE(end.exited_with(0) || end.exited_with(4)) << end.output << end.errors;
      EXPECT_EQ(result.value("detail", ""), "") << seen;
      const RecordedProcess process =
          ReadRecording(Path("t.rwa")).Process(target->pid());
      ASSERT_FALSE(process.sessions.empty()) << answered << seen;
      EXPECT_EQ(process.sessions[0].what(), v1::SessionEvent::STARTED) << seen;
    } else {
      EXPECT_NE(result.value("detail", ""), "") << seen;
    }
    std::filesystem::remove(Path("t.rwa"));
  }
  End(target.get());
}

}  // namespace
}  // namespace rocattach::testing_support
