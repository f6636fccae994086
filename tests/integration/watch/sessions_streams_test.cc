// HIP streams recorded by the real service: a real HIP program on three streams, whose
// calls the simulated SDK reports.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/integration/watch/session_truth.h"
#include "tests/integration/watch/sessions_fixture.h"
#include "userspace/abi/hip_stream.h"

namespace rocattach::testing_support {
namespace {

using ::testing::HasSubstr;

constexpr size_t kBatches = 60;
constexpr uint32_t kStreams = 3;

class SessionsStreamsTest : public SessionsTest {
 protected:
  static std::vector<std::string> Pipeline() {
    return OnSimrocm({}, {"hip_pipeline", "-n", absl::StrCat(kBatches), "--streams",
                          absl::StrCat(kStreams), "--elements", "256"});
  }

  // Runs the program natively, and then under a service with these options.
  RecordedProcess Record(const std::vector<std::string>& options) {
    const Finished alone = Child(Pipeline()).Wait();
    EXPECT_TRUE(alone.exited_with(0)) << alone.errors;
    WatcherProcess watcher(Watch(options));
    EXPECT_TRUE(watcher.ready());
    Child target(Pipeline());
    const pid_t pid = target.pid();
    const Finished result = target.Wait();
    EXPECT_TRUE(result.exited_with(0)) << result.output << result.errors;
    EXPECT_EQ(result.output, alone.output);
    EXPECT_EQ(result.errors, "");
    EXPECT_TRUE(watcher.Stop().exited_with(0));
    // The service's file is deleted with its directory.
    recording_ = directory_.path() + "/run.rwa";
    std::filesystem::copy_file(watcher.recording(), recording_);
    const Recording recording = ReadRecording(recording_);
    EXPECT_TRUE(recording.damage.empty());
    RecordedProcess process = recording.Process(pid);
    EXPECT_EQ(process.verdict.state(), v1::WINDOW_STATE_ATTACHED)
        << process.verdict.detail();
    EXPECT_EQ(process.dropped(), 0u);
    return process;
  }

  std::string recording_;
};

// The streams of one kernel's dispatches, in the order of the program.
std::vector<uint32_t> StreamsOf(const RecordedProcess& process,
                                const std::string& kernel) {
  std::vector<rocattach_dispatch> dispatches;
  for (const rocattach_dispatch& d : process.dispatches) {
    const auto found = process.kernels.find(d.kernel_id);
    if (found != process.kernels.end() &&
        found->second.name().find(kernel) != std::string::npos) {
      dispatches.push_back(d);
    }
  }
  std::sort(dispatches.begin(), dispatches.end(), [](const auto& a, const auto& b) {
    return a.correlation_id < b.correlation_id;
  });
  std::vector<uint32_t> streams;
  for (const rocattach_dispatch& d : dispatches) streams.push_back(HipStreamIn(d));
  return streams;
}

// Each batch is scaled on one stream, shifted and summed on the next.
void ExpectTheProgramsStreams(const RecordedProcess& process) {
  const std::vector<uint32_t> scale = StreamsOf(process, "Scale");
  const std::vector<uint32_t> shift = StreamsOf(process, "Shift");
  const std::vector<uint32_t> sum = StreamsOf(process, "Sum");
  ASSERT_EQ(scale.size(), kBatches);
  ASSERT_EQ(shift.size(), kBatches);
  ASSERT_EQ(sum.size(), kBatches);
  const std::set<uint32_t> numbers(scale.begin(), scale.end());
  // 1 would be the default stream, which the program does not use.
  EXPECT_EQ(numbers, (std::set<uint32_t>{2, 3, 4}));
  for (size_t i = 0; i < kBatches; ++i) {
    EXPECT_EQ(scale[i], scale[i % kStreams]) << i;
    EXPECT_EQ(shift[i], scale[(i + 1) % kStreams]) << i;
    EXPECT_EQ(sum[i], shift[i]) << i;
  }
}

TEST_F(SessionsStreamsTest, StreamsOfDispatchesAndCopiesAreInEveryOutput) {
  const RecordedProcess process = Record({"--hip-trace"});
  ExpectTheProgramsStreams(process);
  std::map<std::pair<int, uint32_t>, size_t> copies;
  for (const rocattach_copy& copy : process.copies) {
    ++copies[{copy.direction, copy.hip_stream}];
  }
  EXPECT_EQ(copies.size(), 2 * kStreams) << "no copy without a stream";
  for (const auto& [key, count] : copies) {
    const bool to_device = key.first == ROCATTACH_COPY_HOST_TO_DEVICE;
    EXPECT_EQ(count, (to_device ? 1 : 2) * kBatches / kStreams);
  }
  const std::string out = directory_.path() + "/out";
  const Finished converted =
      Child({ClientPath(), "convert", recording_, "-f", "csv", "-d", out, "-o", "run"})
          .Wait();
  ASSERT_TRUE(converted.exited_with(0)) << converted.errors;
  for (const auto& [stem, column] :
       {std::pair("kernel_trace", 3), std::pair("memory_copy_trace", 2)}) {
    std::ifstream file(absl::StrCat(out, "/run_", stem, ".csv"));
    std::string line;
    ASSERT_TRUE(std::getline(file, line)) << stem;
    EXPECT_THAT(line, HasSubstr("\"Stream_Id\""));
    std::map<std::string, size_t> seen;
    while (std::getline(file, line)) {
      const std::vector<std::string> cells = absl::StrSplit(line, ',');
      ++seen[cells[static_cast<size_t>(column)]];
    }
    EXPECT_EQ(seen.size(), kStreams) << stem;
    EXPECT_EQ(seen.count("0"), 0u) << stem;
  }
  const std::string dump =
      Child({ClientPath(), "dump", "--json", recording_}).Wait().output;
  EXPECT_THAT(dump, HasSubstr("\"hip_stream\":3"));
}

// In a session of counters, HIP's functions are handed over as well.
TEST_F(SessionsStreamsTest, StreamsOfMeasuredDispatchesAreRecorded) {
  const RecordedProcess process = Record({"--pmc", "SQ_WAVES"});
  EXPECT_FALSE(process.counters.empty());
  ExpectTheProgramsStreams(process);
}

// There are more streams than queues: two threads submit each other's dispatches, in
// neither's order, while the dispatches of a GPU are measured one at a time.
TEST_F(SessionsStreamsTest, ThreadsThatShareQueuesGoOnWhileDispatchesAreMeasured) {
  constexpr size_t kMany = 600;
  WatcherProcess watcher(Watch({"--pmc", "SQ_WAVES"}));
  ASSERT_TRUE(watcher.ready());
  Child target(OnSimrocm({}, {"hip_pipeline", "-n", absl::StrCat(kMany), "-t", "2",
                              "--streams", "4", "--elements", "256"}));
  const pid_t pid = target.pid();
  const Finished result = target.Wait();
  ASSERT_TRUE(result.exited_with(0)) << result.output << result.errors;
  EXPECT_THAT(result.output, HasSubstr("result=ok"));
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  const RecordedProcess process = ReadRecording(watcher.recording()).Process(pid);
  // Three kernels a batch, and HIP's fill and copy.
  EXPECT_EQ(process.dispatches.size(), 2 * kMany * 5);
  EXPECT_EQ(process.counters.size(), process.dispatches.size());
}

}  // namespace
}  // namespace rocattach::testing_support
