// rocattach attach --wait and --attach-children: processes that start their runtime
// after the attach command are entered at their windows. Each is compared with a run
// without a service.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/watch/attacher.h"
#include "tests/integration/watch/harness.h"
#include "tests/integration/watch/terminal.h"
#include "userspace/watch/late/runtime_start.h"

namespace rocattach::testing_support {
namespace {

constexpr char kRuntime[] = "/usr/lib/x86_64-linux-gnu/libhsa-runtime64.so.1";

using nlohmann::json;
using testing::HasSubstr;

class AttachLaterTest : public testing::Test {
 protected:
  void SetUp() override { SKIP_WITHOUT_PRIVILEGES(); }

  std::string Path(const std::string& name) const {
    return directory_.path() + "/" + name;
  }
  void Change() { std::ofstream(Path("go")).put('\n'); }
  // The command of a target on the simulated GPU, quoted for a shell.
  static std::string Words(const std::vector<std::string>& target) {
    return Quoted(OnSimgpu(target));
  }
  // A shell that waits for Change(), and then runs the script.
  std::unique_ptr<Child> StartShell(const std::string& script) {
    std::filesystem::remove(Path("go"));
    return std::make_unique<Child>(
        std::vector<std::string>{"bash", "-c",
                                 absl::StrCat("until [ -e ", Path("go"),
                                              " ]; do sleep 0.05; done; ", script)},
        Child::Options{.dies_with_us = true});
  }
  // hsa_dispatch, which starts its runtime after Change().
  std::unique_ptr<Child> StartSlow(std::vector<std::string> options = {"-n", "100"}) {
    options.insert(options.begin(), "hsa_dispatch");
    options.insert(options.end(), {"--wait-file", Path("go")});
    auto target = std::make_unique<Child>(OnSimgpu(options),
                                          Child::Options{.dies_with_us = true});
    // Waits until it has loaded the library.
    EXPECT_TRUE(Eventually([&] {
      std::ifstream maps(absl::StrCat("/proc/", target->pid(), "/maps"));
      const std::string text(std::istreambuf_iterator<char>(maps), {});
      return text.find("libhsa-runtime64") != std::string::npos &&
             text.find("hsa_dispatch") != std::string::npos;
    }));
    return target;
  }
  static void ExpectAsNative(const Finished& target) {
    const Finished native = RunTarget({"hsa_dispatch", "-n", "100"});
    EXPECT_TRUE(target.exited_with(0)) << target.output << target.errors;
    EXPECT_TRUE(native.exited_with(0)) << native.output << native.errors;
    EXPECT_EQ(Printed(target.output, "increment"), Printed(native.output, "increment"));
    EXPECT_THAT(target.output, HasSubstr("result=ok"));
    EXPECT_EQ(target.errors, native.errors);
  }

  ExecutableDirectory directory_;
};

using WaitTest = AttachLaterTest;

// It is recorded from its first dispatch on, as with --auto.
TEST_F(WaitTest, AProcessThatHasLoadedItsRuntimeIsEnteredAtItsWindow) {
  auto target = StartSlow();
  Attacher attach(Path("t.rwa"), {target->pid()}, {"--wait"});
  ASSERT_TRUE(attach.Saw("waiting")) << attach.child().PollOutput();
  EXPECT_THAT(attach.Events("waiting")[0].value("detail", ""),
              HasSubstr("not started it (hsa_init)"));
  Change();
  ExpectAsNative(target->Wait());
  const Finished attacher = attach.child().Wait();
  EXPECT_TRUE(attacher.exited_with(0)) << attacher.output << attacher.errors;
  const RecordedProcess process = ReadRecording(Path("t.rwa")).Process(target->pid());
  EXPECT_EQ(process.dispatches.size(), 100u);
  EXPECT_EQ(process.verdict.mode(), v1::WINDOW_MODE_HELD);
  EXPECT_EQ(process.verdict.collector().entry_path(), v1::ENTRY_PATH_LIVE_TABLE);
}

// The shell has not loaded the library; the program that it executes does.
TEST_F(WaitTest, AProcessThatLoadsItsRuntimeLaterIsEnteredAtItsWindow) {
  auto target = StartShell("exec " + Words({"hsa_dispatch", "-n", "100"}));
  // A process of the same kind that was not named.
  auto other = StartShell("exec " + Words({"hsa_dispatch", "-n", "100"}));
  Attacher attach(Path("t.rwa"), {target->pid()}, {"--wait"});
  ASSERT_TRUE(attach.Saw("waiting")) << attach.child().PollOutput();
  EXPECT_THAT(attach.Events("waiting")[0].value("detail", ""),
              HasSubstr("has not loaded the HSA runtime"));
  Change();
  ExpectAsNative(target->Wait());
  ExpectAsNative(other->Wait());
  const Finished attacher = attach.child().Wait();
  EXPECT_TRUE(attacher.exited_with(0)) << attacher.output << attacher.errors;
  const Recording recording = ReadRecording(Path("t.rwa"));
  ASSERT_EQ(recording.processes.size(), 1u) << "the other one was left alone";
  EXPECT_EQ(recording.processes[0].process.pid(), static_cast<uint32_t>(target->pid()));
  EXPECT_EQ(recording.processes[0].dispatches.size(), 100u);
}

// As in a new Python environment or an unpacked image, the file did not exist when the
// wait began. It gets a probe as soon as the process has loaded it.
TEST_F(WaitTest, AProcessThatLoadsANewCopyIsEnteredAtItsWindow) {
  auto target = StartShell(
      absl::StrCat("cp -L ", kRuntime, " ", Path("libhsa-runtime64.so.1"),
                   "; export LD_LIBRARY_PATH=", directory_.path(), "; exec ",
                   Words({"hsa_dispatch", "-n", "100", "--wait-msec", "2000"})));
  Attacher attach(Path("t.rwa"), {target->pid()}, {"--wait"});
  ASSERT_TRUE(attach.Saw("waiting")) << attach.child().PollOutput();
  Change();
  ExpectAsNative(target->Wait());
  const Finished attacher = attach.child().Wait();
  EXPECT_TRUE(attacher.exited_with(0)) << attacher.output << attacher.errors;
  const RecordedProcess process = ReadRecording(Path("t.rwa")).Process(target->pid());
  EXPECT_EQ(process.dispatches.size(), 100u);
  EXPECT_EQ(process.verdict.mode(), v1::WINDOW_MODE_HELD);
  EXPECT_EQ(process.verdict.collector().entry_path(), v1::ENTRY_PATH_LIVE_TABLE);
  EXPECT_THAT(process.process.hsa_library(), HasSubstr(directory_.path()));
}

// The same if the process is faster than the probe: it is recorded from the attach on.
TEST_F(WaitTest, AProcessThatStartsANewCopyAtOnceIsEnteredLate) {
  auto target = StartShell(absl::StrCat(
      "cp -L ", kRuntime, " ", Path("libhsa-runtime64.so.1"),
      "; export LD_LIBRARY_PATH=", directory_.path(), "; exec ",
      Words({"hsa_dispatch", "-n", "10", "--rounds", "60", "--sleep-msec", "50"})));
  Attacher attach(Path("t.rwa"), {target->pid()}, {"--wait"});
  ASSERT_TRUE(attach.Saw("waiting")) << attach.child().PollOutput();
  Change();
  const Finished end = target->Wait();
  EXPECT_TRUE(end.exited_with(0)) << end.output << end.errors;
  const Finished attacher = attach.child().Wait();
  EXPECT_TRUE(attacher.exited_with(0)) << attacher.output << attacher.errors;
  const RecordedProcess process = ReadRecording(Path("t.rwa")).Process(target->pid());
  EXPECT_GT(process.dispatches.size(), 0u);
  EXPECT_EQ(process.account.dispatches_seen(), process.dispatches.size());
  EXPECT_THAT(process.process.hsa_library(), HasSubstr(directory_.path()));
}

TEST_F(WaitTest, AProcessThatUsesItsGpuIsEnteredAtOnce) {
  Child target(OnSimgpu({"hsa_dispatch", "-n", "100", "--rounds", "20", "--sleep-msec",
                         "100", "--wait-msec", "0"}),
               {.dies_with_us = true});
  ASSERT_TRUE(Eventually([&] {
    return ReadRuntimeStart(target.pid()).value_or(RuntimeStart::kNotLoaded) ==
           RuntimeStart::kStarted;
  }));
  Attacher attach(Path("t.rwa"), {target.pid()}, {"--wait"});
  EXPECT_TRUE(attach.Attached()) << attach.child().PollOutput();
  EXPECT_TRUE(attach.Events("waiting").empty());
  const Finished end = target.Wait();
  EXPECT_TRUE(end.exited_with(0)) << end.output << end.errors;
  EXPECT_TRUE(attach.child().Wait().exited_with(0));
  EXPECT_EQ(ReadRecording(Path("t.rwa"))
                .Process(target.pid())
                .verdict.collector()
                .entry_path(),
            v1::ENTRY_PATH_LATE);
}

TEST_F(WaitTest, WithoutTheOptionSuchAProcessIsRefused) {
  auto loaded = StartSlow();
  auto shell = StartShell("exit 0");
  for (const auto& [pid, words] :
       {std::pair(loaded->pid(), "not started it (hsa_init)"),
        {shell->pid(), "has not loaded the HSA runtime"}}) {
    const Finished end =
        Child({ClientPath(), "attach", "-p", std::to_string(pid), "-d", Path("out")})
            .Wait();
    EXPECT_TRUE(end.exited_with(1)) << end.errors;
    EXPECT_THAT(end.errors, HasSubstr(words));
    EXPECT_THAT(end.errors, HasSubstr("--wait waits until it does"));
    EXPECT_FALSE(std::filesystem::exists(Path("out")));
  }
  Change();
  ExpectAsNative(loaded->Wait());
  EXPECT_TRUE(shell->Wait().exited_with(0));
}

// The wait ends with the process, after its timeout, or with Ctrl-C.
TEST_F(WaitTest, EndsWithTheProcess) {
  auto shell = StartShell("exit 0");
  Attacher attach(Path("t.rwa"), {shell->pid()}, {"--wait"});
  ASSERT_TRUE(attach.Saw("waiting"));
  Change();
  EXPECT_TRUE(shell->Wait().exited_with(0));
  const Finished end = attach.child().Wait();
  EXPECT_TRUE(end.exited_with(1)) << end.output;
  EXPECT_THAT(end.output, HasSubstr("has ended without starting its HSA runtime"));
}

TEST_F(WaitTest, EndsAfterItsTimeout) {
  auto shell = StartShell("exit 0");
  Attacher attach(Path("t.rwa"), {shell->pid()},
                  {"--wait", "--wait-timeout-msec", "300"});
  const Finished end = attach.child().Wait();
  EXPECT_TRUE(end.exited_with(1)) << end.output;
  EXPECT_THAT(end.output, HasSubstr("\"reason\":\"timeout\""));
  Change();
  EXPECT_TRUE(shell->Wait().exited_with(0));
}

TEST_F(WaitTest, EndsWithCtrlCAtATerminal) {
  auto shell = StartShell("exit 0");
  Terminal terminal({ClientPath(), "attach", "-p", std::to_string(shell->pid()),
                     "--wait", "--collector", CollectorPath(), "-d",
                     directory_.path()});
  EXPECT_THAT(terminal.ReadUntil("waiting for 1 process to use a GPU"),
              HasSubstr("waiting until it does, or Ctrl-C is pressed"));
  terminal.Type("\x03");
  const int status = terminal.Wait();
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1) << terminal.seen();
  EXPECT_THAT(terminal.seen(), HasSubstr("was ended: process "));
  Change();
  EXPECT_TRUE(shell->Wait().exited_with(0));
}

// The duration limits the recording, not the wait.
TEST_F(WaitTest, TheDurationCountsFromTheAttach) {
  auto target = StartSlow({"-n", "10", "--rounds", "60", "--sleep-msec", "50"});
  Attacher attach(Path("t.rwa"), {target->pid()},
                  {"--wait", "--attach-duration-msec", "1000"});
  ASSERT_TRUE(attach.Saw("waiting")) << attach.child().PollOutput();
  usleep(1'500'000);  // longer than the duration
  Change();
  EXPECT_TRUE(attach.Attached()) << attach.child().PollOutput();
  const Finished attacher = attach.child().Wait();
  EXPECT_TRUE(attacher.exited_with(0)) << attacher.output;
  EXPECT_EQ(kill(target->pid(), 0), 0) << "it runs on";
  EXPECT_TRUE(target->Wait().exited_with(0));
  EXPECT_GE(ReadRecording(Path("t.rwa")).Process(target->pid()).dispatches.size(),
            100u);
}

using ChildrenTest = AttachLaterTest;

// Children by fork and exec, by fork alone, and after their parent has ended.
TEST_F(ChildrenTest, ThoseThatStartLaterAreEnteredAtTheirWindows) {
  const std::string script =
      absl::StrCat(Words({"hsa_dispatch", "-n", "50"}), "; ",
                   Words({"fork_then_init", "-c", "3", "-n", "20"}), "; (setsid ",
                   Words({"hsa_dispatch", "-n", "70"}), " &); sleep 1");
  auto native = StartShell(script);
  Change();
  const Finished alone = native->Wait();
  auto shell = StartShell(script);
  Attacher attach(Path("t.rwa"), {shell->pid()}, {"--attach-children"});
  ASSERT_TRUE(attach.Saw("ready")) << attach.child().PollOutput();
  // Not a process of this tree.
  EXPECT_TRUE(RunTarget({"hsa_dispatch", "-n", "10"}).exited_with(0));
  Change();
  const Finished end = shell->Wait();
  EXPECT_TRUE(end.exited_with(0)) << end.errors;
  EXPECT_EQ(Reported(end.output, "dispatches"), Reported(alone.output, "dispatches"));
  EXPECT_EQ(end.errors, alone.errors);
  const Finished attacher = attach.child().Wait();
  EXPECT_TRUE(attacher.exited_with(0)) << attacher.output << attacher.errors;
  const Recording recording = ReadRecording(Path("t.rwa"));
  EXPECT_EQ(recording.processes.size(), 5u);
  size_t dispatches = 0;
  for (const RecordedProcess& process : recording.processes) {
    EXPECT_EQ(process.verdict.state(), v1::WINDOW_STATE_ATTACHED)
        << process.verdict.detail();
    dispatches += process.dispatches.size();
  }
  EXPECT_EQ(static_cast<int64_t>(dispatches), Reported(end.output, "dispatches"));
}

// A process that uses its GPU already is entered late, the next one at its window.
TEST_F(ChildrenTest, TheTreeMayBeOfBothKinds) {
  auto shell = StartShell(Words({"hsa_dispatch", "-n", "50"}) + "; wait");
  // The shell has no other children; this process is a child of the test itself.
  Child busy(OnSimgpu({"fork_again", "--open", "--ready", Path("ready"), "--until",
                       Path("go")}),
             {.dies_with_us = true});
  ASSERT_TRUE(Eventually([&] { return std::filesystem::exists(Path("ready")); }));
  Attacher attach(Path("t.rwa"), {shell->pid(), busy.pid()}, {"--attach-children"});
  ASSERT_TRUE(attach.Attached()) << attach.child().PollOutput();
  Change();
  EXPECT_TRUE(shell->Wait().exited_with(0));
  const Finished end = busy.Wait();
  EXPECT_TRUE(end.exited_with(0)) << end.output << end.errors;
  (void)attach.child().Wait();
  const Recording recording = ReadRecording(Path("t.rwa"));
  const RecordedProcess late = recording.Process(busy.pid());
  EXPECT_EQ(late.verdict.collector().entry_path(), v1::ENTRY_PATH_LATE);
  EXPECT_GE(late.dispatches.size(), 100u);
  const RecordedProcess later = recording.Process("hsa_dispatch");
  EXPECT_EQ(later.verdict.collector().entry_path(), v1::ENTRY_PATH_LIVE_TABLE);
  EXPECT_EQ(later.dispatches.size(), 50u);
}

// The child has the collector in its memory, like the child of a process that was
// entered at its window: it gets the same verdict, and both processes run on unharmed.
TEST_F(ChildrenTest, AForkWithoutExecIsTreatedAsAtTheWindow) {
  const std::vector<std::string> words = {"fork_again",  "--open",  "--ready",
                                          Path("ready"), "--until", Path("go")};
  Change();
  const Finished native = RunTarget(words);
  EXPECT_TRUE(native.exited_with(0)) << native.errors;
  WatcherProcess watcher({"--auto"});
  ASSERT_TRUE(watcher.ready());
  const Finished at_window = RunTarget(words);
  EXPECT_TRUE(at_window.exited_with(0)) << at_window.errors;
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  const RecordedProcess expected =
      ReadRecording(watcher.recording())
          .Process(static_cast<pid_t>(Printed(at_window.output, "child")));

  std::filesystem::remove(Path("go"));
  std::filesystem::remove(Path("ready"));
  Child target(OnSimgpu(words), {.dies_with_us = true});
  ASSERT_TRUE(Eventually([&] { return std::filesystem::exists(Path("ready")); }));
  Attacher attach(Path("t.rwa"), {target.pid()}, {"--attach-children"});
  ASSERT_TRUE(attach.Attached()) << attach.child().PollOutput();
  Change();
  const Finished end = target.Wait();
  EXPECT_TRUE(end.exited_with(0)) << end.output << end.errors;
  EXPECT_THAT(end.output, HasSubstr("result=ok"));
  EXPECT_EQ(end.errors, native.errors);
  (void)attach.child().Wait();
  const Recording recording = ReadRecording(Path("t.rwa"));
  const RecordedProcess child =
      recording.Process(static_cast<pid_t>(Printed(end.output, "child")));
  EXPECT_EQ(child.verdict.state(), expected.verdict.state());
  EXPECT_EQ(child.verdict.reason(), expected.verdict.reason());
  EXPECT_GE(recording.Process(target.pid()).dispatches.size(), 100u);
  EXPECT_EQ(recording.Process(target.pid()).dropped(), 0u);
}

TEST_F(ChildrenTest, ATreeThatUsesNoGpuIsAFailure) {
  auto shell = StartShell("true");
  Attacher attach(Path("t.rwa"), {shell->pid()}, {"--attach-children"});
  ASSERT_TRUE(attach.Saw("ready"));
  Change();
  EXPECT_TRUE(shell->Wait().exited_with(0));
  EXPECT_TRUE(attach.child().Wait().exited_with(1));
}

}  // namespace
}  // namespace rocattach::testing_support
