// Runtimes of newer ROCm releases, simulated on top of Debian's: larger tables, queues
// from descriptors, rings in device memory, counted queues, batches of copies.
#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "tests/integration/watch/running_fixture.h"
#include "tests/unit/gpus/fake_driver.h"

namespace rocattach::testing_support {
namespace {

using testing::HasSubstr;

// Makes the loader find this runtime before the machine's own. The simulated GPU waits
// for the doorbell of a packet even while the packet's thread has no processor.
std::vector<std::string> Runtime(const std::string& name) {
  return {"LD_LIBRARY_PATH=" ROCATTACH_TEST_RUNTIMES "/" + name,
          "SIMGPU_UNRUNG_NS=5000000000"};
}

class NewerRuntimeTest : public AttachRunningTest {
 protected:
  // Expects that the program succeeds without a service.
  static void ExpectNative(std::vector<std::string> command,
                           const std::string& runtime) {
    Child child(OnSimgpu(std::move(command)), {.environment = Runtime(runtime)});
    const Finished end = child.Wait();
    EXPECT_TRUE(end.exited_with(0)) << end.errors;
    EXPECT_THAT(end.output, HasSubstr("result=ok"));
  }
  // Attaches at the window; expects that everything is recorded, with its times.
  static void ExpectAllAtWindow(std::vector<std::string> command,
                                const std::string& runtime) {
    ExpectAllAtWindow(std::move(command), runtime, Runtime(runtime));
  }
  static void ExpectAllAtWindow(std::vector<std::string> command,
                                const std::string& runtime,
                                const std::vector<std::string>& environment) {
    ExpectNative(command, runtime);
    WatcherProcess watcher({"--auto"});
    ASSERT_TRUE(watcher.ready());
    Child target(OnSimgpu(std::move(command)), {.environment = environment});
    const pid_t pid = target.pid();
    const Finished end = target.Wait();
    EXPECT_TRUE(end.exited_with(0)) << end.output << end.errors;
    EXPECT_EQ(end.errors, "");
    EXPECT_TRUE(watcher.Stop().exited_with(0));
    const RecordedProcess process = ReadRecording(watcher.recording()).Process(pid);
    EXPECT_EQ(process.verdict.state(), v1::WINDOW_STATE_ATTACHED)
        << process.verdict.detail();
    EXPECT_EQ(process.verdict.collector().backend_reason().find("not understood"),
              std::string::npos)
        << process.verdict.collector().backend_reason();
    EXPECT_EQ(static_cast<int64_t>(process.dispatches.size()),
              Printed(end.output, "dispatches"));
    EXPECT_EQ(static_cast<int64_t>(process.copies.size()),
              Printed(end.output, "copies"));
    ExpectTimes(process);
  }
  static void ExpectTimes(const RecordedProcess& process) {
    EXPECT_EQ(process.dropped(), 0u);
    EXPECT_EQ(process.account.untimed(), 0u);
    EXPECT_EQ(process.account.packets_unseen(), 0u);
    EXPECT_EQ(process.account.times_not_believable(), 0u);
    std::set<uint64_t> operations;
    for (const rocattach_dispatch& d : process.dispatches) {
      EXPECT_TRUE(operations.insert(d.correlation_id).second);
      EXPECT_LT(d.start_ns, d.end_ns);
      EXPECT_TRUE(process.kernels.contains(d.kernel_id));
    }
    for (const rocattach_copy& c : process.copies) {
      EXPECT_TRUE(operations.insert(c.correlation_id).second);
      EXPECT_LT(c.start_ns, c.end_ns);
    }
  }
  // Attaches late; expects that everything launched from then on is recorded.
  void ExpectAllAfterLateAttach(std::vector<std::string> command,
                                const std::string& runtime) {
    auto child = StartProgram(std::move(command), Runtime(runtime));
    Attacher attach(Path("t.rwa"), {child->pid()});
    EXPECT_TRUE(attach.Attached()) << attach.child().PollOutput();
    Change();
    const Finished target = child->Wait();
    const Finished attacher = attach.child().Wait();
    const Recording recording = ReadRecording(Path("t.rwa"));
    ASSERT_EQ(recording.processes.size(), 1u);
    const RecordedProcess& process = recording.processes[0];
    ExpectExact(process, target, attacher, "increment", "accumulate");
    EXPECT_EQ(static_cast<int64_t>(process.copies.size()),
              std::max<int64_t>(0, Printed(target.output, "copies")));
    ExpectTimes(process);
  }
};

class RuntimeTablesTest : public NewerRuntimeTest,
                          public testing::WithParamInterface<const char*> {};

TEST_P(RuntimeTablesTest, AProgramOfTodayIsRecorded) {
  ExpectAllAtWindow({"hsa_dispatch", "-n", "400", "-t", "4", "--copies", "8"},
                    GetParam());
}

TEST_P(RuntimeTablesTest, AProgramThatRunsIsRecorded) {
  ExpectAllAfterLateAttach({"hsa_graph", "--nodes", "64", "-n", "6"}, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Bytes, RuntimeTablesTest,
                         testing::Values("624", "648", "712", "752", "branch_720"),
                         [](const auto& test) { return std::string(test.param); });

struct WayCase {
  const char* name;
  std::vector<std::string> arguments;
};
class NewerWaysTest : public NewerRuntimeTest,
                      public testing::WithParamInterface<WayCase> {
 protected:
  static std::vector<std::string> Command() {
    std::vector<std::string> command = {"hsa_newer", "-t", "16", "-n", "300"};
    const std::vector<std::string>& more = GetParam().arguments;
    command.insert(command.end(), more.begin(), more.end());
    return command;
  }
};

TEST_P(NewerWaysTest, AtTheWindow) {
  ExpectAllAtWindow(Command(), "752");
}

TEST_P(NewerWaysTest, Late) {
  ExpectAllAfterLateAttach(Command(), "752");
}

INSTANTIATE_TEST_SUITE_P(
    Ways, NewerWaysTest,
    testing::Values(WayCase{"Descriptors", {}},
                    WayCase{"RingsInDeviceMemory", {"--device-ring"}},
                    WayCase{"CountedQueues", {"--counted"}},
                    WayCase{"BatchesOfCopies", {"--batches", "5"}},
                    WayCase{"Clusters", {"--clusters"}},
                    WayCase{"ClustersInDeviceMemory", {"--clusters", "--device-ring"}},
                    WayCase{"AllOfThem",
                            {"--device-ring", "--batches", "3", "--broadcast"}}),
    [](const auto& test) { return std::string(test.param.name); });

// Packets that run others outside the ring are not followed: they are counted as
// unseen, and everything else is recorded.
TEST_F(NewerRuntimeTest, JumpsAreCounted) {
  const std::vector<std::string> command = {"hsa_newer", "-n", "100", "--jumps", "7"};
  ExpectNative(command, "752");
  WatcherProcess watcher({"--auto"});
  ASSERT_TRUE(watcher.ready());
  Child target(OnSimgpu(command), {.environment = Runtime("752")});
  const pid_t pid = target.pid();
  const Finished end = target.Wait();
  EXPECT_TRUE(end.exited_with(0)) << end.output << end.errors;
  const Finished service = watcher.Stop();
  EXPECT_TRUE(service.exited_with(0));
  EXPECT_THAT(service.errors, testing::Not(HasSubstr("nothing lost")));
  const RecordedProcess process = ReadRecording(watcher.recording()).Process(pid);
  EXPECT_EQ(process.dispatches.size(), 100u);
  EXPECT_EQ(process.account.packets_unseen(), 7u);
  EXPECT_EQ(process.account.untimed(), 0u);
}

// Beside the ring of such a queue there is a second one, which tells the firmware what
// a signal wakes. A signal of the collector's would be in one of them only, so
// dispatches without a signal of the program's own have no times.
TEST_F(NewerRuntimeTest, QueuesWithMetadataGetNoSignals) {
  const std::vector<std::string> command = {"hsa_newer", "-n", "200", "--clusters",
                                            "--own-signals"};
  ExpectNative(command, "752");
  WatcherProcess watcher({"--auto"});
  ASSERT_TRUE(watcher.ready());
  std::vector<std::string> environment = Runtime("752");
  const Finished without =
      Child(OnSimgpu(command), {.environment = environment}).Wait();
  EXPECT_FALSE(without.exited_with(0));
  EXPECT_THAT(without.errors, HasSubstr("has a signal")) << "what the program looks at";
  environment.push_back("SIMROCM_METADATA_RINGS=1");
  Child target(OnSimgpu(command), {.environment = environment});
  const pid_t pid = target.pid();
  const Finished end = target.Wait();
  EXPECT_TRUE(end.exited_with(0)) << end.output << end.errors;
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  const RecordedProcess process = ReadRecording(watcher.recording()).Process(pid);
  EXPECT_EQ(process.dispatches.size(), 200u);
  EXPECT_EQ(process.account.untimed(), 200u);
  EXPECT_EQ(process.dropped(), 0u);
  EXPECT_EQ(process.account.packets_unseen(), 0u);
}

// A tool that came before a late attach keeps restoring the tables: the program runs
// on, and if dispatches are not recorded meanwhile, the attach is not a success.
TEST_F(NewerRuntimeTest, TablesThatAreRestored) {
  const char* restores = getenv("ROCATTACH_RESTORES");
  auto child = StartProgram({"hsa_newer", "-t", "4", "-n", "300", "--restores",
                             restores == nullptr ? "300" : restores},
                            Runtime("752"));
  Attacher attach(Path("t.rwa"), {child->pid()});
  EXPECT_TRUE(attach.Attached()) << attach.child().PollOutput();
  Change();
  const Finished target = child->Wait();
  EXPECT_TRUE(target.exited_with(0)) << target.output << target.errors;
  const Finished attacher = attach.child().Wait();
  const Recording recording = ReadRecording(Path("t.rwa"));
  ASSERT_EQ(recording.processes.size(), 1u);
  const RecordedProcess& process = recording.processes[0];
  const uint64_t lost = process.account.packets_unseen() + process.dropped();
  const uint64_t recorded = Named(process, "accumulate");
  EXPECT_GT(recorded, 0u);
  const auto made = static_cast<uint64_t>(Printed(target.output, "after"));
  // Each thread may be at one of its other dispatches when tables are first restored.
  constexpr uint64_t kThreads = 4;
  EXPECT_LE(recorded + lost, made + kThreads);
  // Dispatches after the last restoration are neither recorded nor counted if the
  // program ends before the collector's functions are back.
  EXPECT_EQ(attacher.exited_with(0), recorded == made) << attacher.errors;
}

// Queues are also destroyed while the hooks are missing: their memory is not read.
TEST_F(NewerRuntimeTest, QueuesThatAreDestroyedWhileTablesAreRestored) {
  auto child = StartProgram(
      {"hsa_newer", "-t", "4", "-n", "300", "--restores", "100", "--unseen"},
      Runtime("752"));
  Attacher attach(Path("t.rwa"), {child->pid()});
  EXPECT_TRUE(attach.Attached()) << attach.child().PollOutput();
  Change();
  const Finished target = child->Wait();
  EXPECT_TRUE(target.exited_with(0)) << target.output << target.errors;
  const Finished attacher = attach.child().Wait();
  EXPECT_FALSE(attacher.exited_with(0)) << attacher.errors;
  const Recording recording = ReadRecording(Path("t.rwa"));
  ASSERT_EQ(recording.processes.size(), 1u);
  EXPECT_GT(recording.processes[0].account.packets_unseen(), 0u);
}

// Queues that the program has not destroyed are gone with the runtime all the same.
TEST_F(NewerRuntimeTest, ARuntimeThatLeavesItsTablesAtItsEnd) {
  std::vector<std::string> environment = Runtime("752");
  environment.emplace_back("SIMROCM_RUNTIME_KEEPS_TABLES=1");
  ExpectAllAtWindow({"hsa_newer", "-t", "4", "--counted"}, "752", environment);
}

// According to the driver, two programs compute. One rings a queue that the collector
// does not know, bypassing the runtime: its dispatches are unseen, which is reported.
TEST_F(NewerRuntimeTest, UnseenWorkIsReported) {
  const FakeDriver driver;
  driver.AddGpu(1, 100, 3, 0xa);
  WatcherProcess watcher(
      {"--auto", "--kfd-topology", driver.roots().kfd + "/topology"});
  ASSERT_TRUE(watcher.ready());
  std::vector<std::unique_ptr<Child>> children;
  for (const char* way : {"--device-ring", "--counted"}) {
    std::vector<std::string> command = {"hsa_newer", way,       "--until",
                                        Path("go"),  "--ready", Path(way)};
    if (std::string(way) == "--counted") command.push_back("--ring-directly");
    children.push_back(std::make_unique<Child>(
        OnSimgpu(command),
        Child::Options{.environment = Runtime("752"), .dies_with_us = true}));
    EXPECT_TRUE(Eventually([&] { return std::filesystem::exists(Path(way)); }));
    driver.Write(
        absl::StrCat("kfd/proc/", children.back()->pid(), "/stats_100/cu_occupancy"),
        "4\n");
  }
  EXPECT_TRUE(Eventually([&] {
    (void)watcher.PollEvents("unseen_work");
    return !watcher.Events("unseen_work").empty();
  }));
  Change();
  for (const auto& child : children) EXPECT_TRUE(child->Wait().exited_with(0));
  const Finished end = watcher.Stop();
  const auto told = watcher.Events("unseen_work");
  ASSERT_EQ(told.size(), 1u) << end.output;
  EXPECT_EQ(told[0]["pid"], children[1]->pid());
  EXPECT_THAT(std::string(told[0]["library"]), HasSubstr("libhsa-runtime64"));
  EXPECT_EQ(watcher.Events("summary").back()["unseen_work"], 1);
  const Recording recording = ReadRecording(watcher.recording());
  EXPECT_EQ(recording.Process(children[0]->pid()).account.unseen_work(), "");
  EXPECT_NE(recording.Process(children[1]->pid()).account.unseen_work(), "");
  // The report of the recording says so as well.
  const Finished report =
      Child({ClientPath(), "report", "--json", watcher.recording()}).Wait();
  EXPECT_THAT(report.output, HasSubstr("used GPUs in ways that are not recorded"));
}

}  // namespace
}  // namespace rocattach::testing_support
