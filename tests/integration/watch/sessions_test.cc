// Sessions through the real service, on the simulated GPU with the simulated parts of a
// newer ROCm: every value is compared with what the simulator counted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/integration/watch/containers.h"
#include "tests/integration/watch/sessions_fixture.h"
#include "tests/simrocm/counter_truth.h"
#include "userspace/counters/catalog.h"

namespace rocattach::testing_support {
namespace {

using ::testing::HasSubstr;

// Both the SDK's numbers and correlation IDs follow the order of submission.
std::map<uint64_t, uint64_t> DispatchNumbers(const RecordedProcess& process) {
  std::vector<uint64_t> operations;
  for (const rocattach_dispatch& d : process.dispatches) {
    operations.push_back(d.correlation_id);
  }
  std::sort(operations.begin(), operations.end());
  std::map<uint64_t, uint64_t> numbers;
  for (uint64_t operation : operations) numbers.emplace(operation, numbers.size() + 1);
  return numbers;
}

// Compares every value with the simulator's truth; returns the names of the counters of
// each dispatch.
std::map<uint64_t, std::set<std::string>> ExpectTruth(const RecordedProcess& process) {
  std::map<uint64_t, std::set<std::string>> seen;
  const std::map<uint64_t, uint64_t> numbers = DispatchNumbers(process);
  std::map<uint64_t, rocattach_dispatch> dispatches;
  for (const rocattach_dispatch& d : process.dispatches) {
    dispatches[d.correlation_id] = d;
  }
  for (const CounterRecord& value : process.counters) {
    auto dispatch = dispatches.find(value.operation);
    if (dispatch == dispatches.end() || !process.plans.contains(value.plan)) {
      ADD_FAILURE() << "a value of dispatch " << value.operation << " and plan "
                    << value.plan << ", which are not there";
      return seen;
    }
    const rocattach_dispatch& d = dispatch->second;
    const std::string& name = process.plans.at(value.plan).counters(value.counter);
    const simrocm::DispatchShape shape = {{d.grid_x, d.grid_y, d.grid_z},
                                          {d.workgroup_x, d.workgroup_y, d.workgroup_z},
                                          numbers.at(value.operation)};
    EXPECT_EQ(value.sum, static_cast<double>(simrocm::CounterTotal(name, shape)))
        << name << " of dispatch " << numbers.at(value.operation);
    EXPECT_EQ(value.kernel_id, d.kernel_id);
    EXPECT_LE(value.minimum, value.maximum);
    EXPECT_TRUE(seen[value.operation].insert(name).second) << "twice";
    if (testing::Test::HasFailure()) return seen;
  }
  return seen;
}

// In the container, the SDK finds the collector by its name, as it has no path there.
TEST_F(SessionsTest, AContainerThatHasNoCollectorIsMeasured) {
  WatcherProcess watcher(Watch({"--pmc", "SQ_WAVES"}));
  ASSERT_TRUE(watcher.ready());
  Child target(WithoutCollector(OnSimrocm({}, {"hsa_dispatch", "-n", "20"})));
  const pid_t pid = target.pid();
  const Finished result = target.Wait();
  ASSERT_TRUE(result.exited_with(0)) << result.output << result.errors;
  EXPECT_EQ(result.errors, "");
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  const RecordedProcess process = ReadRecording(watcher.recording()).Process(pid);
  EXPECT_EQ(process.verdict.state(), v1::WINDOW_STATE_ATTACHED)
      << process.verdict.detail();
  EXPECT_EQ(process.dispatches.size(), 20u);
  EXPECT_EQ(ExpectTruth(process).size(), 20u);
}

TEST_F(SessionsTest, EveryValueIsTheTruth) {
  WatcherProcess watcher(Watch({"--pmc", "SQ_WAVES", "GRBM_COUNT"}));
  ASSERT_TRUE(watcher.ready());
  Child target(OnSimrocm({}, {"hsa_dispatch", "-n", "200"}));
  const pid_t pid = target.pid();
  const Finished result = target.Wait();
  ASSERT_TRUE(result.exited_with(0)) << result.output << result.errors;
  const Finished stopped = watcher.Stop();
  EXPECT_TRUE(stopped.exited_with(0)) << stopped.output << stopped.errors;
  const Recording recording = ReadRecording(watcher.recording());
  EXPECT_TRUE(recording.damage.empty());
  const RecordedProcess process = recording.Process(pid);
  EXPECT_EQ(process.verdict.state(), v1::WINDOW_STATE_ATTACHED)
      << process.verdict.detail();
  EXPECT_EQ(process.verdict.collector().backend(), v1::BACKEND_ROCPROFILER_SDK)
      << process.verdict.collector().backend_reason();
  EXPECT_EQ(process.dispatches.size(), 200u);
  EXPECT_EQ(process.dropped(), 0u);
  const auto seen = ExpectTruth(process);
  EXPECT_EQ(seen.size(), 200u) << "from the first dispatch on";
  for (const auto& [operation, names] : seen) EXPECT_EQ(names.size(), 2u);
  EXPECT_EQ(process.account.counted_delivered(), 200u);
  EXPECT_EQ(process.account.counted_dropped(), 0u);
  ASSERT_EQ(process.sessions.size(), 2u) << process.sessions.begin()->DebugString();
  EXPECT_EQ(process.sessions[0].what(), v1::SessionEvent::STARTED);
  EXPECT_EQ(process.sessions[1].what(), v1::SessionEvent::STOPPED);
}

TEST_F(SessionsTest, FortyCountersAreMultiplexed) {
  const CounterCatalog catalog = *CounterCatalog::Builtin();
  std::vector<std::string> words = Watch({"--pmc"});
  std::set<std::string> wanted;
  for (const HardwareCounter& counter : catalog.Find("gfx90a")->counters()) {
    if (counter.follows || wanted.size() == 40) continue;
    wanted.insert(counter.name);
    words.push_back(counter.name);
  }
  WatcherProcess watcher(words);
  ASSERT_TRUE(watcher.ready());
  Child target(OnSimrocm({}, {"hsa_dispatch", "-n", "400"}));
  const pid_t pid = target.pid();
  ASSERT_TRUE(target.Wait().exited_with(0));
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  const RecordedProcess process = ReadRecording(watcher.recording()).Process(pid);
  EXPECT_EQ(process.dispatches.size(), 400u);
  std::set<std::string> all;
  for (const auto& [operation, names] : ExpectTruth(process)) {
    EXPECT_LT(names.size(), 40u) << "no pass holds all of them";
    all.insert(names.begin(), names.end());
  }
  EXPECT_EQ(all, wanted);
  EXPECT_EQ(process.account.counted_delivered(), 400u);
  ASSERT_EQ(process.plans.size(), 1u);
  EXPECT_GT(process.plans.begin()->second.architectures(0).passes_size(), 1);
}

TEST_F(SessionsTest, FiltersChooseInTheTarget) {
  WatcherProcess watcher(
      Watch({"--no-recording", "--pmc", "SQ_WAVES", "--kernel-include-regex",
             "increment", "--kernel-iteration-range", "[2-4]"}));
  ASSERT_TRUE(watcher.ready());
  Child target(OnSimrocm({}, {"hsa_dispatch", "-n", "100"}));
  const pid_t pid = target.pid();
  ASSERT_TRUE(target.Wait().exited_with(0));
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  const RecordedProcess process = ReadRecording(watcher.recording()).Process(pid);
  ASSERT_EQ(process.counters.size(), 3u);
  for (const CounterRecord& value : process.counters) {
    EXPECT_THAT(process.kernels.at(value.kernel_id).name(), HasSubstr("increment"));
  }
  EXPECT_EQ(process.dispatches.size(), 3u);
  EXPECT_EQ(process.dropped(), 0u);
}

TEST_F(SessionsTest, PeriodsStartAndStopARunningProcess) {
  WatcherProcess watcher(Watch({"--pmc", "SQ_WAVES", "--collection-period", "50:50:6",
                                "--collection-period-unit", "msec"}));
  ASSERT_TRUE(watcher.ready());
  Child target(OnSimrocm(
      {}, {"hsa_dispatch", "-n", "20", "--rounds", "60", "--sleep-msec", "10"}));
  const pid_t pid = target.pid();
  const Finished result = target.Wait();
  ASSERT_TRUE(result.exited_with(0)) << result.output << result.errors;
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  const RecordedProcess process = ReadRecording(watcher.recording()).Process(pid);
  EXPECT_EQ(process.dispatches.size(), 1200u) << "recorded between sessions as well";
  EXPECT_EQ(process.dropped(), 0u);
  const auto seen = ExpectTruth(process);
  EXPECT_GT(seen.size(), 0u);
  EXPECT_LT(seen.size(), 1200u);
  int started = 0, stopped = 0;
  for (const v1::SessionEvent& event : process.sessions) {
    started += event.what() == v1::SessionEvent::STARTED;
    stopped += event.what() == v1::SessionEvent::STOPPED;
  }
  EXPECT_GE(started, 2);
  EXPECT_EQ(started, stopped);
  EXPECT_EQ(process.account.counted_dropped(), 0u);
}

// Runs `rocattach session --json`.
Finished Session(const std::string& socket, std::vector<std::string> arguments) {
  std::vector<std::string> words = {ClientPath(), "session"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  words.insert(words.end(), {"--socket", socket, "--json"});
  return Child(words).Wait();
}

TEST_F(SessionsTest, StartedAndStoppedFromOutsideWithOtherCounters) {
  WatcherProcess watcher(Watch({"--backend", "sdk", "--socket", Socket()}));
  ASSERT_TRUE(watcher.ready());
  Child target(OnSimrocm(
      {}, {"hsa_dispatch", "-n", "20", "--rounds", "900", "--sleep-msec", "5"}));
  const std::string pid = std::to_string(target.pid());
  const char* counters[] = {"SQ_WAVES", "GRBM_COUNT", "SQ_INSTS_VALU", "SQ_BUSY_CYCLES",
                            "GRBM_GUI_ACTIVE"};
  Finished answer;
  int sessions = 0;
  for (const char* counter : counters) {
    for (int attempt = 0; attempt < 100; ++attempt) {
      answer = Session(Socket(), {"start", "--pid", pid, "--pmc", counter});
      if (answer.exited_with(0)) break;
      usleep(20'000);  // the process may not be ready for that yet
    }
    ASSERT_TRUE(answer.exited_with(0)) << answer.errors;
    const auto number = nlohmann::json::parse(answer.output)["session"];
    if (sessions++ == 0) {
      // A second session is refused, and the refusal names the session in force.
      const Finished second = Session(Socket(), {"start", "--pmc", "SQ_WAVES"});
      EXPECT_TRUE(second.exited_with(1));
      EXPECT_THAT(second.errors, HasSubstr("belongs to session " + number.dump()));
    }
    usleep(60'000);
    const auto status = nlohmann::json::parse(Session(Socket(), {"status"}).output);
    ASSERT_FALSE(status["sessions"].empty() || status["processes"].empty());
    EXPECT_EQ(status["sessions"].back()["active"], true);
    EXPECT_EQ(status["processes"][0]["can_count"], true);
    EXPECT_TRUE(Session(Socket(), {"stop", number.dump()}).exited_with(0));
  }
  EXPECT_TRUE(Session(Socket(), {"stop", "4711"}).exited_with(1));
  EXPECT_TRUE(Session(Socket(), {"start", "--pmc", "SQ_WAVE"}).exited_with(2));
  const pid_t number = target.pid();
  const Finished result = target.Wait();
  ASSERT_TRUE(result.exited_with(0)) << result.output << result.errors;
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  const RecordedProcess process = ReadRecording(watcher.recording()).Process(number);
  EXPECT_EQ(process.dispatches.size(), 18000u);
  EXPECT_EQ(process.dropped(), 0u);
  std::map<std::string, int> by_name;
  for (const auto& [operation, names] : ExpectTruth(process)) {
    EXPECT_EQ(names.size(), 1u);
    ++by_name[*names.begin()];
  }
  EXPECT_EQ(by_name.size(), 5u);
  EXPECT_EQ(process.sessions.size(), 10u);
}

void ExpectRefused(const RecordedProcess& process, const char* why) {
  EXPECT_EQ(process.verdict.state(), v1::WINDOW_STATE_ATTACHED);
  EXPECT_EQ(process.verdict.collector().backend(), v1::BACKEND_HSA_TOOLS);
  EXPECT_EQ(process.dispatches.size(), 100u) << "the rest goes on";
  EXPECT_TRUE(process.counters.empty()) << "never zeros";
  ASSERT_EQ(process.sessions.size(), 1u);
  EXPECT_EQ(process.sessions[0].what(), v1::SessionEvent::REFUSED);
  EXPECT_THAT(process.sessions[0].detail(), HasSubstr(why));
}

TEST_F(SessionsTest, WithoutTheSdkCountersAreRefusedByName) {
  WatcherProcess watcher(Watch({"--pmc", "SQ_WAVES"}));
  ASSERT_TRUE(watcher.ready());
  Child without(OnSimrocm({"--without-sdk"}, {"hsa_dispatch", "-n", "100"}));
  const pid_t first = without.pid();
  EXPECT_TRUE(without.Wait().exited_with(0));
  Child old(OnSimgpu({"hsa_dispatch", "-n", "100"}));
  const pid_t second = old.pid();
  EXPECT_TRUE(old.Wait().exited_with(0));
  const Finished ended = watcher.Stop();
  EXPECT_TRUE(ended.exited_with(1)) << "what was asked for was had nowhere";
  EXPECT_THAT(ended.errors, HasSubstr("the session collected nothing"));
  const Recording recording = ReadRecording(watcher.recording());
  ExpectRefused(recording.Process(first), "would not find librocprofiler-sdk.so");
  ExpectRefused(recording.Process(second), "no rocprofiler-register");
  const auto refused = watcher.Events("session_refused");
  ASSERT_EQ(refused.size(), 2u);
}

TEST_F(SessionsTest, WithoutTopologyTheSdkIsLeftAlone) {
  WatcherProcess watcher({"--auto", "--pmc", "SQ_WAVES"});
  ASSERT_TRUE(watcher.ready());
  Child target(OnSimrocm({}, {"hsa_dispatch", "-n", "100"}));
  const pid_t pid = target.pid();
  EXPECT_TRUE(target.Wait().exited_with(0));
  EXPECT_TRUE(watcher.Stop().exited_with(1));
  ExpectRefused(ReadRecording(watcher.recording()).Process(pid), "sees no GPU");
}

TEST_F(SessionsTest, UnknownCountersAreAnErrorBeforeAnythingIsTouched) {
  const Finished result =
      Child({WatcherPath(), "--auto", "--pmc", "SQ_WAVE", "--", "true"}).Wait();
  EXPECT_TRUE(result.exited_with(2));
  EXPECT_THAT(result.errors, HasSubstr("SQ_WAVES"));
}

}  // namespace
}  // namespace rocattach::testing_support
