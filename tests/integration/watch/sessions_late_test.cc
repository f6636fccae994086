// Sessions on processes that were armed with the HSA tools: rocprofiler-sdk comes late,
// for counters of whole GPUs, calls of HIP and markers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/watch/attacher.h"
#include "tests/integration/watch/harness.h"
#include "tests/integration/watch/sessions_fixture.h"
#include "tests/simrocm/counter_truth.h"
#include "userspace/watch/runtime_start.h"

namespace rocattach::testing_support {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class LateSessions : public SessionsTest {
 protected:
  Finished Client(std::vector<std::string> arguments) {
    std::vector<std::string> words = {ClientPath(), "session"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    words.insert(words.end(), {"--socket", Socket(), "--json"});
    return Child(words).Wait();
  }

  // A session of samples of one process, which may not have come as far as that yet.
  std::string Start(pid_t pid, const std::string& counter) {
    Finished answer;
    for (int attempt = 0; attempt < 200; ++attempt) {
      answer = Client({"start", "--pid", std::to_string(pid), "--pmc", counter,
                       "--device-samples", "5"});
      if (answer.exited_with(0)) break;
      usleep(10'000);
    }
    EXPECT_TRUE(answer.exited_with(0)) << answer.errors;
    if (!answer.exited_with(0)) return "0";
    return nlohmann::json::parse(answer.output)["session"].dump();
  }
};

double Waves(const rocattach_dispatch& d) {
  return static_cast<double>(
      simrocm::Waves({{d.grid_x, d.grid_y, d.grid_z},
                      {d.workgroup_x, d.workgroup_y, d.workgroup_z},
                      0}));
}

// What the samples of one plan say, and over which time.
struct Samples {
  double sum = 0;
  size_t count = 0;
  uint64_t begin_ns = UINT64_MAX, end_ns = 0;
};

std::map<std::string, Samples> ByCounter(const RecordedProcess& process) {
  std::map<std::string, Samples> by_counter;
  for (const CounterRecord& sample : process.samples) {
    const v1::SessionPlan& plan = process.plans.at(sample.plan);
    Samples& all = by_counter[plan.counters(static_cast<int>(sample.counter))];
    all.sum += sample.sum;
    ++all.count;
    all.begin_ns = std::min(all.begin_ns, sample.begin_ns);
    all.end_ns = std::max(all.end_ns, sample.end_ns);
  }
  return by_counter;
}

TEST_F(LateSessions, SamplesOfAProcessThatWasArmedWithoutTheSdk) {
  WatcherProcess watcher(Watch({"--socket", Socket()}));
  ASSERT_TRUE(watcher.ready());
  constexpr int kBurst = 20;
  Child target(OnSimrocm({}, {"hsa_dispatch", "-n", std::to_string(kBurst), "--rounds",
                              "1000", "--sleep-msec", "5"}));
  const pid_t pid = target.pid();
  for (const char* counter : {"SQ_WAVES", "GRBM_COUNT", "SQ_WAVES"}) {
    const std::string session = Start(pid, counter);
    usleep(400'000);
    EXPECT_TRUE(Client({"stop", session}).exited_with(0));
  }
  const Finished refused =
      Client({"start", "--pid", std::to_string(pid), "--pmc", "SQ_WAVES"});
  EXPECT_TRUE(refused.exited_with(1));
  EXPECT_THAT(refused.errors, HasSubstr("counters of whole GPUs (--device-samples)"));
  const Finished result = target.Wait();
  EXPECT_TRUE(result.exited_with(0)) << result.output << result.errors;
  EXPECT_EQ(result.errors, "");
  EXPECT_TRUE(watcher.Stop().exited_with(0));

  const RecordedProcess process = ReadRecording(watcher.recording()).Process(pid);
  EXPECT_EQ(process.verdict.collector().backend(), v1::BACKEND_HSA_TOOLS);
  EXPECT_EQ(process.dispatches.size(), 1000u * kBurst) << "recorded as before";
  EXPECT_EQ(process.dropped(), 0u);
  EXPECT_EQ(process.account.samples_dropped(), 0u);
  EXPECT_EQ(process.agents.size(), 2u) << "the SDK's are those that are known";
  ASSERT_EQ(process.plans.size(), 2u);
  const auto samples = ByCounter(process);
  ASSERT_EQ(samples.size(), 2u);
  EXPECT_GE(samples.at("GRBM_COUNT").count, 10u);
  EXPECT_GT(samples.at("GRBM_COUNT").sum, 0);
}

TEST_F(LateSessions, ValuesAreThoseOfTheDispatchesMeanwhile) {
  WatcherProcess watcher(Watch({"--socket", Socket()}));
  ASSERT_TRUE(watcher.ready());
  constexpr int kBurst = 20;
  Child target(OnSimrocm({}, {"hsa_dispatch", "-n", std::to_string(kBurst), "--rounds",
                              "600", "--sleep-msec", "5"}));
  const pid_t pid = target.pid();
  const std::string session = Start(pid, "SQ_WAVES");
  usleep(400'000);
  EXPECT_TRUE(Client({"stop", session}).exited_with(0));
  EXPECT_TRUE(target.Wait().exited_with(0));
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  const RecordedProcess process = ReadRecording(watcher.recording()).Process(pid);
  const Samples samples = ByCounter(process)["SQ_WAVES"];
  ASSERT_GE(samples.count, 10u);
  double waves = 0, most = 0;
  for (const rocattach_dispatch& dispatch : process.dispatches) {
    const bool inside =
        dispatch.end_ns > samples.begin_ns && dispatch.end_ns <= samples.end_ns;
    waves += inside ? Waves(dispatch) : 0;
    most = std::max(most, Waves(dispatch));
  }
  EXPECT_GT(waves, 0);
  // A sample may fall into a burst of dispatches, whose ends are close together.
  EXPECT_NEAR(samples.sum, waves, 2 * kBurst * most);
}

// A runtime that has the SDK leaves other tools out when it starts again; not ours.
TEST_F(LateSessions, TheRuntimeMayGoAndComeAgain) {
  WatcherProcess watcher(Watch({"--socket", Socket()}));
  ASSERT_TRUE(watcher.ready());
  Child target(OnSimrocm({}, {"hsa_reinit", "-r", "3", "-n", "50", "-w", "2000"}));
  const pid_t pid = target.pid();
  (void)Start(pid, "SQ_WAVES");
  const Finished result = target.Wait();
  EXPECT_TRUE(result.exited_with(0)) << result.output << result.errors;
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  const RecordedProcess process = ReadRecording(watcher.recording()).Process(pid);
  EXPECT_EQ(process.dispatches.size(), 150u);
  EXPECT_EQ(process.dropped(), 0u);
  ASSERT_FALSE(process.samples.empty());
  const uint64_t last_window_ns = process.windows.back().hit_ns();
  size_t behind = 0;
  for (const CounterRecord& sample : process.samples) {
    behind += sample.begin_ns > last_window_ns;
  }
  EXPECT_GT(behind, 0u) << "sampled on in the runtime's last life";
}

TEST_F(LateSessions, ChildrenInheritNoneOfItsVariables) {
  Finished alone = Child(OnSimrocm({}, {"child_environment"})).Wait();
  EXPECT_THAT(alone.output, HasSubstr("ROCPROFILER_REGISTER_FORCE_LOAD unset"));
  WatcherProcess watcher(Watch({"--socket", Socket()}));
  ASSERT_TRUE(watcher.ready());
  Child target(OnSimrocm({}, {"child_environment", "-w", "2000"}));
  const pid_t pid = target.pid();
  (void)Start(pid, "SQ_WAVES");
  const Finished watched = target.Wait();
  EXPECT_EQ(alone.output, watched.output);
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  EXPECT_FALSE(ReadRecording(watcher.recording()).Process(pid).samples.empty());
}

TEST_F(LateSessions, TheProcessMayEndWhileTheSdkComes) {
  WatcherProcess watcher(Watch({"--socket", Socket()}));
  ASSERT_TRUE(watcher.ready());
  constexpr int kRounds = 16;
  for (int round = 0; round < kRounds; ++round) {
    // The collector asks for the SDK half a second after hsa_init: ends around that.
    const std::string msec = std::to_string(480 + 10 * round);
    Child target(OnSimrocm({}, {"hsa_reinit", "-r", "1", "-n", "50", "-w", msec}));
    const std::string pid = std::to_string(target.pid());
    Finished answer;
    for (int attempt = 0; attempt < 100; ++attempt) {
      answer = Client({"start", "--pid", pid, "--pmc", "SQ_WAVES", "--device-samples",
                       "1", "--no-wait"});
      if (answer.errors.find("is not attached") == std::string::npos) break;
    }
    const Finished result = target.Wait();
    EXPECT_TRUE(result.exited_with(0)) << msec << ": status " << result.status;
    EXPECT_EQ(result.output, "dispatches=50 copies=0 bytes=0 rounds=1 result=ok\n");
    EXPECT_EQ(result.errors, "");
  }
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  const Recording recording = ReadRecording(watcher.recording());
  EXPECT_EQ(recording.summary->windows_attached(), uint64_t{kRounds});
  EXPECT_EQ(recording.summary->dispatches(), 50u * kRounds);
  EXPECT_EQ(recording.summary->dropped(), 0u);
}

// simrocm-run in a folder of its own, where the SDK's file has the name of a version
// that cannot be added to a running process.
std::string OldSimrocm(const std::string& directory) {
  namespace fs = std::filesystem;
  const fs::path from = fs::path(SimrocmRunPath()).parent_path();
  const fs::path to = directory + "/old/simrocm";
  fs::create_directories(to);
  fs::copy(from / "lib", to / "lib",
           fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  fs::copy(SimrocmRunPath(), to);
  fs::create_symlink(from.parent_path() / "simgpu", directory + "/old/simgpu");
  const fs::path sdk = to / "lib/librocprofiler-sdk.so.1";
  fs::rename(sdk, to / "lib/librocprofiler-sdk.so.1.0.0");
  fs::create_symlink("librocprofiler-sdk.so.1.0.0", sdk);
  return to / "simrocm-run";
}

// What would be refused at the start is not promised.
TEST_F(LateSessions, StatusSaysThatAnOldSdkCannotBeAdded) {
  const std::string run = OldSimrocm(directory_.path());
  WatcherProcess watcher(Watch({"--socket", Socket()}));
  ASSERT_TRUE(watcher.ready());
  Child target({run, TargetPath("hsa_dispatch"), "-n", "20", "--rounds", "1000000",
                "--sleep-msec", "5"},
               {.dies_with_us = true});
  Finished status;
  EXPECT_TRUE(Eventually([&] {
    status = Child({ClientPath(), "session", "status", "--socket", Socket()}).Wait();
    return status.output.find("process ") != std::string::npos;
  })) << status.errors;
  EXPECT_THAT(status.output,
              AllOf(HasSubstr("cannot be measured: "), HasSubstr("1.0.0"),
                    Not(HasSubstr("whole GPUs can be measured"))));
  const Finished refused = Client({"start", "--pid", std::to_string(target.pid()),
                                   "--pmc", "SQ_WAVES", "--device-samples", "5"});
  EXPECT_TRUE(refused.exited_with(1)) << refused.output;
  EXPECT_THAT(refused.errors, HasSubstr("1.0.0"));
  target.Signal(SIGKILL);
  (void)target.Wait();
  EXPECT_TRUE(watcher.Stop().exited_with(0));
}

TEST_F(LateSessions, RefusedWhereTheSdkCannotBeAdded) {
  const struct {
    std::vector<std::string> watcher, simrocm;
    const char* why;
  } cases[] = {
      {{}, {"--without-sdk"}, "would not find librocprofiler-sdk.so"},
      {{"--backend", "hsa"}, {}, "switched off"},
  };
  for (const auto& test : cases) {
    SCOPED_TRACE(test.why);
    std::vector<std::string> words = {"--socket", Socket()};
    words.insert(words.end(), test.watcher.begin(), test.watcher.end());
    WatcherProcess watcher(Watch(words));
    ASSERT_TRUE(watcher.ready());
    Child target(OnSimrocm(test.simrocm, {"hsa_dispatch", "-n", "20", "--rounds", "400",
                                          "--sleep-msec", "5"}));
    const pid_t pid = target.pid();
    Finished answer;
    for (int attempt = 0; attempt < 200; ++attempt) {
      answer = Client({"start", "--pid", std::to_string(pid), "--pmc", "SQ_WAVES",
                       "--device-samples", "5"});
      if (answer.errors.find("is not attached") == std::string::npos) break;
      usleep(5'000);
    }
    EXPECT_TRUE(answer.exited_with(1)) << answer.output;
    EXPECT_THAT(answer.errors, HasSubstr(test.why));
    EXPECT_TRUE(target.Wait().exited_with(0));
    EXPECT_TRUE(watcher.Stop().exited_with(0));
    const RecordedProcess process = ReadRecording(watcher.recording()).Process(pid);
    EXPECT_EQ(process.dispatches.size(), 8000u);
    EXPECT_TRUE(process.samples.empty());
  }
}

// A process that was running already, and is attached to for the first time.
class FirstAttachTest : public LateSessions {
 protected:
  // Dispatches until End(); it forks then. `variable`: NAME=VALUE for the target.
  std::unique_ptr<Child> StartTarget(std::vector<std::string> simrocm = {},
                                     const char* variable = "NONE=") {
    std::vector<std::string> words = {"env", variable};
    const std::vector<std::string> command = OnSimrocm(
        std::move(simrocm),
        {"fork_again", "--open", "--ready", Path("ready"), "--until", Path("end")});
    words.insert(words.end(), command.begin(), command.end());
    auto target = std::make_unique<Child>(words, Child::Options{.dies_with_us = true});
    EXPECT_TRUE(Eventually([&] { return std::filesystem::exists(Path("ready")); }));
    return target;
  }
  std::string Path(const std::string& name) const {
    return directory_.path() + "/" + name;
  }
  // Attaches until `enough`, and returns the result of the process.
  nlohmann::json Record(pid_t pid, std::vector<std::string> options, int exit_status,
                        const std::string& name = "t") {
    options.insert(options.end(), {"--kfd-topology", directory_.path()});
    Attacher attach(directory_.path() + "/" + name + ".rwa", {pid}, options);
    EXPECT_TRUE(attach.Attached()) << attach.child().PollOutput();
    usleep(1'500'000);
    const Finished end = attach.Stop();
    EXPECT_TRUE(end.exited_with(exit_status)) << end.output << end.errors;
    const auto results = attach.Events("result");
    return results.empty() ? nlohmann::json() : results[0];
  }
  void End(Child* target) {
    std::ofstream(Path("end")).put('\n');
    const Finished end = target->Wait();
    EXPECT_TRUE(end.exited_with(0)) << end.output << end.errors;
    EXPECT_THAT(end.output, HasSubstr("result=ok"));
    EXPECT_EQ(end.errors, "");
  }
};

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
  EXPECT_GT(ByCounter(process)["SQ_WAVES"].sum, 0);
}

// What the result says is missing, each with a reason that contains `why`.
std::vector<std::string> Missing(const nlohmann::json& result, const char* why) {
  std::vector<std::string> missing;
  for (const auto& one : result.value("missing", nlohmann::json::array())) {
    missing.push_back(one.value("what", ""));
    EXPECT_THAT(one.value("why", ""), HasSubstr(why)) << missing.back();
  }
  return missing;
}

TEST_F(FirstAttachTest, WhatNobodyHasNamedIsLeftOut) {
  auto target = StartTarget();
  const nlohmann::json result = Record(target->pid(), {"--sys-trace"}, 0);
  EXPECT_EQ(result.value("status", ""), "recorded");
  EXPECT_GT(result.value("dispatches", 0), 100);
  EXPECT_GT(result.value("tid", 0), 0);
  const std::vector<std::string> missing = Missing(result, "attached to later");
  EXPECT_THAT(missing, testing::Contains("calls of the HSA API"));
  EXPECT_THAT(missing, Not(testing::Contains("markers")));
  // What was named is refused.
  const nlohmann::json refused =
      Record(target->pid(), {"--sys-trace", "--hsa-trace"}, 1);
  EXPECT_THAT(refused.value("detail", ""), HasSubstr("calls of the HSA API"));
  // Its dispatches are there, but not what was requested.
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

// The thread that adds it never returns. The process forks and ends meanwhile.
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
  // It is not tried again.
  const nlohmann::json left_out = Record(target->pid(), {"--sys-trace"}, 0, "again");
  EXPECT_THAT(Missing(left_out, "an attempt to add it"), testing::Contains("markers"));
  EXPECT_GT(left_out.value("dispatches", 0), 100);
  End(target.get());
}

TEST_F(FirstAttachTest, AnSdkThatRefusesIsReported) {
  auto target = StartTarget({}, "SIMROCM_FORCE_CONFIGURE=refuse");
  const nlohmann::json result = Record(target->pid(), {"--marker-trace"}, 1);
  EXPECT_THAT(result.value("detail", ""), HasSubstr("does not accept a tool now"));
  EXPECT_GT(result.value("dispatches", 0), 100);
  End(target.get());
}

// Whatever the instant, the process is unharmed, and what it did not record is no
// success.
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

#ifdef ROCATTACH_HAVE_HIP
// A HIP program that has made its calls for a while.
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
  // The calls of one function in their order.
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
  // From the first marker on nothing is missing.
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

// The duration counts from when the calls are recorded.
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

// Each recording has what it asks for.
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
#endif

// Processes that were started with ROCP_TOOL_ATTACH=1.
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

// What it has recorded this way before it also gives without a session.
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

// Without a session that needs the SDK nothing of it is loaded.
TEST_F(AttachableTest, OtherwiseItIsEnteredLikeAnyOther) {
  auto target = StartTarget({"--attachable"});
  const nlohmann::json result = Record(target->pid(), {}, 0);
  EXPECT_THAT(result.value("entry", ""), testing::StartsWith("late"));
  End(target.get());
}

// Another tool has the SDK: the process is recorded below it, without counters, and the
// reason is given.
TEST_F(AttachableTest, BesideAnotherTool) {
  auto target = StartTarget({"--attachable", "--tool", ROCATTACH_TEST_TOOL});
  const nlohmann::json result = Record(target->pid(), {"--sys-trace"}, 0);
  EXPECT_THAT(result.value("entry", ""), testing::StartsWith("late"));
  EXPECT_THAT(Missing(result, "another tool"), testing::Contains("markers"));
  End(target.get());
}

}  // namespace
}  // namespace rocattach::testing_support
