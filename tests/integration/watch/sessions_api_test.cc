// Calls of HIP, of markers and of HSA, recorded by the real service: real HIP programs,
// whose calls the simulated SDK delivers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tests/integration/watch/session_truth.h"
#include "tests/integration/watch/sessions_fixture.h"
#include "userspace/abi/plan.h"
#include "userspace/control/service_connection.h"

namespace rocattach::testing_support {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kSteps = 8;

class SessionsApiTest : public SessionsTest {
 protected:
  // Runs hip_markers under a service with these options; returns its recording.
  RecordedProcess Record(const std::vector<std::string>& options) {
    WatcherProcess watcher(Watch(options));
    EXPECT_TRUE(watcher.ready());
    Child target(OnSimrocm({}, {"hip_markers", "-n", absl::StrCat(kSteps)}));
    const pid_t pid = target.pid();
    const Finished result = target.Wait();
    EXPECT_TRUE(result.exited_with(0)) << result.output << result.errors;
    EXPECT_THAT(result.output, HasSubstr("markers=1 result=ok"));
    EXPECT_EQ(result.errors, "");
    EXPECT_TRUE(watcher.Stop().exited_with(0));
    const Recording recording = ReadRecording(watcher.recording());
    EXPECT_TRUE(recording.damage.empty());
    RecordedProcess process = recording.Process(pid);
    EXPECT_EQ(process.verdict.state(), v1::WINDOW_STATE_ATTACHED);
    EXPECT_EQ(process.dropped(), 0u);
    EXPECT_EQ(process.account.api_calls_dropped(), 0u);
    EXPECT_EQ(process.account.api_calls_delivered(), process.api_calls.size());
    report_ = Child({ClientPath(), "report", watcher.recording()}).Wait().output;
    dump_ = Child({ClientPath(), "dump", "--json", watcher.recording()}).Wait().output;
    return process;
  }

  std::string report_, dump_;
};

std::string NameOf(const RecordedProcess& process, const ApiCallRecord& call) {
  const auto found = process.functions.find({call.domain, call.function});
  return found == process.functions.end() ? "?" : found->second;
}

std::vector<ApiCallRecord> Calls(const RecordedProcess& process,
                                 const std::string& name) {
  std::vector<ApiCallRecord> calls;
  for (const ApiCallRecord& call : process.api_calls) {
    if (NameOf(process, call) == name) calls.push_back(call);
  }
  std::sort(calls.begin(), calls.end(),
            [](const auto& a, const auto& b) { return a.begin_ns < b.begin_ns; });
  return calls;
}

TEST_F(SessionsApiTest, EveryCallOfHipAndEveryMarkerOnce) {
  const RecordedProcess process = Record({"--hip-trace", "--marker-trace"});
  const std::map<std::string, size_t> expected = {
      {"hipMalloc", 1},
      {"hipFree", 1},
      {"hipMemcpy", 2 * kSteps},
      {"hipLaunchKernel", kSteps},
      {"__hipPushCallConfiguration", kSteps},
      {"__hipPopCallConfiguration", kSteps},
      {"hipGetLastError", kSteps},
      {"roctxRangePushA", kSteps},
      {"roctxRangePop", kSteps},
      {"roctxMarkA", 1},
      {"roctxRangeStartA", 1},
      {"roctxRangeStop", 1},
      // HIP initialised HSA, and so the collector, in this call: its begin is not seen.
      {"hipGetDeviceCount", 0},
  };
  for (const auto& [name, count] : expected) {
    EXPECT_EQ(Calls(process, name).size(), count) << name;
  }
  for (const ApiCallRecord& call : process.api_calls) {
    EXPECT_NE(call.domain, ROCATTACH_PLAN_API_HSA) << NameOf(process, call);
    EXPECT_NE(NameOf(process, call), "?");
    EXPECT_LE(call.begin_ns, call.end_ns);
    EXPECT_EQ(call.tid, process.api_calls.front().tid);
  }
  EXPECT_EQ(process.dispatches.size(), static_cast<size_t>(kSteps));
  for (const char* name : {"hipLaunchKernel", "roctxRangePushA"}) {
    EXPECT_THAT(dump_, HasSubstr(name));
    EXPECT_THAT(report_, HasSubstr(name));
  }
  EXPECT_THAT(dump_, HasSubstr("\"step 3\""));
}

// Profiles are read by ranges, so these must enclose the calls made within them.
TEST_F(SessionsApiTest, RangesEncloseTheirCalls) {
  const RecordedProcess process = Record({"--hip-trace", "--marker-trace"});
  const std::vector<ApiCallRecord> pushes = Calls(process, "roctxRangePushA");
  const std::vector<ApiCallRecord> pops = Calls(process, "roctxRangePop");
  const std::vector<ApiCallRecord> launches = Calls(process, "hipLaunchKernel");
  ASSERT_EQ(pushes.size(), size_t{kSteps});
  ASSERT_EQ(pops.size(), size_t{kSteps});
  ASSERT_EQ(launches.size(), size_t{kSteps});
  for (size_t i = 0; i < kSteps; ++i) {
    EXPECT_EQ(pushes[i].text, absl::StrCat("step ", i));
    EXPECT_LE(pushes[i].end_ns, launches[i].begin_ns);
    EXPECT_LE(launches[i].end_ns, pops[i].begin_ns);
    EXPECT_EQ(pops[i].text, "");
  }
  const ApiCallRecord mark = Calls(process, "roctxMarkA").at(0);
  EXPECT_EQ(mark.text,
            "halfway through all of the steps, and much longer than anybody should "
            "write");
  EXPECT_EQ(mark.flags & kApiCallTextCut, 0);
  EXPECT_EQ(Calls(process, "roctxRangeStartA").at(0).text, "all steps");
}

TEST_F(SessionsApiTest, HsaCallsReferToTheHipCallThatMadeThem) {
  const RecordedProcess process = Record({"--hip-trace", "--hsa-trace"});
  std::map<uint64_t, std::string> hip;
  for (const ApiCallRecord& call : process.api_calls) {
    EXPECT_NE(call.domain, ROCATTACH_PLAN_API_MARKER);
    if (call.domain == ROCATTACH_PLAN_API_HIP) {
      hip[call.correlation_id] = NameOf(process, call);
    }
  }
  std::map<std::string, int> made;
  for (const ApiCallRecord& call : process.api_calls) {
    if (call.domain != ROCATTACH_PLAN_API_HSA || call.ancestor_id == 0) continue;
    if (hip.contains(call.ancestor_id)) ++made[hip[call.ancestor_id]];
  }
  EXPECT_GE(made["hipMemcpy"], kSteps);
  EXPECT_GE(made["hipLaunchKernel"], 1);
  EXPECT_TRUE(Calls(process, "roctxMarkA").empty());
}

TEST_F(SessionsApiTest, ArgumentsOfEachCall) {
  const RecordedProcess process =
      Record({"--hip-trace", "--marker-trace", "--api-arguments"});
  const std::vector<ApiCallRecord> copies = Calls(process, "hipMemcpy");
  ASSERT_EQ(copies.size(), 2u * kSteps);
  for (const ApiCallRecord& call : copies) {
    const std::vector<ApiArgument> arguments = ArgumentsOf(call);
    ASSERT_EQ(arguments.size(), 4u) << call.text;
    EXPECT_EQ(arguments[0].name, "arg0");
    EXPECT_NE(arguments[0].value, arguments[1].value) << "to and from";
    EXPECT_EQ(arguments[2].value, ArgumentsOf(copies[0])[2].value) << "bytes";
  }
  EXPECT_TRUE(ArgumentsOf(Calls(process, "hipGetLastError").at(0)).empty());
  EXPECT_EQ(Calls(process, "roctxRangePushA").at(3).text, "step 3") << "a message";
  EXPECT_THAT(dump_, HasSubstr("\"arguments\""));
}

TEST_F(SessionsApiTest, RecordsNothingUnlessRequested) {
  const RecordedProcess process = Record({"--backend", "sdk"});
  EXPECT_TRUE(process.api_calls.empty());
  EXPECT_EQ(process.account.api_calls_delivered(), 0u);
  EXPECT_EQ(process.dispatches.size(), static_cast<size_t>(kSteps));
  EXPECT_THAT(dump_, Not(HasSubstr("\"step 3\"")));
}

TEST_F(SessionsApiTest, StartedAndStoppedOnARunningProgram) {
  WatcherProcess watcher(Watch({"--backend", "sdk", "--socket", Socket()}));
  ASSERT_TRUE(watcher.ready());
  const std::string log = directory_.path() + "/dispatches";
  Child target(
      OnSimrocm({"--dispatch-log", log}, {"hip_markers", "-n", "150", "-s", "5"}));
  const pid_t pid = target.pid();
  ServiceConnection client(Socket());
  v1::SessionRequest request;
  request.add_processes()->set_pid(static_cast<uint32_t>(pid));
  v1::Filter* filter = request.add_filters();
  filter->set_kind(v1::FILTER_KIND_API);
  filter->add_api_domains(v1::TRACE_DOMAIN_HIP);
  filter->add_api_domains(v1::TRACE_DOMAIN_MARKERS);
  absl::StatusOr<v1::StartResponse> started;
  ASSERT_TRUE(Eventually([&] {
    started = client.Call(&ServiceConnection::Stub::AsyncStart, request);
    return started.ok();
  })) << started.status();
  // HIP needs a while for the first step.
  EXPECT_TRUE(Eventually([&] { return ReadDispatchLog(log).size() >= 20; }));
  v1::SessionNumber number;
  number.set_session(started->session());
  ASSERT_TRUE(client.Call(&ServiceConnection::Stub::AsyncStop, number).ok());
  const Finished result = target.Wait();
  EXPECT_TRUE(result.exited_with(0)) << result.errors;
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  const RecordedProcess process = ReadRecording(watcher.recording()).Process(pid);
  EXPECT_EQ(process.dispatches.size(), 150u);
  EXPECT_EQ(process.account.api_calls_dropped(), 0u);
  const std::vector<ApiCallRecord> launches = Calls(process, "hipLaunchKernel");
  EXPECT_GE(launches.size(), 5u);
  EXPECT_LT(launches.size(), 150u);
  // The recorded steps have no gaps.
  const std::vector<ApiCallRecord> pushes = Calls(process, "roctxRangePushA");
  ASSERT_GE(pushes.size(), 5u);
  int step = 0;
  ASSERT_EQ(sscanf(pushes[0].text.c_str(), "step %d", &step), 1);
  for (const ApiCallRecord& push : pushes) {
    EXPECT_EQ(push.text, absl::StrCat("step ", step++));
  }
}

}  // namespace
}  // namespace rocattach::testing_support
