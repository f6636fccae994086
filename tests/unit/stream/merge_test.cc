// Recordings merged onto one clock: contents stay, and all times are shifted alike.
#include "userspace/stream/merge.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/temporary_directory.h"
#include "tests/unit/stream/stream_testing.h"
#include "userspace/base/file.h"
#include "userspace/stream/frame.h"
#include "userspace/stream/merged_clock.h"

namespace rocattach {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

constexpr uint64_t kBoot = 5'000'000'000'000;
constexpr uint64_t kToday = 1'700'000'000'000'000'000;

class MergeTest : public testing::Test {
 protected:
  std::string Path(const std::string& name) const { return directory_ / name; }

  // Writes a recording with boot ID `boot`, whose clock is `boottime_ns` at time of day
  // kToday and `drift_ns` less at its end. The times of its records follow this clock.
  std::string Record(const std::string& name, const std::string& boot,
                     uint64_t boottime_ns, uint64_t drift_ns = 0) {
    std::string bytes;
    bool begun = false;
    WriterOptions options;
    options.compression_level = 0;
    options.clock = [&] {
      const uint64_t now = begun ? boottime_ns + 1'000'000 - drift_ns : boottime_ns;
      const uint64_t day = begun ? kToday + 1'000'000 : kToday;
      begun = true;
      return ClockSnapshot{now, now, now, day};
    };
    auto writer = *StreamWriter::Create(std::make_unique<MemorySink>(&bytes), options);
    v1::Process process;
    process.set_pid(77);
    process.set_start_ns(boottime_ns - 500);
    const StreamId id = writer->OpenProcess(process);
    v1::WindowEvent window;
    window.set_state(v1::WINDOW_STATE_ATTACHED);
    window.set_hit_ns(boottime_ns + 5);
    window.set_probe_ns(123);
    EXPECT_TRUE(writer->AddWindowEvent(id, window).ok());
    std::vector<rocattach_dispatch> dispatches = RegularDispatches(3000);
    for (rocattach_dispatch& r : dispatches) {
      r.enqueue_ns += boottime_ns;
      r.start_ns += boottime_ns;
      r.end_ns += boottime_ns;
    }
    dispatches[5].flags = ROCATTACH_DISPATCH_UNTIMED;
    dispatches[5].start_ns = dispatches[5].end_ns = 0;
    EXPECT_TRUE(writer->Append<DispatchKind>(id, dispatches).ok());
    ApiCallRecord call;
    call.begin_ns = boottime_ns + 11;
    call.end_ns = boottime_ns + 13;
    call.text = std::string(9000, 'x');
    call.flags = kApiCallHasText;
    EXPECT_TRUE(writer->Append<ApiCallKind>(id, {call}).ok());
    CounterRecord sample;
    sample.operation = 1;
    sample.begin_ns = boottime_ns + 17;
    sample.end_ns = boottime_ns + 19;
    sample.sum = 0.5;
    EXPECT_TRUE(writer->Append<SampleKind>(id, {sample}).ok());
    v1::ProcessEnd end;
    end.set_time_ns(boottime_ns + 23);
    end.set_wall_ns(600);
    EXPECT_TRUE(writer->EndProcess(id, end).ok());
    EXPECT_TRUE(writer->Close().ok());
    bytes = WithBoot(bytes, boot);
    auto fd = OpenFile(Path(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    EXPECT_TRUE(fd.ok() && WriteAll(fd->get(), bytes).ok());
    return Path(name);
  }

  // Replaces the boot ID in the header, which is the first frame.
  static std::string WithBoot(const std::string& bytes, const std::string& boot) {
    const size_t end = FrameOffsets(bytes)[1];
    FrameHeader frame = *DecodeFrameHeader(bytes.data());
    v1::StreamHeader header;
    EXPECT_TRUE(header.ParseFromArray(bytes.data() + kFrameHeaderBytes,
                                      static_cast<int>(frame.payload_bytes)));
    header.set_boot_id(boot);
    std::string changed;
    BuildFrame(frame, header.SerializeAsString(), &changed);
    return changed + bytes.substr(end);
  }

  absl::StatusOr<MergeResult> Merge(const std::vector<std::string>& from) {
    unlink(Path("merged").c_str());
    return MergeStreams(from, Path("merged"), {}, nullptr);
  }

  struct Read : KeepingVisitor {
    std::vector<ApiCallRecord> calls;
    std::vector<CounterRecord> samples;
    void OnApiCalls(const FrameContext&,
                    absl::Span<const ApiCallRecord> records) override {
      calls.insert(calls.end(), records.begin(), records.end());
    }
    void OnSamples(const FrameContext&,
                   absl::Span<const CounterRecord> records) override {
      samples.insert(samples.end(), records.begin(), records.end());
    }
  };
  void ReadFrom(const std::string& path, Read* read) const {
    const ReadStats stats = ReadBytes(*ReadFile(path, 1 << 26), read);
    EXPECT_FALSE(stats.damaged());
    EXPECT_EQ(stats.recordings_ended, stats.recordings);
    EXPECT_TRUE(read->damages.empty());
  }

  const testing_support::TemporaryDirectory directory_;
};

TEST_F(MergeTest, OneBootHasOneClock) {
  const std::string one = Record("one", "boot", kBoot);
  const std::string other = Record("other", "boot", kBoot + 7000);
  const auto result = Merge({one, other});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FALSE(result->incomplete());
  ASSERT_EQ(result->recordings.size(), 2u);
  EXPECT_TRUE(result->recordings[1].alignment.same_clock);
  EXPECT_EQ(result->recordings[1].error_ns, 0u);
  Read merged, original;
  ReadFrom(Path("merged"), &merged);
  ReadFrom(other, &original);
  EXPECT_EQ(merged.recordings, 2u);
  const auto& dispatches = merged.streams[{1, 1}].dispatches;
  const auto& before = original.streams[{0, 1}].dispatches;
  ASSERT_EQ(dispatches.size(), before.size());
  for (size_t i = 0; i < dispatches.size(); ++i) {
    EXPECT_EQ(Describe(dispatches[i]), Describe(before[i]));
  }
}

TEST_F(MergeTest, AnotherMachineIsShiftedByTheTimeOfDay) {
  const std::string here = Record("here", "boot", kBoot, 20);
  // The other machine booted 3 s later: its clock is 3 s behind.
  constexpr uint64_t kBehind = 3'000'000'000;
  const std::string there = Record("there", "other boot", kBoot - kBehind, 5000);
  const auto result = Merge({here, there});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FALSE(result->incomplete());
  const MergedRecording& shifted = result->recordings.at(1);
  EXPECT_FALSE(shifted.alignment.same_clock);
  EXPECT_EQ(shifted.alignment.offset_ns, kBehind);
  EXPECT_EQ(shifted.error_ns, 1'000'000u + 20 + 5000) << "the drift of both is in it";
  Read merged, original;
  ReadFrom(Path("merged"), &merged);
  ReadFrom(there, &original);
  const auto& stream = merged.streams[{1, 1}];
  const auto& before = original.streams[{0, 1}];
  ASSERT_EQ(stream.dispatches.size(), before.dispatches.size());
  for (size_t i = 0; i < stream.dispatches.size(); ++i) {
    rocattach_dispatch expected = before.dispatches[i];
    expected.enqueue_ns += kBehind;
    if (i != 5) {  // dispatch 5 has no times
      expected.start_ns += kBehind;
      expected.end_ns += kBehind;
    }
    ASSERT_EQ(Describe(stream.dispatches[i]), Describe(expected)) << i;
  }
  ASSERT_EQ(merged.calls.size(), 2u);
  EXPECT_EQ(merged.calls[0].begin_ns, merged.calls[1].begin_ns) << "at one instant";
  EXPECT_EQ(merged.calls[1].end_ns, kBoot + 13);
  EXPECT_EQ(merged.calls[1].text, std::string(9000, 'x'));
  ASSERT_EQ(merged.samples.size(), 2u);
  EXPECT_EQ(merged.samples[1].begin_ns, kBoot + 17);
  EXPECT_EQ(merged.samples[1].end_ns, kBoot + 19);
  EXPECT_EQ(merged.samples[1].sum, 0.5);
  EXPECT_EQ(stream.processes.at(0).start_ns(), kBoot - 500);
  EXPECT_EQ(stream.windows.at(0).hit_ns(), kBoot + 5);
  EXPECT_EQ(stream.windows.at(0).probe_ns(), 123u) << "a duration";
  EXPECT_EQ(stream.ends.at(0).time_ns(), kBoot + 23);
  EXPECT_EQ(stream.ends.at(0).wall_ns(), 600u);
  const v1::StreamHeader& header = merged.headers.at(1);
  EXPECT_EQ(header.boot_id(), "boot") << "times can be compared now";
  EXPECT_EQ(header.clock().boottime_ns(), kBoot);
  EXPECT_EQ(header.clock().realtime_ns(), kToday);
  EXPECT_THAT(header.recorder_arguments(),
              Contains("--merged-clock-offset-ns=3000000000"));
  EXPECT_THAT(header.recorder_arguments(), Contains("--merged-clock-error-ns=1005020"));
  const auto clock = MergedClockOf(header);
  ASSERT_TRUE(clock.has_value());
  EXPECT_EQ(clock->offset_ns, int64_t{kBehind});
  EXPECT_EQ(clock->error_ns, 1'005'020u);
}

TEST(MergedClock, AddsUpTheOffsetsOfSeveralMerges) {
  v1::StreamHeader header;
  header.add_recorder_arguments("--output=x");
  EXPECT_FALSE(MergedClockOf(header).has_value());
  AddMergedClock({-5'000, 20}, &header);
  AddMergedClock({2'000, 30}, &header);
  header.add_recorder_arguments("--merged-clock-offset-ns=nonsense");
  const auto clock = MergedClockOf(header);
  ASSERT_TRUE(clock.has_value());
  EXPECT_EQ(clock->offset_ns, -3'000);
  EXPECT_EQ(clock->error_ns, 50u);
}

TEST_F(MergeTest, EveryTimeIsShifted) {
  // Fields in nanoseconds that are not times of the boot clock.
  const std::set<std::string> durations = {
      "probe_ns",     "wall_ns",          "latency_ns", "min_ns",
      "median_ns",    "p99_ns",           "max_ns",     "recorder_cpu_ns",
      "monotonic_ns", "monotonic_raw_ns", "realtime_ns"};
  for (const google::protobuf::FileDescriptor* file :
       {v1::StreamHeader::descriptor()->file(), v1::Agent::descriptor()->file()}) {
    for (int i = 0; i < file->message_type_count(); ++i) {
      const google::protobuf::Descriptor& message = *file->message_type(i);
      if (absl::EndsWith(message.name(), "Batch")) continue;  // checked as records
      for (int j = 0; j < message.field_count(); ++j) {
        const google::protobuf::FieldDescriptor& field = *message.field(j);
        if (!absl::EndsWith(field.name(), "_ns")) continue;
        EXPECT_NE(IsShiftedField(field), durations.count(field.name()) == 1)
            << field.full_name();
      }
    }
  }
}

TEST_F(MergeTest, RefusesUnsuitableInputsAndExistingOutput) {
  const std::string one = Record("one", "boot", kBoot);
  EXPECT_THAT(std::string(Merge({one, one}).status().message()),
              HasSubstr("was given already"));
  EXPECT_NE(access(Path("merged").c_str(), F_OK), 0);
  EXPECT_THAT(std::string(Merge({one, Path("none")}).status().message()),
              HasSubstr("none"));
  ASSERT_TRUE(Merge({one}).ok());
  const auto again = MergeStreams({one}, Path("merged"), {}, nullptr);
  EXPECT_EQ(again.status().code(), absl::StatusCode::kAlreadyExists);
  // A recording without its beginning.
  const std::string bytes = *ReadFile(one, 1 << 26);
  auto fd = OpenFile(Path("middle"), O_WRONLY | O_CREAT, 0600);
  EXPECT_TRUE(WriteAll(fd->get(), bytes.substr(FrameOffsets(bytes)[1])).ok());
  EXPECT_THAT(std::string(Merge({one, Path("middle")}).status().message()),
              HasSubstr("has no beginning"));
}

TEST_F(MergeTest, TheIntactPartOfADamagedRecordingIsMerged) {
  const std::string one = Record("one", "boot", kBoot);
  const std::string other = Record("other", "other boot", kBoot / 2);
  std::string bytes = *ReadFile(other, 1 << 26);
  bytes[FrameOffsets(bytes)[3] + kFrameHeaderBytes] ^= 1;
  auto fd = OpenFile(other, O_WRONLY | O_TRUNC, 0600);
  EXPECT_TRUE(WriteAll(fd->get(), bytes.substr(0, bytes.size() - 40)).ok());
  const auto result = Merge({one, other});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->incomplete());
  Read merged;
  ReadBytes(*ReadFile(Path("merged"), 1 << 26), &merged);
  EXPECT_EQ(merged.recordings, 2u);
  const auto& whole = merged.streams[{0, 1}];
  EXPECT_EQ(whole.dispatches.size(), 3000u);
  const auto& damaged = merged.streams[{1, 1}];
  EXPECT_EQ(damaged.processes.at(0).pid(), 77u);
}

}  // namespace
}  // namespace rocattach
