#include "userspace/export/pftrace/pftrace_sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "schemas/export/perfetto.pb.h"
#include "tests/unit/export/export_testing.h"
#include "userspace/base/clock.h"
#include "userspace/stream/frame.h"
#include "userspace/stream/writer.h"

namespace rocattach {
namespace {

using perfetto::TracePacket;
using perfetto::TrackEvent;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class PftraceSinkTest : public testing::Test {
 protected:
  PftraceSinkTest()
      : writer_(*StreamWriter::Create(std::make_unique<MemorySink>(&bytes_), {})) {
    v1::Process process;
    process.set_pid(100);
    process.set_comm("comm");
    id_ = writer_->OpenProcess(process);
    v1::Agent gpu;
    gpu.set_id(2);
    gpu.set_type(v1::AGENT_TYPE_GPU);
    gpu.set_name("gfx90a");
    EXPECT_TRUE(writer_->AddAgent(id_, gpu).ok());
    v1::Kernel kernel;
    kernel.set_id(1);
    kernel.set_name("_Z4vaddPf");
    EXPECT_TRUE(writer_->AddKernel(id_, kernel).ok());
    AddFunction(v1::API_DOMAIN_HIP, 1, "hipLaunchKernel");
    AddFunction(v1::API_DOMAIN_MARKER, 1, "roctxRangePushA");
    AddFunction(v1::API_DOMAIN_MARKER, 2, "roctxRangePop");
  }

  void AddFunction(v1::ApiDomain domain, uint32_t number, const char* name) {
    v1::ApiFunction function;
    function.set_domain(domain);
    function.set_function(number);
    function.set_name(name);
    EXPECT_TRUE(writer_->AddApiFunction(id_, function).ok());
  }

  static rocattach_dispatch Dispatch(uint64_t enqueue_ns) {
    rocattach_dispatch record = {};
    record.kernel_id = 1;
    record.queue_id = 1;
    record.agent_id = 2;
    record.tid = 7;
    record.correlation_id = 1;
    record.enqueue_ns = enqueue_ns;
    record.start_ns = enqueue_ns + 100;
    record.end_ns = enqueue_ns + 200;
    return record;
  }

  static ApiCallRecord Call(uint64_t begin_ns, uint64_t end_ns) {
    ApiCallRecord call;
    call.domain = v1::API_DOMAIN_HIP;
    call.function = 1;
    call.tid = 7;
    call.begin_ns = begin_ns;
    call.end_ns = end_ns;
    return call;
  }

  static ApiCallRecord Marker(uint16_t function, uint64_t begin_ns, const char* text) {
    ApiCallRecord call = Call(begin_ns, begin_ns + 1);
    call.domain = v1::API_DOMAIN_MARKER;
    call.function = function;
    call.text = text;
    if (!call.text.empty()) call.flags = kApiCallHasText;
    return call;
  }

  void Append(const std::vector<ApiCallRecord>& calls) {
    EXPECT_TRUE(writer_->Append<ApiCallKind>(id_, calls).ok());
    EXPECT_TRUE(writer_->FlushAll().ok());
  }
  void Append(const std::vector<rocattach_dispatch>& dispatches) {
    EXPECT_TRUE(writer_->Append<DispatchKind>(id_, dispatches).ok());
    EXPECT_TRUE(writer_->FlushAll().ok());
  }

  perfetto::Trace Convert() {
    EXPECT_TRUE(writer_->Close().ok());
    perfetto::Trace trace;
    EXPECT_TRUE(trace.ParseFromString(Converted(bytes_, "pftrace")));
    return trace;
  }

  std::string bytes_;
  std::unique_ptr<StreamWriter> writer_;
  StreamId id_ = 0;
};

std::vector<TracePacket> Tracks(const perfetto::Trace& trace, TrackEvent::Type type) {
  std::vector<TracePacket> found;
  for (const TracePacket& packet : trace.packet()) {
    if (packet.has_track_event() && packet.track_event().type() == type) {
      found.push_back(packet);
    }
  }
  return found;
}

std::vector<uint64_t> Submitted(const TracePacket& packet) {
  const auto& ids =
      packet.track_event().gpu_correlation().render_stage_submission_event_ids();
  return {ids.begin(), ids.end()};
}

TEST_F(PftraceSinkTest, ACallLeadsToItsDispatch) {
  Append({Dispatch(150)});
  Append({Call(100, 200)});
  const perfetto::Trace trace = Convert();
  const auto begins = Tracks(trace, TrackEvent::TYPE_SLICE_BEGIN);
  ASSERT_EQ(begins.size(), 1u);
  EXPECT_THAT(Submitted(begins[0]), ElementsAre(1));
  EXPECT_THAT(Tracks(trace, TrackEvent::TYPE_INSTANT), IsEmpty());
}

TEST_F(PftraceSinkTest, ADispatchThatComesAfterItsCallHasAnInstant) {
  Append({Call(100, 200)});
  Append({Dispatch(150)});
  const perfetto::Trace trace = Convert();
  const auto begins = Tracks(trace, TrackEvent::TYPE_SLICE_BEGIN);
  const auto instants = Tracks(trace, TrackEvent::TYPE_INSTANT);
  ASSERT_EQ(begins.size(), 1u);
  ASSERT_EQ(instants.size(), 1u);
  EXPECT_THAT(Submitted(begins[0]), IsEmpty());
  EXPECT_THAT(Submitted(instants[0]), ElementsAre(1));
  EXPECT_EQ(instants[0].timestamp(), 150u);
  EXPECT_EQ(instants[0].track_event().track_uuid(),
            begins[0].track_event().track_uuid());
}

TEST_F(PftraceSinkTest, CallsThatOverlapWithoutNestingHaveTracksOfTheirOwn) {
  Append({Call(100, 200), Call(150, 250), Call(210, 240), Call(160, 170)});
  const perfetto::Trace trace = Convert();
  std::map<uint64_t, std::vector<uint64_t>> begins;
  std::map<uint64_t, std::vector<uint64_t>> ends;
  for (const auto& packet : Tracks(trace, TrackEvent::TYPE_SLICE_BEGIN)) {
    begins[packet.track_event().track_uuid()].push_back(packet.timestamp());
  }
  for (const auto& packet : Tracks(trace, TrackEvent::TYPE_SLICE_END)) {
    ends[packet.track_event().track_uuid()].push_back(packet.timestamp());
  }
  ASSERT_EQ(begins.size(), 2u);
  std::set<std::vector<uint64_t>> orders;
  for (const auto& [track, times] : begins) orders.insert(times);
  EXPECT_THAT(orders, ElementsAre(ElementsAre(100, 160, 210), ElementsAre(150)));
  for (const auto& [track, times] : ends) {
    EXPECT_EQ(times.size(), begins[track].size());
  }
}

TEST_F(PftraceSinkTest, EndsAreWrittenBeforeBeginsOfTheSameTime) {
  Append({Call(100, 200), Call(200, 300), Call(100, 150)});
  std::vector<std::pair<TrackEvent::Type, uint64_t>> order;
  const perfetto::Trace trace = Convert();
  for (const TracePacket& packet : trace.packet()) {
    if (!packet.has_track_event()) continue;
    order.emplace_back(packet.track_event().type(), packet.timestamp());
  }
  constexpr auto kBegin = TrackEvent::TYPE_SLICE_BEGIN;
  constexpr auto kEnd = TrackEvent::TYPE_SLICE_END;
  EXPECT_THAT(order, ElementsAre(std::pair(kBegin, 100), std::pair(kBegin, 100),
                                 std::pair(kEnd, 150), std::pair(kEnd, 200),
                                 std::pair(kBegin, 200), std::pair(kEnd, 300)));
}

TEST_F(PftraceSinkTest, RangesEndOnlyIfTheyBegan) {
  Append({Marker(2, 90, ""), Marker(1, 100, "outer"), Marker(1, 110, "inner"),
          Marker(2, 120, ""), Marker(2, 130, ""), Marker(2, 140, "")});
  const perfetto::Trace trace = Convert();
  const auto begins = Tracks(trace, TrackEvent::TYPE_SLICE_BEGIN);
  const auto ends = Tracks(trace, TrackEvent::TYPE_SLICE_END);
  ASSERT_EQ(begins.size(), 2u);
  ASSERT_EQ(ends.size(), 2u);
  EXPECT_EQ(begins[0].track_event().name(), "outer");
  EXPECT_EQ(ends[0].timestamp(), 121u);
  EXPECT_EQ(ends[1].timestamp(), 131u);
}

// Every number that a packet uses has been announced since the last reset.
TEST_F(PftraceSinkTest, NamesAreAnnouncedAgainAfterAReset) {
  constexpr uint64_t kMany = 200'000;
  std::vector<rocattach_dispatch> dispatches;
  for (uint64_t i = 1; i <= kMany; ++i) dispatches.push_back(Dispatch(i * 1000));
  Append(dispatches);
  Append({Call(1, 2)});
  int resets = 0;
  uint64_t stages = 0;
  std::set<uint64_t> names, kernels, queues, contexts, tracks;
  const perfetto::Trace trace = Convert();
  for (const TracePacket& packet : trace.packet()) {
    if (packet.sequence_flags() & TracePacket::SEQ_INCREMENTAL_STATE_CLEARED) {
      ++resets;
      for (auto* set : {&names, &kernels, &queues, &contexts, &tracks}) set->clear();
    }
    const perfetto::InternedData& data = packet.interned_data();
    for (const auto& entry : data.event_names()) names.insert(entry.iid());
    for (const auto& entry : data.compute_kernels()) kernels.insert(entry.iid());
    for (const auto& entry : data.gpu_specifications()) queues.insert(entry.iid());
    for (const auto& entry : data.graphics_contexts()) contexts.insert(entry.iid());
    if (packet.has_track_descriptor()) tracks.insert(packet.track_descriptor().uuid());
    if (packet.has_gpu_render_stage_event()) {
      const auto& stage = packet.gpu_render_stage_event();
      ASSERT_TRUE(names.contains(stage.name_iid()));
      ASSERT_TRUE(kernels.contains(stage.kernel_iid()));
      ASSERT_TRUE(queues.contains(stage.hw_queue_iid()));
      ASSERT_TRUE(queues.contains(stage.stage_iid()));
      ASSERT_TRUE(contexts.contains(stage.context()));
      ++stages;
    }
    if (packet.has_track_event()) {
      ASSERT_TRUE(tracks.contains(packet.track_event().track_uuid()));
    }
  }
  EXPECT_GT(resets, 1);
  EXPECT_EQ(stages, kMany);
}

TEST_F(PftraceSinkTest, CanBeReadWhileItGrows) {
  Append({Dispatch(150)});
  const testing_support::TemporaryDirectory directory;
  ExporterOptions options;
  options.formats = {FindExportFormat("pftrace")};
  options.output.follow = true;
  const std::string base = directory / "live";
  options.base_name = [&base](const ExportProcess&) { return base; };
  Exporter exporter(std::move(options));
  StreamDecoder decoder(&exporter);
  decoder.Feed(bytes_);
  exporter.Flush();
  const auto content = ReadFile(base + "_results.pftrace", size_t{1} << 20);
  ASSERT_TRUE(content.ok()) << content.status();
  perfetto::Trace trace;
  ASSERT_TRUE(trace.ParseFromString(*content));
  EXPECT_TRUE(std::any_of(
      trace.packet().begin(), trace.packet().end(),
      [](const TracePacket& packet) { return packet.has_gpu_render_stage_event(); }));
}

TEST_F(PftraceSinkTest, OperationsWithoutTimesAreInstants) {
  rocattach_dispatch untimed = Dispatch(150);
  untimed.flags = ROCATTACH_DISPATCH_UNTIMED;
  untimed.start_ns = untimed.end_ns = 0;
  rocattach_dispatch unfinished = Dispatch(160);
  unfinished.flags = ROCATTACH_DISPATCH_UNFINISHED;
  unfinished.end_ns = 0;
  Append({untimed, unfinished});
  const perfetto::Trace trace = Convert();
  EXPECT_EQ(Tracks(trace, TrackEvent::TYPE_INSTANT).size(), 2u);
  for (const TracePacket& packet : trace.packet()) {
    EXPECT_FALSE(packet.has_gpu_render_stage_event());
  }
}

// A recording of another machine, whose boot clock is `boottime_ns` at `realtime_ns`.
std::string OfAnotherMachine(uint64_t boottime_ns, uint64_t realtime_ns,
                             uint32_t pid = 200) {
  std::string bytes;
  WriterOptions options;
  options.compression_level = 0;
  options.clock = [=] {
    return ClockSnapshot{boottime_ns, boottime_ns, boottime_ns, realtime_ns};
  };
  auto writer = *StreamWriter::Create(std::make_unique<MemorySink>(&bytes), options);
  // The header, which is the first frame, gets another boot ID.
  FrameHeader frame = *DecodeFrameHeader(bytes.data());
  v1::StreamHeader header;
  EXPECT_TRUE(header.ParseFromArray(bytes.data() + kFrameHeaderBytes,
                                    static_cast<int>(frame.payload_bytes)));
  header.set_boot_id("another boot");
  header.set_hostname("node8");
  BuildFrame(frame, header.SerializeAsString(), &bytes);
  v1::Process process;
  process.set_pid(pid);
  const StreamId id = writer->OpenProcess(process);
  v1::Agent gpu;
  gpu.set_id(2);
  gpu.set_type(v1::AGENT_TYPE_GPU);
  EXPECT_TRUE(writer->AddAgent(id, gpu).ok());
  rocattach_dispatch record = {};
  record.agent_id = 2;
  record.queue_id = 1;
  record.enqueue_ns = boottime_ns + 10;
  record.start_ns = boottime_ns + 20;
  record.end_ns = boottime_ns + 50;
  EXPECT_TRUE(writer->Append<DispatchKind>(id, {record}).ok());
  EXPECT_TRUE(writer->Close().ok());
  return bytes;
}

TEST_F(PftraceSinkTest, MachinesAreAligned) {
  Append({Dispatch(1000)});
  EXPECT_TRUE(writer_->Close().ok());
  const ClockSnapshot now = CaptureClockSnapshot();
  const std::string other =
      OfAnotherMachine(5'000'000, now.realtime_ns);  // booted a moment ago
  perfetto::Trace trace;
  EXPECT_TRUE(trace.ParseFromString(Converted(bytes_ + other, "pftrace")));
  std::vector<uint64_t> stages;
  std::vector<std::string> notes;
  for (const TracePacket& packet : trace.packet()) {
    if (packet.has_gpu_render_stage_event()) {
      stages.push_back(packet.timestamp());
      EXPECT_GE(packet.gpu_render_stage_event().duration(), 30u);
    }
    if (packet.track_event().type() == TrackEvent::TYPE_INSTANT) {
      notes.push_back(packet.track_event().name());
    }
  }
  ASSERT_EQ(stages.size(), 2u);
  EXPECT_EQ(stages[0], 1100u) << "of the first machine: unchanged";
  // Both clocks were read within this test.
  EXPECT_NEAR(static_cast<double>(stages[1]), static_cast<double>(now.boottime_ns + 20),
              60e9);
  EXPECT_THAT(notes, testing::Contains(testing::HasSubstr("recorded on node8")));
}

// Names are announced for each machine, and every packet names its machine.
TEST_F(PftraceSinkTest, MachinesAreKeptApart) {
  Append({Dispatch(1000)});
  EXPECT_TRUE(writer_->Close().ok());
  perfetto::Trace trace;
  EXPECT_TRUE(trace.ParseFromString(
      Converted(bytes_ + OfAnotherMachine(5'000'000, CaptureClockSnapshot().realtime_ns,
                                          /*pid=*/100),
                "pftrace")));
  std::map<uint32_t, int> resets, stages, gpus;
  std::map<uint32_t, std::vector<std::string>> labels;
  for (const TracePacket& packet : trace.packet()) {
    const uint32_t machine = packet.machine_id();
    if (packet.first_packet_on_sequence()) ++resets[machine];
    ASSERT_EQ(resets[machine], 1) << "before anything else of the machine";
    if (packet.has_gpu_render_stage_event()) {
      ++stages[machine];
      EXPECT_EQ(packet.gpu_render_stage_event().gpu_id(), 0) << "the first one there";
    }
    gpus[machine] = std::max(gpus[machine], packet.gpu_info().gpus_size());
    if (packet.track_descriptor().has_process()) {
      EXPECT_EQ(packet.track_descriptor().process().pid(), 100);
      const auto& own = packet.track_descriptor().process().process_labels();
      labels[machine] = {own.begin(), own.end()};
    }
  }
  EXPECT_THAT(stages, ElementsAre(testing::Pair(0, 1), testing::Pair(1, 1)));
  EXPECT_THAT(gpus, ElementsAre(testing::Pair(0, 1), testing::Pair(1, 1)));
  EXPECT_THAT(labels, ElementsAre(testing::Pair(0, IsEmpty()),
                                  testing::Pair(1, ElementsAre("node8"))));
}

TEST_F(PftraceSinkTest, VerdictAndLossesAreThere) {
  v1::WindowEvent window;
  window.set_state(v1::WINDOW_STATE_ATTACHED);
  window.set_hit_ns(500);
  EXPECT_TRUE(writer_->AddWindowEvent(id_, window).ok());
  v1::LossAccount account;
  account.set_time_ns(900);
  account.set_final(true);
  account.set_dropped_ring_full(12);
  account.set_packets_unseen(3);
  EXPECT_TRUE(writer_->SetAccount(id_, account).ok());
  v1::ProcessEnd end;
  end.set_how(v1::ProcessEnd::EXITED);
  end.set_time_ns(950);
  EXPECT_TRUE(writer_->EndProcess(id_, end).ok());
  std::map<uint64_t, std::string> notes;
  const perfetto::Trace trace = Convert();
  for (const TracePacket& packet : trace.packet()) {
    if (packet.track_event().type() == TrackEvent::TYPE_INSTANT) {
      notes[packet.timestamp()] = packet.track_event().name();
    }
  }
  EXPECT_EQ(notes[500], "attached");
  EXPECT_EQ(notes[900], "lost: 12 ring full, 3 unseen");
  EXPECT_EQ(notes[950], "exited with status 0");
}

}  // namespace
}  // namespace rocattach
