// The programs of the manual page, and programs for ROCProfiler that were ported.
#include "tests/integration/library/sessions_library_fixture.h"

namespace rocattach::testing_support {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

class SessionsSamplesTest : public SessionsLibraryTest {
 protected:
  // Returns the first line of the output; the other lines must look like it.
  static std::string FirstLine(const Finished& program) {
    return program.output.substr(0, program.output.find('\n'));
  }
  static std::vector<std::string> Markers(int steps) {
    return {SimrocmRunPath(), TargetPath("hip_markers"), "-n", std::to_string(steps)};
  }
  // Runs a sample beside a process once the process is attached.
  Finished RunSample(const char* source) {
    const std::string program = Compile(source);
    WatcherProcess watcher(Watch());
    EXPECT_TRUE(watcher.ready());
    Child target(Target("600"));
    EXPECT_TRUE(Eventually([&] { return !Status()["processes"].empty(); }));
    const Finished sample =
        Child({program, std::to_string(target.pid())}, Environment()).Wait();
    EXPECT_TRUE(sample.exited_with(0)) << sample.errors;
    ExpectEnd(&target, &watcher);
    return sample;
  }
};

TEST_F(SessionsSamplesTest, Dispatches) {
  EXPECT_THAT(FirstLine(RunSample("samples/dispatches.c")),
              MatchesRegex("[0-9]+ ns on GPU 0 \\(gfx90a.*\\): [A-Za-z_].*"));
}

TEST_F(SessionsSamplesTest, Counters) {
  EXPECT_THAT(FirstLine(RunSample("samples/counters.c")),
              MatchesRegex("[A-Za-z_].*: SQ_WAVES=64 GRBM_COUNT=1640"));
}

TEST_F(SessionsSamplesTest, Sampler) {
  EXPECT_THAT(FirstLine(RunSample("samples/sampler.c")),
              MatchesRegex("GPU 0, [0-9]+ ns: SQ_WAVES=[0-9]+ GRBM_COUNT=[0-9]+"));
}

TEST_F(SessionsSamplesTest, Device) {
  const std::string program = Compile("samples/device.c");
  WatcherProcess watcher(Watch());
  ASSERT_TRUE(watcher.ready());
  Child target(Target("600"));
  EXPECT_TRUE(Eventually([&] { return !Status()["processes"].empty(); }));
  const Finished sample = Child({program}, Environment()).Wait();
  EXPECT_TRUE(sample.exited_with(0)) << sample.errors;
  EXPECT_THAT(FirstLine(sample), MatchesRegex("SQ_WAVES=[0-9]+ GRBM_COUNT=[0-9]+"));
  ExpectEnd(&target, &watcher);
}

// Without pauses the process would make its calls within a moment; it pauses between
// steps, so that the sample starts in time.
TEST_F(SessionsSamplesTest, ApiCalls) {
  const std::string program = Compile("samples/api_calls.c");
  WatcherProcess watcher(Watch());
  ASSERT_TRUE(watcher.ready());
  std::vector<std::string> waits = Markers(300);
  waits.insert(waits.end(), {"-s", "30"});
  Child target(waits);
  EXPECT_TRUE(Eventually([&] { return !Status()["processes"].empty(); }));
  // On a busy machine a second may pass between two steps, or between two calls.
  std::string output;
  const auto has = [&](const char* text) {
    return output.find(text) != std::string::npos;
  };
  for (int i = 0; i < 30 && !(has("step ") && has("hipLaunchKernel : ")); ++i) {
    const Finished sample =
        Child({program, std::to_string(target.pid())}, Environment()).Wait();
    EXPECT_TRUE(sample.exited_with(0)) << sample.errors;
    output += sample.output;
  }
  EXPECT_THAT(output, HasSubstr("hipLaunchKernel : "));
  EXPECT_THAT(output, HasSubstr("roctxRangePushA step "));
  ExpectEnd(&target, &watcher);
}

TEST_F(SessionsSamplesTest, PortedProfiling) {
  const Finished port = RunSample("integration/library/ports/profiling.c");
  EXPECT_GT(Reported(port.output, "first"), 0);
  EXPECT_GT(Reported(port.output, "second"), 0);
  EXPECT_EQ(Reported(port.output, "wrong"), 0);
}

TEST_F(SessionsSamplesTest, PortedTracing) {
  const std::string program = Compile("integration/library/ports/tracing.c");
  WatcherProcess watcher(Watch());
  ASSERT_TRUE(watcher.ready());
  Child port({program, "8"}, Environment());
  ASSERT_TRUE(Eventually([&] { return !port.PollOutput().empty(); }));
  Child target(Markers(8));
  const Finished result = port.Wait();
  EXPECT_TRUE(result.exited_with(0)) << result.errors;
  EXPECT_EQ(Reported(result.output, "launches"), 8) << result.output;
  EXPECT_EQ(Reported(result.output, "pushes"), 8);
  EXPECT_EQ(Reported(result.output, "texts"), 8);
  ExpectEnd(&target, &watcher);
}

TEST_F(SessionsSamplesTest, PortedDevice) {
  const std::string program = Compile("integration/library/ports/device.c");
  WatcherProcess watcher(Watch());
  ASSERT_TRUE(watcher.ready());
  Child target(Target("600"));
  const Finished port = Child({program}, Environment()).Wait();
  EXPECT_TRUE(port.exited_with(0)) << port.output << port.errors;
  EXPECT_GT(Reported(port.output, "waves"), 0);
  EXPECT_EQ(Reported(port.output, "wrong"), 0);
  ExpectEnd(&target, &watcher);
}

}  // namespace
}  // namespace rocattach::testing_support
