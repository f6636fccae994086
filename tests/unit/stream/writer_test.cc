#include "userspace/stream/writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/unit/stream/stream_testing.h"

namespace rocattach {
namespace {

using Key = KeepingVisitor::Key;

TEST(Writer, EverythingComesBack) {
  for (int level : {0, 1}) {
    std::string bytes = SampleRecording(level);
    KeepingVisitor visitor;
    ReadStats stats = ReadBytes(bytes, &visitor);
    EXPECT_FALSE(stats.damaged());
    EXPECT_TRUE(visitor.damages.empty());
    EXPECT_EQ(stats.recordings, 1u);
    EXPECT_EQ(stats.recordings_ended, 1u);
    EXPECT_EQ(stats.bytes, bytes.size());
    ASSERT_EQ(visitor.headers.size(), 1u);
    EXPECT_EQ(visitor.headers[0].recording_id().size(), 16u);
    EXPECT_EQ(visitor.headers[0].clock().realtime_ns(), 1'700'000'000'000'000'000u);
    EXPECT_FALSE(visitor.headers[0].hostname().empty());
    EXPECT_FALSE(visitor.headers[0].boot_id().empty());

    const KeepingVisitor::Stream& app = visitor.streams[Key(0, 1)];
    ASSERT_EQ(app.processes.size(), 1u);
    EXPECT_EQ(app.processes[0].comm(), "app");
    EXPECT_EQ(app.agents.at(2).name(), "gfx90a");
    EXPECT_EQ(app.kernels.at(5).name(), "kernel_5");
    std::vector<rocattach_dispatch> want = RegularDispatches(40);
    ASSERT_EQ(app.dispatches.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_EQ(Describe(app.dispatches[i]), Describe(want[i]));
    }
    EXPECT_EQ(app.copies.size(), 3u);
    ASSERT_EQ(app.windows.size(), 1u);
    EXPECT_EQ(app.windows[0].state(), v1::WINDOW_STATE_ATTACHED);
    ASSERT_EQ(app.accounts.size(), 1u);
    EXPECT_EQ(app.accounts[0].dispatches_delivered(), 40u);
    EXPECT_EQ(app.accounts[0].copies_delivered(), 3u);
    ASSERT_EQ(app.ends.size(), 1u);

    const KeepingVisitor::Stream& other = visitor.streams[Key(0, 2)];
    ASSERT_EQ(other.windows.size(), 1u);
    EXPECT_EQ(other.windows[0].reason(), v1::ATTACH_REASON_ALREADY_TRACED);
    ASSERT_EQ(visitor.summaries.size(), 1u);
    EXPECT_EQ(visitor.summaries[0].windows_refused(), 1u);
    ASSERT_EQ(visitor.stream_ends.size(), 1u);
    EXPECT_EQ(visitor.stream_ends[0].dispatches(), 40u);
    EXPECT_EQ(visitor.stream_ends[0].streams(), 2u);
  }
}

TEST(Writer, FirstFrameDescribesTheMessages) {
  std::string bytes = SampleRecording();
  KeepingVisitor visitor;
  ReadBytes(bytes, &visitor);
  ASSERT_EQ(visitor.headers.size(), 1u);
  // A reader without our code can build the types from the stream alone.
  google::protobuf::DescriptorPool pool;
  for (const auto& file : visitor.headers[0].descriptors().file()) {
    ASSERT_NE(pool.BuildFile(file), nullptr) << file.name();
  }
  const auto* batch = pool.FindMessageTypeByName("rocattach.v1.DispatchBatch");
  ASSERT_NE(batch, nullptr);
  ASSERT_NE(batch->FindFieldByName("duration"), nullptr);
  EXPECT_EQ(batch->FindFieldByName("duration")->number(), 24);
  EXPECT_NE(pool.FindMessageTypeByName("rocattach.v1.WindowEvent"), nullptr);
}

TEST(Writer, DictionaryEntriesComeBeforeTheRecordsThatNameThem) {
  std::string bytes;
  auto writer = MakeWriter(&bytes);
  StreamId id = writer->OpenProcess({});
  std::vector<rocattach_dispatch> records = RegularDispatches(10);
  ASSERT_TRUE(writer->Append<DispatchKind>(id, records).ok());
  v1::Kernel kernel;
  kernel.set_id(1);
  kernel.set_name("late");
  ASSERT_TRUE(writer->AddKernel(id, kernel).ok());
  ASSERT_TRUE(writer->FlushAll().ok());

  struct OrderVisitor : StreamVisitor {
    void OnKernel(const FrameContext&, const v1::Kernel&) override { order += "k"; }
    void OnDispatches(const FrameContext&,
                      absl::Span<const rocattach_dispatch>) override {
      order += "d";
    }
    std::string order;
  } visitor;
  StreamDecoder decoder(&visitor);
  decoder.Feed(bytes);
  decoder.FinishInput();
  EXPECT_EQ(visitor.order, "kd");
}

TEST(Writer, TheWorkloadOfAProcessMayBecomeKnownLater) {
  std::string bytes;
  auto writer = *StreamWriter::Create(std::make_unique<MemorySink>(&bytes), {});
  v1::Process process;
  process.set_comm("app");
  const StreamId id = writer->OpenProcess(process);
  ASSERT_TRUE(writer->AddWindowEvent(id, {}).ok());
  v1::Workload workload;
  workload.set_pod("trainer-0");
  workload.set_slurm_job(std::string("1\xff", 2));
  ASSERT_TRUE(writer->SetWorkload(id, workload).ok());
  ASSERT_TRUE(writer->FlushAll().ok());
  const size_t joined_at = bytes.size();
  EXPECT_EQ(writer->SetWorkload(id + 1, workload).code(), absl::StatusCode::kNotFound);

  KeepingVisitor seen;
  ReadBytes(bytes, &seen);
  const auto& processes = seen.streams[Key(0, id)].processes;
  ASSERT_EQ(processes.size(), 2u);
  EXPECT_FALSE(processes[0].has_workload());
  EXPECT_EQ(processes[1].comm(), "app");
  EXPECT_EQ(processes[1].workload().pod(), "trainer-0");
  EXPECT_EQ(processes[1].workload().slurm_job(), "1\xef\xbf\xbd");

  // Key frames contain it, too.
  std::string next;
  WriterStats former;
  ASSERT_TRUE(writer->Rotate(std::make_unique<MemorySink>(&next), &former).ok());
  ASSERT_TRUE(writer->Close().ok());
  EXPECT_GE(bytes.size(), joined_at);
  KeepingVisitor later;
  ReadBytes(next, &later);
  ASSERT_FALSE(later.streams[Key(0, id)].processes.empty());
  EXPECT_EQ(later.streams[Key(0, id)].processes[0].workload().pod(), "trainer-0");
}

TEST(Writer, BatchesAreCutByAge) {
  std::string bytes;
  auto writer = MakeWriter(&bytes);
  StreamId id = writer->OpenProcess({});
  ASSERT_TRUE(writer->Append<DispatchKind>(id, RegularDispatches(10)).ok());
  ASSERT_TRUE(writer->Flush(1'000'000'000).ok());
  EXPECT_EQ(writer->stats().records[RecordKind::kDispatch], 0u) << "young";
  ASSERT_TRUE(writer->Flush(1'249'999'999).ok());
  EXPECT_EQ(writer->stats().records[RecordKind::kDispatch], 0u);
  ASSERT_TRUE(writer->Flush(1'250'000'000).ok());
  EXPECT_EQ(writer->stats().records[RecordKind::kDispatch], 10u);
  ASSERT_TRUE(writer->SetAccount(id, {}).ok());
  EXPECT_EQ(writer->account(id)->dispatches_delivered(), 10u);
}

TEST(Writer, EventsKeepTheirPlaceAmongRecords) {
  std::string bytes;
  auto writer = MakeWriter(&bytes);
  StreamId id = writer->OpenProcess({});
  ASSERT_TRUE(writer->Append<DispatchKind>(id, RegularDispatches(10)).ok());
  ASSERT_TRUE(writer->AddWindowEvent(id, {}).ok());
  EXPECT_EQ(writer->stats().records[RecordKind::kDispatch], 10u)
      << "the batch was cut first";
}

TEST(Writer, UnknownStreamsAreRefused) {
  std::string bytes;
  auto writer = MakeWriter(&bytes);
  EXPECT_EQ(writer->AddKernel(1, {}).code(), absl::StatusCode::kNotFound);
  StreamId id = writer->OpenProcess({});
  EXPECT_TRUE(writer->EndProcess(id, {}).ok());
  EXPECT_EQ(writer->Append<DispatchKind>(id, {}).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(writer->EndProcess(id, {}).code(), absl::StatusCode::kNotFound);
}

TEST(Writer, HostileTextIsMadeReadable) {
  std::string bytes;
  auto writer = MakeWriter(&bytes);
  v1::Process process;
  process.set_comm("bad\xff");
  for (int i = 0; i < 100; ++i) process.add_arguments(std::string(10'000, '\xff'));
  StreamId id = writer->OpenProcess(process);
  v1::Kernel kernel;
  kernel.set_id(1);
  kernel.set_name(std::string(200'000, 'k'));
  ASSERT_TRUE(writer->AddKernel(id, kernel).ok());
  ASSERT_TRUE(writer->Close().ok());
  KeepingVisitor visitor;
  ReadStats stats = ReadBytes(bytes, &visitor);
  EXPECT_FALSE(stats.damaged());
  const auto& stream = visitor.streams[Key(0, 1)];
  ASSERT_EQ(stream.processes.size(), 1u);
  EXPECT_EQ(stream.processes[0].comm(), "bad\xef\xbf\xbd");
  EXPECT_EQ(stream.kernels.at(1).name().size(), 65536u);
  EXPECT_LT(bytes.size(), 400'000u);
}

TEST(Writer, LargeDictionariesAreSplit) {
  std::string bytes;
  auto writer = MakeWriter(&bytes);
  StreamId id = writer->OpenProcess({});
  for (uint32_t i = 1; i <= 3000; ++i) {
    v1::Kernel kernel;
    kernel.set_id(i);
    kernel.set_name(std::string(1000, 'x') + std::to_string(i));
    ASSERT_TRUE(writer->AddKernel(id, kernel).ok());
    if (i == 1500) {
      ASSERT_TRUE(writer->FlushAll().ok());
    }
  }
  ASSERT_TRUE(writer->Close().ok());
  for (size_t i = 0, n = FrameOffsets(bytes).size(); i + 1 < n; ++i) {
    std::vector<size_t> offsets = FrameOffsets(bytes);
    EXPECT_LT(offsets[i + 1] - offsets[i], 600u << 10);
  }
  KeepingVisitor visitor;
  EXPECT_FALSE(ReadBytes(bytes, &visitor).damaged());
  EXPECT_EQ(visitor.streams[Key(0, 1)].kernels.size(), 3000u);
}

// A reader joins a running stream: after the next key frame it knows everything again.
TEST(Writer, ReadersCanJoinAtKeyFrames) {
  std::string bytes;
  WriterOptions options;
  options.key_frame_bytes = 20'000;
  options.batch_bytes = 2'000;
  auto writer = *StreamWriter::Create(std::make_unique<MemorySink>(&bytes), options);
  v1::Process process;
  process.set_comm("joined");
  StreamId id = writer->OpenProcess(process);
  v1::WindowEvent event;
  event.set_state(v1::WINDOW_STATE_ATTACHED);
  ASSERT_TRUE(writer->AddWindowEvent(id, event).ok());
  for (uint32_t i = 1; i <= 5; ++i) {
    v1::Kernel kernel;
    kernel.set_id(i);
    kernel.set_name(absl::StrCat("kernel_", i));
    ASSERT_TRUE(writer->AddKernel(id, kernel).ok());
  }
  std::vector<rocattach_dispatch> records = RegularDispatches(40'000);
  ASSERT_TRUE(writer->Append<DispatchKind>(id, records).ok());
  ASSERT_TRUE(writer->Close().ok());

  std::vector<size_t> offsets = FrameOffsets(bytes);
  ASSERT_GT(offsets.size(), 50u);
  for (size_t start : {offsets[7], offsets[11] + 13, offsets[20] + 1}) {
    KeepingVisitor visitor;
    ReadStats stats = ReadBytes(absl::string_view(bytes).substr(start), &visitor);
    EXPECT_EQ(stats.missing_frames, 0u) << "what went before is not missed";
    EXPECT_TRUE(visitor.HasDamage(Damage::Kind::kNoBeginning));
    EXPECT_EQ(stats.recordings, 1u);
    const auto& stream = visitor.streams[Key(0, 1)];
    ASSERT_FALSE(stream.processes.empty());
    EXPECT_EQ(stream.processes[0].comm(), "joined");
    EXPECT_EQ(stream.kernels.size(), 5u);
    ASSERT_FALSE(stream.windows.empty());
    EXPECT_EQ(stream.windows.back().state(), v1::WINDOW_STATE_ATTACHED);
    EXPECT_GT(stream.dispatches.size(), 10'000u);
    // The reader gets the last part of what was written.
    size_t heard = stream.dispatches.size();
    for (size_t i = 0; i < heard; ++i) {
      ASSERT_EQ(Describe(stream.dispatches[i]),
                Describe(records[records.size() - heard + i]));
    }
  }
  // A reader of the whole stream gets nothing twice.
  KeepingVisitor visitor;
  EXPECT_FALSE(ReadBytes(bytes, &visitor).damaged());
  EXPECT_EQ(visitor.streams[Key(0, 1)].processes.size(), 1u);
  EXPECT_EQ(visitor.streams[Key(0, 1)].windows.size(), 1u);
}

TEST(Writer, KeyFramesComeWithTime) {
  std::string bytes;
  uint64_t now = 1'000'000'000;
  WriterOptions options;
  options.clock = [&] { return ClockSnapshot{now, now, now, now}; };
  auto writer = *StreamWriter::Create(std::make_unique<MemorySink>(&bytes), options);
  StreamId id = writer->OpenProcess({});
  ASSERT_TRUE(writer->Flush(now).ok());
  size_t before = FrameOffsets(bytes).size();
  ASSERT_TRUE(writer->AddWindowEvent(id, {}).ok());
  EXPECT_EQ(FrameOffsets(bytes).size() - before, 1u) << "the event alone";
  now += 30'000'000'000;
  ASSERT_TRUE(writer->Flush(now).ok());
  EXPECT_EQ(FrameOffsets(bytes).size() - before, 1u) << "an idle stream stays idle";
  ASSERT_TRUE(writer->AddWindowEvent(id, {}).ok());
  EXPECT_EQ(FrameOffsets(bytes).size() - before, 4u) << "header, key frame, event";
}

TEST(Writer, DestructorWritesPendingRecords) {
  std::string bytes;
  {
    auto writer = MakeWriter(&bytes);
    StreamId id = writer->OpenProcess({});
    ASSERT_TRUE(writer->Append<DispatchKind>(id, RegularDispatches(10)).ok());
  }
  KeepingVisitor visitor;
  ReadStats stats = ReadBytes(bytes, &visitor);
  EXPECT_EQ(stats.records[RecordKind::kDispatch], 10u);
  EXPECT_FALSE(stats.damaged());
  EXPECT_TRUE(visitor.HasDamage(Damage::Kind::kNoEnd));
}

// A sink that fails when `*fail` is set.
class FailingSink : public Sink {
 public:
  FailingSink(std::string* out, const bool* fail) : out_(out), fail_(fail) {}
  absl::Status Write(absl::string_view frame) override {
    if (*fail_) return absl::ResourceExhaustedError("the test's disk is full");
    out_->append(frame.data(), frame.size());
    return absl::OkStatus();
  }
  bool broken() const override { return false; }
  bool compress_by_default() const override { return false; }
  const std::string& name() const override { return name_; }

 private:
  std::string* out_;
  const bool* fail_;
  std::string name_ = "failing";
};

TEST(Writer, ResumesWhenSpaceReturnsAndAccountsForTheGap) {
  std::string bytes;
  bool fail = false;
  auto writer = *StreamWriter::Create(std::make_unique<FailingSink>(&bytes, &fail), {});
  v1::Process process;
  process.set_comm("app");
  StreamId id = writer->OpenProcess(process);
  std::vector<rocattach_dispatch> records = RegularDispatches(300);
  auto span = absl::MakeConstSpan(records);
  ASSERT_TRUE(writer->Append<DispatchKind>(id, span.subspan(0, 100)).ok());
  ASSERT_TRUE(writer->FlushAll().ok());

  fail = true;
  ASSERT_TRUE(writer->Append<DispatchKind>(id, span.subspan(100, 100)).ok());
  EXPECT_FALSE(writer->FlushAll().ok());
  v1::Kernel kernel;
  kernel.set_id(1);
  kernel.set_name("loaded while the disk was full");
  ASSERT_TRUE(writer->AddKernel(id, kernel).ok());
  v1::WindowEvent event;
  event.set_state(v1::WINDOW_STATE_ATTACHED);
  EXPECT_FALSE(writer->AddWindowEvent(id, event).ok());
  // A process that started and ended in the meantime.
  process.set_comm("brief");
  StreamId brief = writer->OpenProcess(process);
  v1::ProcessEnd end;
  end.set_how(v1::ProcessEnd::SIGNALLED);
  end.set_signal(9);
  EXPECT_FALSE(writer->EndProcess(brief, end).ok());

  fail = false;
  ASSERT_TRUE(writer->Append<DispatchKind>(id, span.subspan(200)).ok());
  ASSERT_TRUE(writer->FlushAll().ok());
  v1::LossAccount account;
  account.set_final(true);
  account.set_dispatches_seen(300);
  ASSERT_TRUE(writer->SetAccount(id, account).ok());
  ASSERT_TRUE(writer->EndProcess(id, {}).ok());
  ASSERT_TRUE(writer->Close().ok());
  EXPECT_EQ(writer->stats().records_dropped, 100u);

  KeepingVisitor visitor;
  ReadStats stats = ReadBytes(bytes, &visitor);
  EXPECT_EQ(stats.skipped_bytes, 0u) << "framing was never broken";
  EXPECT_GT(stats.missing_frames, 0u) << "and the gap is visible";
  const auto& app = visitor.streams[Key(0, 1)];
  EXPECT_EQ(app.dispatches.size(), 200u);
  EXPECT_EQ(app.kernels.at(1).name(), "loaded while the disk was full");
  ASSERT_FALSE(app.windows.empty());
  EXPECT_EQ(app.windows.back().state(), v1::WINDOW_STATE_ATTACHED);
  ASSERT_FALSE(app.accounts.empty());
  const v1::LossAccount& last = app.accounts.back();
  EXPECT_EQ(last.dispatches_delivered(), 200u);
  EXPECT_EQ(last.dropped_writer(), 100u);
  EXPECT_EQ(last.dispatches_seen(),
            last.dispatches_delivered() + last.dropped_writer());
  const auto& second = visitor.streams[Key(0, 2)];
  ASSERT_FALSE(second.ends.empty());
  EXPECT_EQ(second.ends.back().signal(), 9u);
}

}  // namespace
}  // namespace rocattach
