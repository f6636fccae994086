#include "userspace/export/pftrace/pftrace_packets.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace rocattach {
namespace {

using perfetto::TracePacket;

// All packets are on one sequence.
constexpr uint32_t kSequence = 1;
constexpr uint64_t kLatest = std::numeric_limits<int64_t>::max();

struct FixedName {
  uint32_t iid;
  const char* name;
};

// The names that rocprofv3 uses for the same things, where it has any.
constexpr FixedName kCategories[] = {
    {kCategoryHsa, "hsa_api"},
    {kCategoryHip, "hip_api"},
    {kCategoryMarker, "marker_api"},
    {kCategoryDispatch, "kernel_dispatch"},
    {kCategoryCopy, "memory_copy"},
    {kCategoryProcess, "process"},
    {kCategoryRccl, "rccl_api"},
    {kCategoryMemory, "memory_allocation"},
    {kCategoryScratch, "scratch_memory"},
};
constexpr FixedName kArguments[] = {
    {kArgCorrelationId, "correlation_id"},
    {kArgAncestorId, "ancestor_id"},
    {kArgSession, "session"},
    {kArgTid, "tid"},
    {kArgEnqueueNs, "enqueue_ns"},
    {kArgDispatchId, "dispatch_id"},
    {kArgLdsBytes, "lds_bytes"},
    {kArgScratchBytes, "scratch_bytes"},
    {kArgBytes, "bytes"},
    {kArgSourceAgent, "src_agent_id"},
    {kArgDestinationAgent, "dst_agent_id"},
    {kArgSourceAddress, "src_address"},
    {kArgDestinationAddress, "dst_address"},
    {kArgEngine, "engine"},
    {kArgAgent, "agent_id"},
    {kArgAddress, "address"},
    {kArgDurationNs, "duration_ns"},
    {kArgQueue, "queue_id"},
    {kArgHipStream, "hip_stream"},
    {kArgDevice, "device"},
    {kArgStream, "stream"},
};

void AddStage(
    PftraceStage stage, const char* name,
    perfetto::InternedGpuRenderStageSpecification::RenderStageCategory category,
    perfetto::InternedData* data) {
  auto* specification = data->add_gpu_specifications();
  specification->set_iid(stage);
  specification->set_name(name);
  specification->set_category(category);
}

// Number of work-groups that cover `items` work-items.
uint32_t Groups(uint32_t items, uint32_t group) {
  return group == 0 ? items
                    : static_cast<uint32_t>((uint64_t{items} + group - 1) / group);
}

}  // namespace

void PftracePackets::Reset(bool first) {
  TracePacket packet;
  packet.set_sequence_flags(TracePacket::SEQ_INCREMENTAL_STATE_CLEARED |
                            TracePacket::SEQ_NEEDS_INCREMENTAL_STATE);
  packet.mutable_trace_packet_defaults()->set_timestamp_clock_id(
      perfetto::BUILTIN_CLOCK_BOOTTIME);
  perfetto::InternedData* data = packet.mutable_interned_data();
  for (const FixedName& fixed : kCategories) {
    perfetto::InternedName* name = data->add_event_categories();
    name->set_iid(fixed.iid);
    name->set_name(fixed.name);
  }
  for (const FixedName& fixed : kArguments) {
    for (perfetto::InternedName* name :
         {data->add_debug_annotation_names(), data->add_compute_arg_names()}) {
      name->set_iid(fixed.iid);
      name->set_name(fixed.name);
    }
  }
  using Specification = perfetto::InternedGpuRenderStageSpecification;
  AddStage(kStageKernel, "Kernel", Specification::COMPUTE, data);
  AddStage(kStageCopy, "Copy", Specification::OTHER, data);
  if (first) packet.set_first_packet_on_sequence(true);
  Rare(std::move(packet));
}

void PftracePackets::Rare(TracePacket packet) {
  packet.set_trusted_packet_sequence_id(kSequence);
  if (machine_ != 0) packet.set_machine_id(machine_);
  if (!packet.has_sequence_flags()) {
    packet.set_sequence_flags(TracePacket::SEQ_NEEDS_INCREMENTAL_STATE);
  }
  if (packet.has_timestamp()) packet.set_timestamp(Shifted(packet.timestamp()));
  wire_.Clear();
  wire_.Text(perfetto::Trace::kPacketFieldNumber, packet.SerializeAsString());
  out_->append(wire_.bytes().data(), wire_.bytes().size());
}

void PftracePackets::BeginPacket(uint64_t time_ns) {
  wire_.Clear();
  wire_.Begin(perfetto::Trace::kPacketFieldNumber);
  // Readers use signed times; a larger one is damaged.
  wire_.Varint(TracePacket::kTimestampFieldNumber, std::min(Shifted(time_ns), kLatest));
  wire_.Varint(TracePacket::kTrustedPacketSequenceIdFieldNumber, kSequence);
  wire_.Varint(TracePacket::kSequenceFlagsFieldNumber,
               TracePacket::SEQ_NEEDS_INCREMENTAL_STATE);
  if (machine_ != 0) wire_.Varint(TracePacket::kMachineIdFieldNumber, machine_);
}

void PftracePackets::EndPacket() {
  // The packet's tag is one byte, its length another one.
  wire_.End(2);
  event_bytes_ += wire_.bytes().size();
  out_->append(wire_.bytes().data(), wire_.bytes().size());
}

void PftracePackets::Dimensions(uint32_t field, const std::array<uint32_t, 3>& xyz) {
  using Dim3 = perfetto::GpuRenderStageEvent::Dim3;
  const size_t begin = wire_.Begin(field);
  wire_.Varint(Dim3::kXFieldNumber, xyz[0]);
  wire_.Varint(Dim3::kYFieldNumber, xyz[1]);
  wire_.Varint(Dim3::kZFieldNumber, xyz[2]);
  wire_.End(begin);
}

void PftracePackets::Stage(const PftraceStageEvent& event) {
  using Stage = perfetto::GpuRenderStageEvent;
  using Launch = Stage::ComputeKernelLaunch;
  using Argument = Stage::ExtraComputeArg;
  BeginPacket(event.begin_ns);
  const size_t stage = wire_.Begin(TracePacket::kGpuRenderStageEventFieldNumber);
  wire_.Varint(Stage::kEventIdFieldNumber, event.event_id);
  wire_.Varint(Stage::kDurationFieldNumber,
               std::min(event.end_ns, kLatest) - std::min(event.begin_ns, kLatest));
  wire_.Varint(Stage::kContextFieldNumber, event.context);
  wire_.Varint(Stage::kGpuIdFieldNumber, event.gpu);
  wire_.Varint(Stage::kHwQueueIidFieldNumber, event.queue);
  wire_.Varint(Stage::kStageIidFieldNumber, event.stage);
  if (event.kernel != 0) wire_.Varint(Stage::kKernelIidFieldNumber, event.kernel);
  wire_.Varint(Stage::kNameIidFieldNumber, event.name);
  const size_t launch = wire_.Begin(Stage::kLaunchFieldNumber);
  if (event.grid[0] != 0) {
    std::array<uint32_t, 3> groups;
    for (size_t i = 0; i < 3; ++i) {
      groups[i] = Groups(event.grid[i], event.workgroup[i]);
    }
    Dimensions(Launch::kGridSizeFieldNumber, groups);
    Dimensions(Launch::kWorkgroupSizeFieldNumber, event.workgroup);
  }
  for (const PftraceNumber& number : event.numbers) {
    const size_t argument = wire_.Begin(Launch::kArgsFieldNumber);
    wire_.Varint(Argument::kNameIidFieldNumber, number.name);
    wire_.Varint(Argument::kUintValueFieldNumber, number.value);
    wire_.End(argument);
  }
  wire_.End(launch);
  wire_.End(stage);
  EndPacket();
}

void PftracePackets::Track(const PftraceTrackEvent& event) {
  using Event = perfetto::TrackEvent;
  BeginPacket(event.time_ns);
  const size_t track = wire_.Begin(TracePacket::kTrackEventFieldNumber);
  wire_.Varint(Event::kCategoryIidsFieldNumber, event.category);
  for (const PftraceNumber& number : event.numbers) {
    const size_t annotation = wire_.Begin(Event::kDebugAnnotationsFieldNumber);
    wire_.Varint(perfetto::DebugAnnotation::kNameIidFieldNumber, number.name);
    wire_.Varint(perfetto::DebugAnnotation::kUintValueFieldNumber, number.value);
    wire_.End(annotation);
  }
  for (const ApiArgument& argument : event.arguments) {
    const size_t annotation = wire_.Begin(Event::kDebugAnnotationsFieldNumber);
    wire_.Text(perfetto::DebugAnnotation::kNameFieldNumber, argument.name);
    wire_.Text(perfetto::DebugAnnotation::kStringValueFieldNumber, argument.value);
    wire_.End(annotation);
  }
  wire_.Varint(Event::kTypeFieldNumber, event.type);
  if (event.name != 0) {
    wire_.Varint(Event::kNameIidFieldNumber, event.name);
  } else {
    wire_.Text(Event::kNameFieldNumber, event.name_text);
  }
  wire_.Varint(Event::kTrackUuidFieldNumber, event.track);
  if (!event.submitted.empty()) {
    const size_t correlation = wire_.Begin(Event::kGpuCorrelationFieldNumber);
    for (uint64_t id : event.submitted) {
      wire_.Varint(perfetto::GpuCorrelation::kRenderStageSubmissionEventIdsFieldNumber,
                   id);
    }
    wire_.End(correlation);
  }
  wire_.End(track);
  EndPacket();
}

void PftracePackets::EndSlice(uint64_t time_ns, uint64_t track) {
  using Event = perfetto::TrackEvent;
  BeginPacket(time_ns);
  const size_t event = wire_.Begin(TracePacket::kTrackEventFieldNumber);
  wire_.Varint(Event::kTypeFieldNumber, Event::TYPE_SLICE_END);
  wire_.Varint(Event::kTrackUuidFieldNumber, track);
  wire_.End(event);
  EndPacket();
}

void PftracePackets::Counter(uint64_t time_ns, uint64_t track, double value) {
  using Event = perfetto::TrackEvent;
  BeginPacket(time_ns);
  const size_t event = wire_.Begin(TracePacket::kTrackEventFieldNumber);
  wire_.Varint(Event::kTypeFieldNumber, Event::TYPE_COUNTER);
  wire_.Varint(Event::kTrackUuidFieldNumber, track);
  wire_.Double(Event::kDoubleCounterValueFieldNumber, value);
  wire_.End(event);
  EndPacket();
}

}  // namespace rocattach
