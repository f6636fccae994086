#include "userspace/export/pftrace/pftrace_packets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace rocattach {
namespace {

using perfetto::TrackEvent;
using ::testing::ElementsAre;

perfetto::Trace Parse(const std::string& bytes) {
  perfetto::Trace trace;
  EXPECT_TRUE(trace.ParseFromString(bytes));
  return trace;
}

PftraceStageEvent AnyStage() {
  PftraceStageEvent event;
  event.begin_ns = 1'000'000'000'000;
  event.end_ns = event.begin_ns + 5000;
  event.event_id = 77;
  event.gpu = 1;
  event.context = 70;
  event.queue = 71;
  event.name = event.kernel = 72;
  event.grid = {1000, 3, 1};
  event.workgroup = {64, 2, 1};
  return event;
}

TEST(PftracePackets, PerfettoLibraryParsesStageEvents) {
  std::string bytes;
  PftracePackets packets(&bytes);
  const PftraceNumber numbers[] = {{kArgTid, 5}, {kArgEnqueueNs, ~uint64_t{0}}};
  PftraceStageEvent event = AnyStage();
  event.numbers = numbers;
  packets.Stage(event);
  const perfetto::Trace trace = Parse(bytes);
  ASSERT_EQ(trace.packet_size(), 1);
  const perfetto::TracePacket& packet = trace.packet(0);
  EXPECT_EQ(packet.timestamp(), event.begin_ns);
  EXPECT_EQ(packet.trusted_packet_sequence_id(), 1u);
  EXPECT_EQ(packet.sequence_flags(), 2u);
  const perfetto::GpuRenderStageEvent& stage = packet.gpu_render_stage_event();
  EXPECT_EQ(stage.event_id(), 77u);
  EXPECT_EQ(stage.duration(), 5000u);
  EXPECT_EQ(stage.context(), 70u);
  EXPECT_EQ(stage.gpu_id(), 1);
  EXPECT_EQ(stage.hw_queue_iid(), 71u);
  EXPECT_EQ(stage.stage_iid(), kStageKernel);
  EXPECT_EQ(stage.kernel_iid(), 72u);
  EXPECT_EQ(stage.name_iid(), 72u);
  // Grid sizes are in work-groups, rounded up.
  EXPECT_EQ(stage.launch().grid_size().x(), 16u);
  EXPECT_EQ(stage.launch().grid_size().y(), 2u);
  EXPECT_EQ(stage.launch().workgroup_size().x(), 64u);
  ASSERT_EQ(stage.launch().args_size(), 2);
  EXPECT_EQ(stage.launch().args(1).name_iid(), kArgEnqueueNs);
  EXPECT_EQ(stage.launch().args(1).uint_value(), ~uint64_t{0});
  EXPECT_EQ(packet.SerializeAsString().size() + 2, bytes.size())
      << "more bytes than the library writes";
}

TEST(PftracePackets, PerfettoLibraryParsesTrackEvents) {
  std::string bytes;
  PftracePackets packets(&bytes);
  const PftraceNumber numbers[] = {{kArgCorrelationId, 9}};
  std::vector<uint64_t> submitted;
  for (uint64_t i = 1; i <= 9000; ++i) submitted.push_back(i);
  PftraceTrackEvent event;
  event.time_ns = 500;
  event.track = 0xabcdef;
  event.category = kCategoryMarker;
  event.name_text = "text\n\"with everything\"";
  event.numbers = numbers;
  const ApiArgument arguments[] = {{"bytes", "4096"}};
  event.arguments = arguments;
  event.submitted = submitted;
  packets.Track(event);
  packets.EndSlice(600, 0xabcdef);
  packets.Counter(700, 0x123, 0.25);
  const perfetto::Trace trace = Parse(bytes);
  ASSERT_EQ(trace.packet_size(), 3);
  const TrackEvent& begin = trace.packet(0).track_event();
  EXPECT_EQ(begin.type(), TrackEvent::TYPE_SLICE_BEGIN);
  EXPECT_EQ(begin.track_uuid(), 0xabcdefu);
  EXPECT_THAT(begin.category_iids(), ElementsAre(kCategoryMarker));
  EXPECT_EQ(begin.name(), event.name_text);
  EXPECT_FALSE(begin.has_name_iid());
  EXPECT_EQ(begin.debug_annotations(0).uint_value(), 9u);
  EXPECT_EQ(begin.debug_annotations(1).name(), "bytes");
  EXPECT_EQ(begin.debug_annotations(1).string_value(), "4096");
  EXPECT_EQ(begin.gpu_correlation().render_stage_submission_event_ids_size(), 9000);
  EXPECT_EQ(trace.packet(1).track_event().type(), TrackEvent::TYPE_SLICE_END);
  EXPECT_EQ(trace.packet(1).timestamp(), 600u);
  EXPECT_EQ(trace.packet(2).track_event().double_counter_value(), 0.25);
}

TEST(PftracePackets, AResetAnnouncesTheFixedNamesAgain) {
  std::string bytes;
  PftracePackets packets(&bytes);
  packets.Reset(/*first=*/true);
  EXPECT_EQ(packets.event_bytes(), 0u);
  packets.Stage(AnyStage());
  EXPECT_GT(packets.event_bytes(), 0u);
  packets.Reset(/*first=*/false);
  const perfetto::Trace trace = Parse(bytes);
  ASSERT_EQ(trace.packet_size(), 3);
  EXPECT_TRUE(trace.packet(0).first_packet_on_sequence());
  EXPECT_FALSE(trace.packet(2).has_first_packet_on_sequence());
  for (int i : {0, 2}) {
    const perfetto::TracePacket& packet = trace.packet(i);
    EXPECT_TRUE(packet.sequence_flags() & 1);
    EXPECT_EQ(packet.trace_packet_defaults().timestamp_clock_id(),
              static_cast<uint32_t>(perfetto::BUILTIN_CLOCK_BOOTTIME));
    std::set<uint64_t> named;
    for (const auto& name : packet.interned_data().compute_arg_names()) {
      named.insert(name.iid());
      EXPECT_LT(name.iid(), kFirstFreeIid);
    }
    EXPECT_EQ(named.size(), static_cast<size_t>(kArgStream)) << "each argument once";
    EXPECT_EQ(packet.interned_data().event_categories_size(), kCategoryScratch);
    EXPECT_EQ(packet.interned_data().gpu_specifications_size(), 2);
  }
}

TEST(WireWriter, NestedMessagesOfAnyLength) {
  for (size_t length : {0, 1, 125, 126, 127, 128, 16383, 16384, 70000}) {
    perfetto::TracePacket packet;
    packet.mutable_track_descriptor()->mutable_process()->set_process_name(
        std::string(length, 'x'));
    WireWriter wire;
    const size_t descriptor =
        wire.Begin(perfetto::TracePacket::kTrackDescriptorFieldNumber);
    const size_t process = wire.Begin(perfetto::TrackDescriptor::kProcessFieldNumber);
    wire.Text(perfetto::ProcessDescriptor::kProcessNameFieldNumber,
              std::string(length, 'x'));
    wire.End(process);
    wire.End(descriptor);
    EXPECT_EQ(wire.bytes(), packet.SerializeAsString()) << length;
  }
}

}  // namespace
}  // namespace rocattach
