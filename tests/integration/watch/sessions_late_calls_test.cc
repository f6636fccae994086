// HIP calls and markers, recorded in a process from its attach on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/watch/attacher.h"
#include "tests/integration/watch/first_attach_fixture.h"
#include "tests/integration/watch/harness.h"
#include "userspace/watch/late/runtime_start.h"

namespace rocattach::testing_support {
namespace {

using testing::HasSubstr;

// A HIP program that has been making calls for a while.
class LateCallsTest : public FirstAttachTest {
 protected:
  static constexpr int kLastSteps = 50;
  // Makes steps until LastSteps(), and then kLastSteps more.
  std::unique_ptr<Child> StartSteps() {
    auto target = std::make_unique<Child>(
        OnSimrocm({}, {"hip_markers", "-n", std::to_string(kLastSteps), "-s", "2", "-u",
                       Path("end")}),
        Child::Options{.dies_with_us = true});
    EXPECT_TRUE(Eventually([&] {
      return ReadRuntimeStart(target->pid()).value_or(RuntimeStart::kNotLoaded) ==
             RuntimeStart::kStarted;
    }));
    return target;
  }
  void LastSteps() const { std::ofstream(Path("end")).put('\n'); }
  // The calls of one function, in order.
  static std::vector<ApiCallRecord> Calls(const RecordedProcess& process,
                                          const std::string& name) {
    std::vector<ApiCallRecord> calls;
    for (const ApiCallRecord& call : process.api_calls) {
      const auto found = process.functions.find({call.domain, call.function});
      if (found != process.functions.end() && found->second == name) {
        calls.push_back(call);
      }
    }
    std::sort(calls.begin(), calls.end(),
              [](const auto& a, const auto& b) { return a.begin_ns < b.begin_ns; });
    return calls;
  }
  // Expects that nothing is missing from the first marker on.
  static void ExpectWithoutGap(const RecordedProcess& process, bool hip) {
    const std::vector<ApiCallRecord> pushes = Calls(process, "roctxRangePushA");
    ASSERT_GT(pushes.size(), 10u);
    const int first = atoi(&pushes[0].text[strlen("step ")]);
    for (size_t i = 0; i < pushes.size(); ++i) {
      EXPECT_EQ(pushes[i].text, "step " + std::to_string(first + static_cast<int>(i)));
    }
    const std::vector<ApiCallRecord> launches = Calls(process, "hipLaunchKernel");
    const auto after = std::count_if(launches.begin(), launches.end(), [&](auto& call) {
      return call.begin_ns > pushes[0].begin_ns && call.begin_ns < pushes.back().end_ns;
    });
    EXPECT_EQ(static_cast<size_t>(after), hip ? pushes.size() - 1 : 0u);
    EXPECT_EQ(process.dropped(), 0u);
    EXPECT_EQ(process.account.api_calls_dropped(), 0u);
  }
};

TEST_F(LateCallsTest, HipAndMarkersOfAProcessThatRunsAlready) {
  auto target = StartSteps();
  Attacher attach(
      directory_.path() + "/t.rwa", {target->pid()},
      {"--hip-trace", "--marker-trace", "--kfd-topology", directory_.path()});
  ASSERT_TRUE(attach.Saw("ready")) << attach.child().PollOutput();
  // From then on everything is recorded.
  LastSteps();
  const Finished end = target->Wait();
  EXPECT_TRUE(end.exited_with(0)) << end.output << end.errors;
  EXPECT_THAT(end.output, HasSubstr("markers=1 result=ok"));
  EXPECT_EQ(end.errors, "");
  const Finished attacher = attach.child().Wait();
  EXPECT_TRUE(attacher.exited_with(0)) << attacher.output << attacher.errors;
  const RecordedProcess process =
      ReadRecording(directory_.path() + "/t.rwa").Process(target->pid());
  EXPECT_EQ(process.verdict.collector().entry_path(), v1::ENTRY_PATH_LATE);
  EXPECT_EQ(process.verdict.collector().backend(), v1::BACKEND_HSA_TOOLS);
  ExpectWithoutGap(process, /*hip=*/true);
  const std::vector<ApiCallRecord> pushes = Calls(process, "roctxRangePushA");
  EXPECT_GE(pushes.size(), size_t{kLastSteps});
  EXPECT_EQ(pushes.back().text,
            absl::StrCat("step ", Printed(end.output, "steps") - 1));
  EXPECT_EQ(Calls(process, "hipFree").size(), 1u);
  EXPECT_GE(process.dispatches.size(), size_t{kLastSteps}) << "recorded as before";
  EXPECT_EQ(attach.Events("result").at(0).value("missing", nlohmann::json()),
            nlohmann::json::array());
}

// The duration counts from the time when calls are recorded.
TEST_F(LateCallsTest, AShortDuration) {
  auto target = StartSteps();
  Attacher attach(Path("t.rwa"), {target->pid()},
                  {"--hip-trace", "--attach-duration-msec", "200", "--kfd-topology",
                   directory_.path()});
  const Finished attacher = attach.child().Wait();
  EXPECT_TRUE(attacher.exited_with(0)) << attacher.output << attacher.errors;
  LastSteps();
  EXPECT_TRUE(target->Wait().exited_with(0));
  const RecordedProcess process = ReadRecording(Path("t.rwa")).Process(target->pid());
  ASSERT_EQ(process.sessions.size(), 2u);
  EXPECT_EQ(process.sessions[0].what(), v1::SessionEvent::STARTED);
  EXPECT_EQ(process.sessions[1].what(), v1::SessionEvent::STOPPED);
  EXPECT_GE(process.sessions[1].time_ns() - process.sessions[0].time_ns(),
            200'000'000u);
}

// Each recording has what its options request.
TEST_F(LateCallsTest, SeveralRecordings) {
  auto target = StartSteps();
  const pid_t pid = target->pid();
  EXPECT_GT(Record(pid, {"--marker-trace"}, 0, "markers").value("api_calls", 0), 10);
  EXPECT_EQ(Record(pid, {}, 0, "none").value("api_calls", 0), 0);
  EXPECT_GT(
      Record(pid, {"--hip-trace", "--marker-trace"}, 0, "both").value("api_calls", 0),
      10);
  LastSteps();
  const Finished end = target->Wait();
  EXPECT_TRUE(end.exited_with(0)) << end.output << end.errors;
  EXPECT_THAT(end.output, HasSubstr("result=ok"));
  EXPECT_EQ(end.errors, "");
  for (const char* name : {"markers", "both"}) {
    SCOPED_TRACE(name);
    const RecordedProcess process =
        ReadRecording(directory_.path() + "/" + name + ".rwa").Process(pid);
    ExpectWithoutGap(process, std::string(name) == "both");
  }
}

}  // namespace
}  // namespace rocattach::testing_support
