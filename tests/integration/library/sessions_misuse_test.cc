// Programs and services that misbehave, and what the C API returns then.
#include <sys/types.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>

#include "tests/integration/library/sessions_library_fixture.h"

namespace rocattach::testing_support {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class SessionsMisuseTest : public SessionsLibraryTest {
 protected:
  static std::string Misuse() { return Compile("integration/library/misuse.c"); }
  std::string Program() const override {
    return Misuse().empty() ? "" : SessionsLibraryTest::Program();
  }
  static void AwaitOutput(Child* program, const std::string& text) {
    for (int i = 0; i < 6000; ++i) {
      if (program->PollOutput().find(text) != std::string::npos) return;
      usleep(20'000);
    }
    ADD_FAILURE() << "no '" << text << "' in: " << program->PollOutput();
  }
};

TEST_F(SessionsMisuseTest, ForkedChildrenGetAStatusAndTheParentGoesOn) {
  WatcherProcess watcher(Watch());
  ASSERT_TRUE(watcher.ready());
  Child target(Target("600"));
  const Finished program =
      Child({Misuse(), "forked", std::to_string(target.pid())}, Environment()).Wait();
  EXPECT_TRUE(program.exited_with(0)) << program.errors;
  EXPECT_EQ(Reported(program.output, "more"), 1);
  // A child of the program lives on, but the session has ended.
  ExpectSessionOver();
  ExpectEnd(&target, &watcher);
}

TEST_F(SessionsMisuseTest, CallbacksThatCallBack) {
  const auto outcome = [&] {
    WatcherProcess watcher(Watch());
    EXPECT_TRUE(watcher.ready());
    Child target(Target("600"));
    const Finished program =
        Child({Misuse(), "callbacks", std::to_string(target.pid())}, Environment())
            .Wait();
    ExpectEnd(&target, &watcher);
    return program;
  }();
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.errors;
  EXPECT_EQ(Reported(outcome.output, "nested"), 1);
}

TEST_F(SessionsMisuseTest, AKilledServiceIsNoticedAndARestartedOneIsFound) {
  auto watcher = std::make_unique<WatcherProcess>(Watch());
  ASSERT_TRUE(watcher->ready());
  Child program({Misuse(), "lost"}, Environment());
  AwaitOutput(&program, "started");
  watcher->Kill();
  AwaitOutput(&program, "lost: ");
  AwaitOutput(&program, "refused: ");
  watcher = std::make_unique<WatcherProcess>(Watch());
  ASSERT_TRUE(watcher->ready());
  AwaitOutput(&program, "started again");
  Child target(Target("300"));
  const Finished result = program.Wait();
  EXPECT_TRUE(result.exited_with(0)) << result.output << result.errors;
  EXPECT_THAT(result.output, Not(HasSubstr("ERROR: ERROR")));
  EXPECT_EQ(Reported(result.output, "losses"), 1);
  EXPECT_EQ(Reported(result.output, "status"), -1);
  EXPECT_EQ(Reported(result.output, "check"), -1);
  EXPECT_EQ(Reported(result.output, "refused"), 1);
  EXPECT_GE(Reported(result.output, "records"), 100);
  ExpectEnd(&target, watcher.get());
}

TEST_F(SessionsMisuseTest, AStoppedServiceBlocksNoCall) {
  WatcherProcess watcher(Watch());
  ASSERT_TRUE(watcher.ready());
  Child program({Misuse(), "silent"}, Environment());
  AwaitOutput(&program, "started");
  kill(watcher.pid(), SIGSTOP);
  program.Signal(SIGUSR1);
  AwaitOutput(&program, "slowest=");
  kill(watcher.pid(), SIGCONT);
  program.Signal(SIGUSR1);
  const Finished result = program.Wait();
  EXPECT_TRUE(result.exited_with(0)) << result.output << result.errors;
  EXPECT_LT(Reported(result.output, "slowest"), 15);
  EXPECT_THAT(result.output, HasSubstr("check=-1 "));
  EXPECT_THAT(result.output, HasSubstr("flush=-18 "));
  EXPECT_THAT(result.output, HasSubstr("filter=-1 "));
  EXPECT_THAT(result.output, HasSubstr("terminate=-1 "));
  EXPECT_THAT(result.output, HasSubstr("\nstart=-1 "));
  // Without an answer from the service nothing is done, and no call says that it was.
  for (const char* call :
       {"add_process", "device_start", "device_poll", "device_stop"}) {
    EXPECT_THAT(result.output, HasSubstr(std::string("\n") + call + "=-"));
  }
  for (const char* call : {"device_create", "device_destroy", "destroy", "finalize"}) {
    EXPECT_THAT(result.output, HasSubstr(std::string("\n") + call + "="));
  }
  EXPECT_EQ(Reported(result.output, "again"), 0);
  EXPECT_TRUE(watcher.Stop().exited_with(0));
}

// Sessions of programs and device sessions share one sequence of numbers.
TEST_F(SessionsMisuseTest, NoSessionNumberAppearsTwice) {
  const RecordedProcess process = RunBeside("device", "300").process;
  std::map<uint64_t, int> starts;
  for (const v1::SessionEvent& event : process.sessions) {
    starts[event.session()] += event.what() == v1::SessionEvent::STARTED;
  }
  EXPECT_GE(starts.size(), 2u);
  for (const auto& [session, count] : starts) EXPECT_EQ(count, 1) << session;
}

uint64_t ResidentKib(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) return std::strtoull(line.c_str() + 6, nullptr, 10);
  }
  return 0;
}

// ROCATTACH_SESSION_CYCLES sets the number; 100,000 take some 12 minutes.
TEST_F(SessionsMisuseTest, ManySessionsDoNotIncreaseMemoryUse) {
  const char* wanted = std::getenv("ROCATTACH_SESSION_CYCLES");
  const int cycles = wanted == nullptr ? 300 : std::atoi(wanted);
  WatcherProcess watcher(Watch());
  ASSERT_TRUE(watcher.ready());
  Child target(Target("1000000"));
  // The first sessions fill what has a limit: plans that are kept, buffers, arenas.
  const auto run = [&](int count) {
    const Finished program =
        Child({Misuse(), "cycles", std::to_string(target.pid()), std::to_string(count)},
              Environment())
            .Wait();
    EXPECT_TRUE(program.exited_with(0)) << program.errors;
    return ResidentKib(watcher.pid());
  };
  const uint64_t before = run(200);
  const uint64_t after = run(cycles);
  RecordProperty("kib_before", std::to_string(before));
  RecordProperty("kib_after", std::to_string(after));
  std::printf("resident: %lu KiB after 200 sessions, %lu KiB after %d more\n", before,
              after, cycles);
  EXPECT_LT(after, before + 4096);
  target.Signal(SIGTERM);
  target.Wait();
  EXPECT_TRUE(watcher.Stop().exited_with(0));
}

}  // namespace
}  // namespace rocattach::testing_support
