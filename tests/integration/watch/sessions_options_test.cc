// Data that the options of sessions request reaches the recording, through the command
// line, the service and the target.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>

#include "tests/integration/watch/sessions_fixture.h"

namespace rocattach::testing_support {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class SessionOptions : public SessionsTest {
 protected:
  // Runs a target under a service with these options; returns its recorded process.
  RecordedProcess Run(const std::vector<std::string>& options,
                      const std::vector<std::string>& target, int exit_status = 0,
                      const std::vector<std::string>& environment = {}) {
    WatcherProcess watcher(Watch(options));
    EXPECT_TRUE(watcher.ready());
    Child child(OnSimrocm({}, target), {.environment = environment});
    const pid_t pid = child.pid();
    const Finished result = child.Wait();
    EXPECT_TRUE(result.exited_with(0)) << result.output << result.errors;
    const Finished ended = watcher.Stop();
    EXPECT_TRUE(ended.exited_with(exit_status)) << ended.errors;
    refusals_ = watcher.Events("session_refused");
    report_ = Child({ClientPath(), "report", watcher.recording()}).Wait().output;
    return ReadRecording(watcher.recording()).Process(pid);
  }
  std::string report_;  // of the last run
  std::vector<nlohmann::json> refusals_;
  // Number of calls by the function's name.
  static std::map<std::string, size_t> Calls(const RecordedProcess& process) {
    std::map<std::string, size_t> calls;
    for (const ApiCallRecord& call : process.api_calls) {
      auto name =
          process.functions.find({static_cast<int>(call.domain), call.function});
      EXPECT_NE(name, process.functions.end()) << call.function;
      if (name == process.functions.end()) break;
      ++calls[name->second];
      EXPECT_LE(call.begin_ns, call.end_ns);
      EXPECT_NE(call.tid, 0u);
    }
    return calls;
  }
  std::string File(const std::string& name, const std::string& text) {
    const std::string path = directory_.path() + "/" + name;
    std::ofstream(path) << text;
    return path;
  }
};

// An input file's traces, with nothing recorded but what the session asks for.
TEST_F(SessionOptions, TracesOfAnInputFile) {
  const std::string job =
      File("job.json", R"({"jobs": [{"kernel_trace": true, "memory_copy_trace": true,
                            "kernel_iteration_range": "[1-20]"}]})");
  const RecordedProcess process =
      Run({"--no-recording", "-i", job, "--hsa-trace", "--backend", "sdk"},
          {"hsa_dispatch", "-n", "50", "--copies", "3"});
  // The first twenty of each kernel.
  std::map<uint32_t, size_t> of_kernel;
  size_t most = 0;
  for (const rocattach_dispatch& d : process.dispatches) {
    most = std::max(most, ++of_kernel[d.kernel_id]);
  }
  EXPECT_EQ(most, 20u);
  EXPECT_LT(process.dispatches.size(), 50u);
  EXPECT_EQ(process.copies.size(), 3u);
  std::map<std::string, size_t> calls = Calls(process);
  EXPECT_EQ(calls["hsa_amd_memory_async_copy"], 3u);
  EXPECT_GE(calls["hsa_signal_destroy"], 2u);
  EXPECT_GT(calls.size(), 3u);
  EXPECT_EQ(process.dropped(), 0u);
  EXPECT_EQ(process.account.api_calls_dropped(), 0u);
}

// Calls that the collector makes on its own thread are not the program's.
TEST_F(SessionOptions, AllTracedCallsAreTheProgramsOwn) {
  const RecordedProcess process =
      Run({"--hsa-trace", "--backend", "sdk", "--device-samples", "5", "--pmc",
           "GRBM_COUNT"},
          {"hsa_dispatch", "-n", "20", "--rounds", "5", "--sleep-msec", "20"});
  ASSERT_FALSE(process.api_calls.empty());
  // Besides its first thread it has one for each round, and all of them make calls.
  std::set<uint32_t> threads;
  for (const ApiCallRecord& call : process.api_calls) threads.insert(call.tid);
  EXPECT_EQ(threads.size(), 1u + 5u);
  EXPECT_TRUE(threads.contains(process.process.pid()));
}

// The same with the HSA backend: tracing dispatches needs no rocprofiler-sdk.
TEST_F(SessionOptions, KernelTraceOfTheHsaTools) {
  const RecordedProcess process =
      Run({"--no-recording", "--backend", "hsa", "--kernel-trace", "--dispatch-range",
           "[11-30]", "--memory-copy-trace"},
          {"hsa_dispatch", "-n", "50", "--copies", "2"});
  EXPECT_EQ(process.verdict.collector().backend(), v1::BACKEND_HSA_TOOLS);
  EXPECT_EQ(process.dispatches.size(), 20u);
  EXPECT_EQ(process.copies.size(), 2u);
}

// Named before there is any process that could know the function.
TEST_F(SessionOptions, OneFunctionOfTheApi) {
  const RecordedProcess process = Run({"--api-function", "hsa_amd_memory_async_copy"},
                                      {"hsa_dispatch", "-n", "10", "--copies", "5"});
  const std::map<std::string, size_t> calls = Calls(process);
  EXPECT_EQ(calls, (std::map<std::string, size_t>{{"hsa_amd_memory_async_copy", 5}}));
  EXPECT_EQ(process.dispatches.size(), 10u);
}

TEST_F(SessionOptions, AFunctionThatNoProcessHasIsRefusedByName) {
  const RecordedProcess process =
      Run({"--api-function", "hsa_nonsense"}, {"hsa_dispatch", "-n", "10"}, 1);
  ASSERT_EQ(process.sessions.size(), 1u);
  EXPECT_EQ(process.sessions[0].what(), v1::SessionEvent::REFUSED);
  EXPECT_THAT(process.sessions[0].detail(), HasSubstr("hsa_nonsense"));
  EXPECT_EQ(process.dispatches.size(), 10u) << "the rest goes on";
}

TEST_F(SessionOptions, GpusAndDispatches) {
  const RecordedProcess process =
      Run({"--pmc", "SQ_WAVES", "--gpu", "0", "--dispatch-range", "[5-9],[20]"},
          {"hsa_dispatch", "-n", "30"});
  EXPECT_EQ(process.counters.size(), 6u);
  EXPECT_EQ(process.dispatches.size(), 30u);
  const RecordedProcess none =
      Run({"--pmc", "SQ_WAVES", "--gpu", "7"}, {"hsa_dispatch", "-n", "30"}, 1);
  ASSERT_EQ(none.sessions.size(), 1u);
  EXPECT_THAT(none.sessions[0].detail(), HasSubstr("GPUs matches 7"));
  EXPECT_TRUE(none.counters.empty());
}

// Samples of whole GPUs at an interval, and no counters of single dispatches.
TEST_F(SessionOptions, DeviceSamples) {
  const RecordedProcess process =
      Run({"--pmc", "SQ_WAVES", "GRBM_COUNT", "--device-samples", "20"},
          {"hsa_dispatch", "-n", "50", "--rounds", "20", "--sleep-msec", "20"});
  EXPECT_TRUE(process.counters.empty());
  ASSERT_GE(process.samples.size(), 10u);
  ASSERT_EQ(process.plans.size(), 1u);
  double waves = 0;
  for (const CounterRecord& sample : process.samples) {
    EXPECT_LT(sample.begin_ns, sample.end_ns);
    const std::string& name =
        process.plans.begin()->second.counters(static_cast<int>(sample.counter));
    if (name == "SQ_WAVES") waves += sample.sum;
  }
  EXPECT_GT(waves, 0);
  EXPECT_LE(waves, 1000 * 4096 / 64);
  EXPECT_EQ(process.account.samples_dropped(), 0u);
}

// A GPU of several dies: the SDK reports their number, and metrics can use it.
TEST_F(SessionOptions, DiesOfAGpu) {
  const std::string metrics = File("dies.yaml",
                                   "architectures: [gfx90a]\n"
                                   "metrics: {WavesOfADie: {expression: SQ_WAVES / "
                                   "XCC_NUM}}\n");
  uint32_t instances[2] = {};
  double waves[2] = {};
  for (uint32_t xccs : {1u, 4u}) {
    SCOPED_TRACE(xccs);
    ASSERT_EQ(setenv("SIMROCM_XCCS", std::to_string(xccs).c_str(), 1), 0);
    const RecordedProcess process =
        Run({"--pmc", "WavesOfADie", "--extra-counters", metrics},
            {"hsa_dispatch", "-n", "20"});
    unsetenv("SIMROCM_XCCS");
    ASSERT_EQ(process.counters.size(), 20u);
    instances[xccs / 4] = process.counters[0].instances;
    for (const CounterRecord& counter : process.counters) {
      waves[xccs / 4] += counter.sum;
    }
    ASSERT_EQ(process.plans.size(), 1u);
    const v1::SessionPlan& plan = process.plans.begin()->second;
    double constant = 0;
    for (const v1::AgentConstant& known : plan.agents(0).constants()) {
      if (known.name() == "XCC_NUM") constant = known.value();
    }
    EXPECT_EQ(constant, xccs);
    for (const auto& [id, agent] : process.agents) {
      const bool gpu = agent.type() == v1::AGENT_TYPE_GPU;
      EXPECT_EQ(agent.xccs(), gpu ? xccs : 0);
    }
  }
  EXPECT_GT(waves[0], 0);
  EXPECT_EQ(waves[0], waves[1]) << "the dies share the work";
  EXPECT_EQ(4 * instances[0], instances[1]);
}

// Jobs with different filters: the command runs once for each kind.
TEST_F(SessionOptions, JobsWithOtherFiltersRunTheCommandAgain) {
  const std::string jobs = File("jobs.json", R"({"jobs": [
      {"pmc": ["SQ_WAVES"], "kernel_include_regex": "increment"},
      {"pmc": ["GRBM_COUNT"], "kernel_include_regex": "accumulate"},
      {"pmc": ["GRBM_COUNT"], "kernel_include_regex": "increment"}]})");
  std::vector<std::string> words = {WatcherPath(), "--collector", CollectorPath()};
  for (const std::string& word : Watch({"-i", jobs, "-o", "run", "-d"})) {
    words.push_back(word);
  }
  words.insert(words.end(), {directory_.path() + "/out", "--"});
  for (const std::string& word : OnSimrocm({}, {"hsa_dispatch", "-n", "40"})) {
    words.push_back(word);
  }
  const Finished ended = Child(words).Wait();
  EXPECT_TRUE(ended.exited_with(0)) << ended.errors;
  EXPECT_THAT(ended.errors, HasSubstr("run 2 of 2"));
  const struct {
    const char* pass;
    const char* kernel;
    size_t counters;
  } runs[] = {{"pass_1", "increment", 2}, {"pass_2", "accumulate", 1}};
  for (const auto& run : runs) {
    SCOPED_TRACE(run.pass);
    const Recording recording =
        ReadRecording(directory_.path() + "/out/" + run.pass + "/run.rwa");
    const RecordedProcess process = recording.Process("hsa_dispatch");
    EXPECT_EQ(process.dispatches.size(), 40u);
    ASSERT_FALSE(process.counters.empty());
    for (const CounterRecord& counter : process.counters) {
      EXPECT_EQ(process.kernels.at(counter.kernel_id).name(), run.kernel);
    }
    ASSERT_EQ(process.plans.size(), 1u);
    EXPECT_EQ(static_cast<size_t>(process.plans.begin()->second.counters_size()),
              run.counters);
  }
}

// A command may take a while before it uses the GPU.
TEST_F(SessionOptions, TimesBeginWithTheFirstProcess) {
  WatcherProcess watcher(
      Watch({"--pmc", "SQ_WAVES", "--attach-duration-msec", "300",
             "--collection-period", "1:200:1", "--collection-period-unit", "msec"}));
  ASSERT_TRUE(watcher.ready());
  usleep(600'000);  // longer than the duration and the period
  Child child(OnSimrocm(
      {}, {"hsa_dispatch", "-n", "1", "--rounds", "120", "--sleep-msec", "10"}));
  const pid_t pid = child.pid();
  EXPECT_TRUE(child.Wait().exited_with(0));
  const Finished ended = watcher.Stop();
  EXPECT_TRUE(ended.exited_with(0)) << ended.errors;
  EXPECT_THAT(ended.errors, Not(HasSubstr("collected nothing")));
  const RecordedProcess process = ReadRecording(watcher.recording()).Process(pid);
  EXPECT_EQ(process.dispatches.size(), 120u);
  EXPECT_GT(process.counters.size(), 0u);
  EXPECT_LT(process.counters.size(), 120u);
}

TEST_F(SessionOptions, ASessionThatCollectedNothingIsReported) {
  WatcherProcess watcher(Watch({"--pmc", "SQ_WAVES", "--kernel-exclude-regex", ".*"}));
  ASSERT_TRUE(watcher.ready());
  EXPECT_TRUE(Child(OnSimrocm({}, {"hsa_dispatch", "-n", "10"})).Wait().exited_with(0));
  const Finished ended = watcher.Stop();
  EXPECT_TRUE(ended.exited_with(0)) << ended.errors;
  EXPECT_THAT(ended.errors, HasSubstr("the session collected nothing"));
}

TEST_F(SessionOptions, WrongOptionsAreRefusedBeforeAnythingRuns) {
  const std::vector<std::vector<std::string>> wrong = {
      {"--pmc", "SQ_WAVES", "--attach-duration-msec", "-5"},
      {"--pmc", "SQ_WAVES", "--attach-duration-msec", "18446744073710"},
      {"--hip-trace", "--kernel-include-regex", "foo"},
      {"--pmc", "SQ_WAVES", "--arch", "gfx9999"},
      {"--block", "TCC", "--arch", "gfx90a", "--single-pass"},
      {"--pmc", "SQ_WAVES", "--device-samples", "0"},
  };
  for (std::vector<std::string> words : wrong) {
    words.insert(words.begin(),
                 {WatcherPath(), "--auto", "--hold-timeout-msec", "10000"});
    words.insert(words.end(), {"--", "touch", directory_.path() + "/ran"});
    const Finished result = Child(words).Wait();
    EXPECT_TRUE(result.exited_with(2)) << words[2] << " " << result.errors;
    EXPECT_FALSE(result.errors.empty());
    EXPECT_FALSE(std::filesystem::exists(directory_.path() + "/ran"));
  }
}

// A later session on a process with the HSA backend: the refusal says what is
// impossible, what is possible, and what to do; and sessions of what is possible start.
TEST_F(SessionOptions, HsaBackendRefusalListsWhatIsPossible) {
  WatcherProcess watcher(Watch({"--socket", Socket()}));
  ASSERT_TRUE(watcher.ready());
  Child child(OnSimrocm(
      {}, {"hsa_dispatch", "-n", "10", "--rounds", "150", "--sleep-msec", "10"}));
  auto session = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {ClientPath(), "session"});
    words.insert(words.end(), {"--socket", Socket()});
    return Child(words).Wait();
  };
  Finished status;
  EXPECT_TRUE(Eventually([&] {
    status = session({"status"});
    return status.output.find("process ") != std::string::npos;
  }));
  EXPECT_THAT(status.output, HasSubstr("whole GPUs can be measured"));
  EXPECT_THAT(status.output, HasSubstr("--backend sdk"));
  const Finished refused = session({"start", "--pmc", "SQ_WAVES"});
  EXPECT_TRUE(refused.exited_with(1)) << refused.output;
  for (const char* part :
       {"cannot give hardware counters", "no counters of single dispatches", "copies",
        "--device-samples", "--backend sdk", "start the process again"}) {
    EXPECT_THAT(refused.errors, HasSubstr(part));
  }
  const Finished traced = session({"start", "--kernel-trace"});
  EXPECT_TRUE(traced.exited_with(0)) << traced.errors;
  EXPECT_TRUE(child.Wait().exited_with(0));
  EXPECT_TRUE(watcher.Stop().exited_with(0));
}

// Memory of the program, with and without rocprofiler-sdk, and scratch of its queues.
TEST_F(SessionOptions, MemoryAndScratch) {
  for (const char* backend : {"sdk", "hsa"}) {
    const RecordedProcess process =
        Run({"--no-recording", "--backend", backend, "--memory-allocation-trace"},
            {"hsa_dispatch", "-n", "5", "--copies", "2"});
    size_t allocated = 0;
    for (const MemoryRecord& memory : process.memory) {
      allocated += memory.operation == v1::MEMORY_OPERATION_ALLOCATE;
      EXPECT_NE(memory.session, 0u);
    }
    EXPECT_GE(allocated, 2u) << backend;
    EXPECT_EQ(process.account.memory_delivered(), process.memory.size());
    EXPECT_EQ(process.account.memory_dropped(), 0u);
    EXPECT_EQ(process.dropped(), 0u);
    EXPECT_THAT(report_, HasSubstr("allocated"));
  }
  const RecordedProcess process =
      Run({"--sys-trace", "--backend", "sdk"}, {"hsa_dispatch", "-n", "5"}, 0,
          {"SIMROCM_SCRATCH_BYTES=4096"});
  std::map<int, size_t> operations;
  for (const MemoryRecord& memory : process.memory) ++operations[memory.operation];
  EXPECT_GE(operations[v1::MEMORY_OPERATION_ALLOCATE], 2u);
  EXPECT_GE(operations[v1::MEMORY_OPERATION_SCRATCH_ALLOCATE], 1u);
  EXPECT_EQ(operations[v1::MEMORY_OPERATION_SCRATCH_FREE],
            operations[v1::MEMORY_OPERATION_SCRATCH_ALLOCATE]);
}

// If the SDK lacks one counter of a block, the rest is measured, and the report names
// the missing one. If the user has named the counter, the session is refused.
TEST_F(SessionOptions, ACounterThatTheSdkOfAProcessLacks) {
  const std::vector<std::string> lacking = {"SIMROCM_LACKS_COUNTER=TCC_HIT"};
  const RecordedProcess process = Run({"--block", "TCC", "--arch", "gfx90a"},
                                      {"hsa_dispatch", "-n", "200"}, 0, lacking);
  std::set<std::string> measured;
  for (const CounterRecord& record : process.counters) {
    measured.insert(
        process.plans.at(record.plan).counters(static_cast<int>(record.counter)));
  }
  EXPECT_FALSE(measured.contains("TCC_HIT"));
  EXPECT_TRUE(measured.contains("TCC_MISS"));
  EXPECT_EQ(process.account.counted_dropped(), 0u);
  EXPECT_THAT(report_, HasSubstr("without TCC_HIT"));
  const RecordedProcess whole =
      Run({"--block", "TCC", "--arch", "gfx90a"}, {"hsa_dispatch", "-n", "40"});
  EXPECT_THAT(report_, Not(HasSubstr("without TCC_HIT"))) << "it has it";
  EXPECT_FALSE(whole.counters.empty());
  const RecordedProcess named =
      Run({"--pmc", "TCC_HIT", "TCC_MISS"}, {"hsa_dispatch", "-n", "40"}, 1, lacking);
  EXPECT_TRUE(named.counters.empty());
  ASSERT_EQ(named.sessions.size(), 1u);
  EXPECT_EQ(named.sessions[0].what(), v1::SessionEvent::REFUSED);
  // These texts are for people, who do not know the names of the C API's statuses.
  const auto plain = AllOf(HasSubstr("TCC_HIT"), Not(HasSubstr("NOT_FOUND")));
  EXPECT_THAT(named.sessions[0].detail(), plain);
  ASSERT_EQ(refusals_.size(), 1u);
  EXPECT_THAT(refusals_[0].value("reason", ""), plain);
  EXPECT_THAT(report_, AllOf(HasSubstr("refused: "), plain));
  EXPECT_EQ(named.dispatches.size(), 40u) << "the rest goes on";
}

TEST_F(SessionOptions, InstancesAddUpToTheirCounter) {
  const RecordedProcess process =
      Run({"--pmc", "SQ_WAVES", "TCC_HIT", "--counter-instances"},
          {"hsa_dispatch", "-n", "20"});
  ASSERT_EQ(process.counters.size(), 40u);
  for (const CounterRecord& record : process.counters) {
    ASSERT_NE(record.each, nullptr);
    EXPECT_EQ(record.each->size(), record.instances);
    double sum = 0;
    for (const CounterInstance& instance : *record.each) sum += instance.value;
    EXPECT_EQ(sum, record.sum);
  }
}

// The encoding of an instance, the sizes of descriptions and records, and the kinds of
// records differ between versions.
class SessionsOfSdk : public SessionOptions,
                      public testing::WithParamInterface<const char*> {};

TEST_P(SessionsOfSdk, EveryRecordIsUnderstood) {
  const RecordedProcess process =
      Run({"--pmc", "SQ_WAVES", "TCC_HIT", "--counter-instances", "--hsa-trace",
           "--memory-copy-trace", "--memory-allocation-trace"},
          {"hsa_dispatch", "-n", "20", "--copies", "3"}, 0,
          {std::string("SIMROCM_SDK_VERSION=") + GetParam()});
  EXPECT_EQ(process.dispatches.size(), 20u);
  EXPECT_EQ(process.dropped(), 0u);
  EXPECT_EQ(process.account.counted_dropped(), 0u);
  std::map<std::string, std::set<uint64_t>> places;
  for (const CounterRecord& record : process.counters) {
    ASSERT_NE(record.each, nullptr);
    const std::string& name =
        process.plans.at(record.plan).counters(static_cast<int>(record.counter));
    for (const CounterInstance& instance : *record.each) {
      places[name].insert(instance.position);
    }
  }
  std::set<uint64_t> channels, engines;
  for (uint64_t i = 0; i < 32; ++i) channels.insert(i);
  for (uint64_t i = 0; i < 8; ++i) {
    engines.insert(i << ROCATTACH_INSTANCE_SHADER_ENGINE_SHIFT);
  }
  EXPECT_EQ(process.counters.size(), 40u);
  EXPECT_EQ(places["TCC_HIT"], channels);
  EXPECT_EQ(places["SQ_WAVES"], engines);
  EXPECT_EQ(process.copies.size(), 3u);
  for (const rocattach_copy& copy : process.copies) {
    EXPECT_LT(copy.start_ns, copy.end_ns);
    EXPECT_NE(copy.bytes, 0u);
  }
  EXPECT_GE(process.memory.size(), 2u);
  EXPECT_EQ(Calls(process)["hsa_queue_create"], 1u);
}

INSTANTIATE_TEST_SUITE_P(Versions, SessionsOfSdk,
                         testing::Values("1.1.0", "1.3.0", "1.3.2", "1.4.1"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return "Sdk" + name;
                         });

TEST_F(SessionOptions, InstancesOfSamplesAddUpToTheirCounter) {
  const RecordedProcess process = Run(
      {"--pmc", "SQ_WAVES", "TCC_HIT", "--device-samples", "20", "--counter-instances"},
      {"hsa_dispatch", "-n", "50", "--rounds", "20", "--sleep-msec", "20"});
  ASSERT_GE(process.samples.size(), 10u);
  EXPECT_EQ(process.account.samples_dropped(), 0u);
  double all = 0;
  for (const CounterRecord& record : process.samples) {
    ASSERT_NE(record.each, nullptr);
    EXPECT_EQ(record.each->size(), record.instances);
    std::set<uint64_t> places;
    double sum = 0;
    for (const CounterInstance& instance : *record.each) {
      sum += instance.value;
      places.insert(instance.position);
    }
    EXPECT_EQ(places.size(), record.instances) << "each place once";
    EXPECT_EQ(sum, record.sum);
    all += sum;
  }
  EXPECT_GT(all, 0) << "spans of the samples, not only zeros";
}

}  // namespace
}  // namespace rocattach::testing_support
