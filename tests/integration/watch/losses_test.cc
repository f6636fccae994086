// Events that the kernel side could not deliver, and windows that it let through by
// itself, are metrics while the service runs.
#include <gtest/gtest.h>
#include <signal.h>

#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tests/integration/watch/harness.h"
#include "tests/unit/telemetry/http_client.h"

namespace rocattach::testing_support {
namespace {

class LossesTest : public testing::Test {
 protected:
  void SetUp() override { SKIP_WITHOUT_PRIVILEGES(); }

  // The value of a series; -1 if it is not there.
  static double Value(WatcherProcess* watcher, const std::string& series) {
    const auto events = watcher->Events("ready");
    if (events.empty()) return -1;
    const auto address = ParseListenAddress(events[0].value("metrics", ""));
    if (!address.ok()) return -1;
    const std::string page = Get(*address, "/metrics");
    const size_t at = page.find("\n" + series + " ");
    double value = -1;
    if (at == std::string::npos) return -1;
    const size_t begin = at + series.size() + 2;
    (void)absl::SimpleAtod(page.substr(begin, page.find('\n', begin) - begin), &value);
    return value;
  }
};

// More kernel events occur than fit into the buffers while the service is stopped.
TEST_F(LossesTest, LostEventsAreMetrics) {
  // No budgets: they would suppress most windows.
  WatcherProcess watcher({"--auto", "--metrics-listen", "0", "--hold-timeout-msec", "1",
                          "--windows-per-second", "0", "--processes-per-user", "0"});
  ASSERT_TRUE(watcher.ready());
  EXPECT_EQ(Value(&watcher, "rocattach_events_lost_total{source=\"bpf\"}"), 0);
  EXPECT_EQ(Value(&watcher, "rocattach_events_lost_total{source=\"mmap\"}"), 0);
  kill(watcher.pid(), SIGSTOP);
  const Finished storm = Child({TargetPath("hsa_init_storm"), "-c", "6000"}).Wait();
  const Finished mappings =
      Child({"python3", "-c",
             "import mmap, sys\n"
             "with open(sys.executable, 'rb') as file:\n"
             "  for _ in range(40000):\n"
             "    mmap.mmap(file.fileno(), 4096, mmap.MAP_PRIVATE,\n"
             "              mmap.PROT_READ | mmap.PROT_EXEC).close()\n"})
          .Wait();
  kill(watcher.pid(), SIGCONT);
  EXPECT_TRUE(storm.exited_with(0)) << storm.errors;
  EXPECT_TRUE(mappings.exited_with(0)) << mappings.errors;
  EXPECT_TRUE(Eventually([&] {
    return Value(&watcher, "rocattach_events_lost_total{source=\"mmap\"}") > 0;
  }));
  const double lost = Value(&watcher, "rocattach_events_lost_total{source=\"bpf\"}");
  EXPECT_GT(lost, 0);
  // The summary adds dropped messages to lost events.
  const double unheard = Value(&watcher, "rocattach_messages_dropped_total");
  EXPECT_EQ(Value(&watcher, "rocattach_windows_unclaimed_total"), 0);
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  const Recording recording = ReadRecording(watcher.recording());
  ASSERT_TRUE(recording.summary.has_value());
  EXPECT_EQ(static_cast<double>(recording.summary->events_lost()), lost + unheard);
}

}  // namespace
}  // namespace rocattach::testing_support
