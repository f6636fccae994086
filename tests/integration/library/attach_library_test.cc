// librocattach with the real program, on processes that launch on the simulated GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/integration/library/attach_fixture.h"
#include "tests/places.h"

namespace rocattach::testing_support {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(AttachLibraryTest, EveryLaterDispatchIsRecorded) {
  LateTarget target({"-t", "2"});
  ASSERT_TRUE(target.ready());
  auto program = Attached(target, {"sleep=3000", "detach=" + target.text()});
  target.ExpectEnd();
  const Finished run = program->Wait();
  EXPECT_THAT(run.output, HasSubstr("detach " + target.text() + ": 0"));
  ExpectEveryLaterDispatch(File(), target.pid(), 2 * LateTarget::kAfter);
}

TEST_F(AttachLibraryTest, ReattachedAndDetachedAnyNumberOfTimes) {
  LateTarget target;
  ASSERT_TRUE(target.ready());
  const std::string attach = "attach=" + target.text(),
                    detach = "detach=" + target.text();
  const Finished run =
      Run({attach, attach, detach, detach, attach, detach, attach, "detach=0", detach});
  std::istringstream lines(run.output);
  std::vector<int> statuses;
  for (std::string line; std::getline(lines, line);) {
    statuses.push_back(atoi(line.c_str() + line.find(": ") + 2));
  }
  EXPECT_THAT(statuses, testing::ElementsAre(0, 2, 0, 2, 0, 0, 0, 0, 2)) << run.errors;
  auto program = Attached(target, {"sleep=3000", detach});
  target.ExpectEnd();
  program->Wait();
  EXPECT_EQ(RecordingsIn(directory_.path()).size(), 4u);
  ExpectEveryLaterDispatch(File("-3"), target.pid(), LateTarget::kAfter);
}

TEST_F(AttachLibraryTest, SeveralProcessesAtTheSameTime) {
  LateTarget first, second;
  ASSERT_TRUE(first.ready() && second.ready());
  const Finished run = Run({"threads=" + first.text() + "," + second.text()});
  for (const LateTarget* target : {&first, &second}) {
    EXPECT_THAT(run.output, HasSubstr("attach " + target->text() + ": 0"))
        << run.errors;
    EXPECT_THAT(run.output, HasSubstr("detach " + target->text() + ": 0"))
        << run.errors;
  }
  first.ExpectEnd();
  second.ExpectEnd();
}

TEST_F(AttachLibraryTest, ProcessesThatCannotBeAttachedTo) {
  Child idle({"sleep", "1000"});
  EXPECT_EQ(StatusOfAttach(idle.pid()), 1) << "without the runtime";
  EXPECT_EQ(StatusOfAttach(0), 2);
  EXPECT_EQ(StatusOfAttach(-1), 2);
  EXPECT_EQ(StatusOfAttach(4194303), 6);
  EXPECT_EQ(StatusOfAttach(2), 2) << "a thread of the kernel";
  const int init = StatusOfAttach(1);
  EXPECT_TRUE(init == 1 || init == 5) << init;
  const Finished self =
      Child(
          {"sh", "-c", "exec " + Quoted(ROCATTACH_TEST_ATTACH_PROGRAM) + " attach=$$"},
          Environment())
          .Wait();
  EXPECT_THAT(self.output, HasSubstr(": 2 "));
  EXPECT_EQ(kill(idle.pid(), 0), 0);
  idle.Signal(SIGKILL);
  idle.Wait();
}

TEST_F(AttachLibraryTest, AThreadAZombieAndATracedProcess) {
  LateTarget target;
  ASSERT_TRUE(target.ready());
  pid_t thread = 0;
  for (const auto& task :
       std::filesystem::directory_iterator("/proc/" + target.text() + "/task")) {
    const pid_t tid = atoi(task.path().filename().c_str());
    if (tid != target.pid()) thread = tid;
  }
  ASSERT_NE(thread, 0);
  EXPECT_EQ(StatusOfAttach(thread), 2);
  ASSERT_EQ(ptrace(PTRACE_SEIZE, target.pid(), 0, 0), 0);
  const int traced = StatusOfAttach(target.pid());
  EXPECT_TRUE(traced == 0 || traced == 5) << traced;
  EXPECT_EQ(ptrace(PTRACE_INTERRUPT, target.pid(), 0, 0), 0);
  EXPECT_EQ(waitpid(target.pid(), nullptr, __WALL), target.pid());
  EXPECT_EQ(ptrace(PTRACE_DETACH, target.pid(), 0, 0), 0);
  const pid_t zombie = fork();
  if (zombie == 0) _exit(0);
  siginfo_t info;
  waitid(P_PID, static_cast<id_t>(zombie), &info, WEXITED | WNOWAIT);
  EXPECT_EQ(StatusOfAttach(zombie), 2);
  waitpid(zombie, nullptr, 0);
  target.ExpectEnd();
}

// Without privileges a program can attach neither to a process of another user, nor,
// since it may not load BPF programs, to one of its own user.
TEST_F(AttachLibraryTest, WithoutPrivileges) {
  if (!EverybodyReaches(ROCATTACH_TEST_ATTACH_PROGRAM)) {
    GTEST_SKIP() << "the build cannot be reached by other users";
  }
  constexpr uid_t kNobody = 65534;
  std::filesystem::permissions(directory_.path(), std::filesystem::perms::all);
  Child::Options options = Environment();
  options.uid = kNobody;
  LateTarget target;
  ASSERT_TRUE(target.ready());
  const std::string files = directory_.path() + "/";
  Child own({SimgpuRunPath(), TargetPath("hip_late"), "--idle", "--until", files + "go",
             "--ready", files + "ready"},
            options);
  ASSERT_TRUE(Eventually([&] { return std::filesystem::exists(files + "ready"); }));
  const Finished run = Child({ROCATTACH_TEST_ATTACH_PROGRAM, "attach=" + target.text(),
                              "attach=" + std::to_string(own.pid())},
                             options)
                           .Wait();
  EXPECT_THAT(run.output, HasSubstr("attach " + target.text() + ": 5 "));
  EXPECT_THAT(run.output, HasSubstr("attach " + std::to_string(own.pid()) + ": 5 "));
  EXPECT_THAT(run.errors, HasSubstr("CAP_BPF"));
  std::ofstream{files + "go"};
  EXPECT_TRUE(own.Wait().exited_with(0));
  target.ExpectEnd();
}

TEST_F(AttachLibraryTest, ForeignToolLibraries) {
  LateTarget target;
  ASSERT_TRUE(target.ready());
  const auto with = [&](const std::string& library) {
    return StatusOfAttach(target.pid(), {"ROCPROF_ATTACH_TOOL_LIBRARY=" + library});
  };
  EXPECT_EQ(with("librocprofiler-sdk-tool.so"), 1) << "it does not wait for tools";
  EXPECT_EQ(with(CollectorPath()), 0);
  target.ExpectEnd();
}

TEST_F(AttachLibraryTest, TheHostDiesAndTheTargetRunsOn) {
  LateTarget target;
  ASSERT_TRUE(target.ready());
  auto program = Attached(target, {"sleep=100000"});
  EXPECT_FALSE(RecordersOf(target.pid()).empty());
  program->Signal(SIGKILL);
  program->Wait();
  EXPECT_TRUE(Eventually([&] { return RecordersOf(target.pid()).empty(); }));
  EXPECT_TRUE(target.Runs());
  EXPECT_TRUE(ReadRecording(File()).ended) << "the file is complete";
  target.ExpectEnd();
}

// Without the library: a program runs `rocattach` with a pipe.
TEST_F(AttachLibraryTest, TheProgramDetachesWhenItsInputEnds) {
  LateTarget target;
  ASSERT_TRUE(target.ready());
  const std::string events = directory_ / "events";
  const std::string until_ready =
      "until grep -qs '\"event\":\"ready\"' '" + events + "'; do sleep 0.1; done";
  const Finished run =
      Child({"sh", "-c",
             "{ echo ignored; " + until_ready + "; } | '" + ClientPath() +
                 "' attach --json --detach-on-eof -d " + directory_.path() +
                 " -o run -p 2,4194303," + target.text() + " > '" + events +
                 "'; status=$?; cat '" + events + "'; exit $status"})
          .Wait();
  EXPECT_TRUE(run.exited_with(1)) << run.output;
  EXPECT_THAT(run.output, HasSubstr("\"pid\":2,\"reason\":\"not-a-process\""));
  EXPECT_THAT(run.output, HasSubstr("\"pid\":4194303,\"reason\":\"no-such-process\""));
  const size_t ready = run.output.find("{\"event\":\"ready\"}\n");
  EXPECT_LT(run.output.find("\"event\":\"attached\""), ready);
  EXPECT_LT(ready, run.output.find("\"event\":\"end\""));
  target.ExpectEnd();
}

TEST_F(AttachLibraryTest, AHostThatForksClosesAndIsInterrupted) {
  LateTarget target;
  ASSERT_TRUE(target.ready());
  Child::Options options = Environment();
  options.new_session = true;  // SIGINT goes to its process group only
  const Finished run = Child({ROCATTACH_TEST_ATTACH_PROGRAM, "count-children",
                              "attach=" + target.text(), "wait", "interrupt", "close",
                              "sleep=300", "detach=" + target.text(), "wait"},
                             options)
                           .Wait();
  EXPECT_THAT(run.output, HasSubstr("detach " + target.text() + ": 0")) << run.errors;
  EXPECT_THAT(run.output, Not(HasSubstr("a child")));
  EXPECT_THAT(run.output, HasSubstr("children: 0"));
  // A child of the host does not keep the recording alive.
  Child parent({"sh", "-c",
                "sleep 100 | " + Quoted(ROCATTACH_TEST_ATTACH_PROGRAM) +
                    " ignore-children attach=" + target.text() + " fork abort"},
               Environment());
  EXPECT_TRUE(Eventually([&] {
    return parent.PollOutput().find("child-detach 0: 0") != std::string::npos;
  }));
  EXPECT_TRUE(Eventually([&] { return RecordersOf(target.pid()).empty(); }));
  parent.Signal(SIGKILL);
  target.ExpectEnd();
}

TEST_F(AttachLibraryTest, ATargetThatEndsFirst) {
  LateTarget target;
  ASSERT_TRUE(target.ready());
  auto program = Attached(target, {"sleep=2500", "detach=" + target.text()});
  target.ExpectEnd();
  const Finished run = program->Wait();
  EXPECT_THAT(run.output, HasSubstr("detach " + target.text() + ": 0")) << run.errors;
}

// The root launches, one child launches, one starts a program that launches later, and
// one has nothing to do with a GPU.
TEST_F(AttachLibraryTest, ATreeIsOneRecording) {
  const std::string files = directory_.path() + "/";
  const auto late = [&](const std::string& name) {
    return Quoted(SimgpuRunPath()) + " " + Quoted(TargetPath("hip_late")) +
           " --idle -m 500 --until " + files + "go --ready " + files + name;
  };
  Child root({"sh", "-c",
              "sleep 1000 & echo $! && { " + late("a") +
                  " >/dev/null & }; { until [ -e " + files +
                  "go ]; do sleep 0.05; done; " + Quoted(SimgpuRunPath()) + " " +
                  Quoted(TargetPath("hsa_dispatch")) + " -n 30 >/dev/null; } & exec " +
                  late("b")});
  ASSERT_TRUE(Eventually([&] {
    return std::filesystem::exists(files + "a") && std::filesystem::exists(files + "b");
  }));
  const pid_t idle = atoi(root.PollOutput().c_str());
  const std::string text = std::to_string(root.pid());
  Child program({ROCATTACH_TEST_ATTACH_PROGRAM, "tree=" + text, "sleep=3000",
                 "detach-tree=" + text, "detach-tree=" + text},
                Environment());
  EXPECT_TRUE(Eventually([&] { return !program.PollOutput().empty(); }));
  std::ofstream{files + "go"};
  const Finished run = program.Wait();
  EXPECT_EQ(run.output, "tree " + text + ": 0 ROCATTACH_STATUS_SUCCESS\ndetach-tree " +
                            text + ": 0 ROCATTACH_STATUS_SUCCESS\ndetach-tree " + text +
                            ": 2 ROCATTACH_STATUS_ERROR_INVALID_ARGUMENT\n")
      << run.errors;
  EXPECT_THAT(run.errors, HasSubstr("it is attached to when it does"));
  kill(idle, SIGKILL);
  EXPECT_TRUE(root.Wait().exited_with(0));
  const Recording recording = ReadRecording(File());
  ASSERT_EQ(recording.processes.size(), 3u);
  for (const RecordedProcess& process : recording.processes) {
    if (process.process.comm() == "hsa_dispatch") {
      EXPECT_EQ(process.dispatches.size(), 30u);
    } else {
      EXPECT_EQ(DispatchesOf(process, "After"), 500u);
    }
  }
}

TEST_F(AttachLibraryTest, ATreeNeedsItsRoot) {
  Child root({"sh", "-c", "sleep 1000; true"});
  const Finished run = Run({"tree=" + std::to_string(root.pid()), "detach-tree=0"});
  EXPECT_THAT(run.output, HasSubstr(": 1 ROCATTACH_STATUS_ERROR\n"));
  EXPECT_TRUE(RecordersOf(root.pid()).empty());
  root.Signal(SIGKILL);
}

}  // namespace
}  // namespace rocattach::testing_support
