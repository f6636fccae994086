// A dispatch in a trace for Perfetto: packets composed field by field, compared with a
// message of the protobuf library for each packet, with the same fields.
#include <benchmark/benchmark.h>

#include <array>
#include <cstdint>
#include <string>

#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "schemas/export/perfetto.pb.h"
#include "userspace/export/pftrace/pftrace_packets.h"

namespace rocattach {
namespace {

constexpr size_t kFlushBytes = 64 << 10;

// The numbers that change from one dispatch to the next.
std::array<PftraceNumber, 5> Numbers(uint64_t i) {
  return {{{kArgCorrelationId, i},
           {kArgDispatchId, i},
           {kArgTid, 4711},
           {kArgEnqueueNs, 5'000'000'000'000 + i * 4000},
           {kArgLdsBytes, 16384}}};
}

PftraceStageEvent Stage(uint64_t i, const std::array<PftraceNumber, 5>& numbers) {
  PftraceStageEvent event;
  event.begin_ns = 5'000'000'001'000 + i * 4000;
  event.end_ns = event.begin_ns + 5000 + i % 800;
  event.event_id = i;
  event.context = 64;
  event.queue = 65 + static_cast<uint32_t>(i % 2);
  event.name = event.kernel = 70 + static_cast<uint32_t>(i % 5);
  event.grid = {1 << 20, 1, 1};
  event.workgroup = {256, 1, 1};
  event.numbers = numbers;
  return event;
}

void Report(benchmark::State& state, uint64_t events, uint64_t bytes) {
  state.SetItemsProcessed(static_cast<int64_t>(events));
  state.counters["bytes_per_record"] =
      static_cast<double>(bytes) / static_cast<double>(events);
}

void BM_ComposedPackets(benchmark::State& state) {
  std::string out;
  PftracePackets packets(&out);
  uint64_t i = 0, bytes = 0;
  for (auto _ : state) {
    const auto numbers = Numbers(++i);
    packets.Stage(Stage(i, numbers));
    if (out.size() < kFlushBytes) continue;
    bytes += out.size();
    out.clear();
  }
  Report(state, i, bytes + out.size());
}
BENCHMARK(BM_ComposedPackets);

void Set(perfetto::GpuRenderStageEvent::Dim3* to, uint32_t x, uint32_t y, uint32_t z) {
  to->set_x(x);
  to->set_y(y);
  to->set_z(z);
}

void FillIn(const PftraceStageEvent& event, perfetto::TracePacket* packet) {
  packet->set_timestamp(event.begin_ns);
  packet->set_trusted_packet_sequence_id(1);
  packet->set_sequence_flags(perfetto::TracePacket::SEQ_NEEDS_INCREMENTAL_STATE);
  perfetto::GpuRenderStageEvent* stage = packet->mutable_gpu_render_stage_event();
  stage->set_event_id(event.event_id);
  stage->set_duration(event.end_ns - event.begin_ns);
  stage->set_context(event.context);
  stage->set_gpu_id(static_cast<int32_t>(event.gpu));
  stage->set_hw_queue_iid(event.queue);
  stage->set_stage_iid(event.stage);
  stage->set_kernel_iid(event.kernel);
  stage->set_name_iid(event.name);
  auto* launch = stage->mutable_launch();
  Set(launch->mutable_grid_size(), event.grid[0] / event.workgroup[0], 1, 1);
  Set(launch->mutable_workgroup_size(), event.workgroup[0], 1, 1);
  for (const PftraceNumber& number : event.numbers) {
    auto* argument = launch->add_args();
    argument->set_name_iid(number.name);
    argument->set_uint_value(number.value);
  }
}

void BM_MessagePerPacket(benchmark::State& state) {
  std::string out;
  uint64_t i = 0, bytes = 0;
  for (auto _ : state) {
    const auto numbers = Numbers(++i);
    perfetto::TracePacket packet;
    FillIn(Stage(i, numbers), &packet);
    google::protobuf::io::StringOutputStream stream(&out);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.WriteTag(perfetto::Trace::kPacketFieldNumber << 3 | 2);
    coded.WriteVarint64(packet.ByteSizeLong());
    packet.SerializeWithCachedSizes(&coded);
    coded.Trim();
    if (out.size() < kFlushBytes) continue;
    bytes += out.size();
    out.clear();
  }
  Report(state, i, bytes + out.size());
}
BENCHMARK(BM_MessagePerPacket);

}  // namespace
}  // namespace rocattach

BENCHMARK_MAIN();
