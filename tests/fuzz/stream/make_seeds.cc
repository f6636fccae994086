// Writes seeds for fuzz_stream into a directory: a recording with some of everything,
// as it is and as the frames' payloads alone.
#include <stdio.h>

#include <string>

#include "userspace/base/file.h"
#include "userspace/stream/frame_scanner.h"
#include "userspace/stream/writer.h"

namespace rocattach {
namespace {

void AddDictionary(StreamWriter* writer, StreamId id) {
  v1::WindowEvent event;
  event.set_state(v1::WINDOW_STATE_ATTACHED);
  event.set_detail("detail");
  (void)writer->AddWindowEvent(id, event);
  v1::Agent agent;
  agent.set_id(1);
  agent.set_type(v1::AGENT_TYPE_GPU);
  agent.set_name("gfx90a");
  (void)writer->AddAgent(id, agent);
  v1::Kernel kernel;
  kernel.set_id(1);
  kernel.set_name("_Z4vaddPf");
  (void)writer->AddKernel(id, kernel);
}

void AddRecords(StreamWriter* writer, StreamId id) {
  rocattach_dispatch dispatches[3] = {};
  rocattach_copy copies[2] = {};
  for (uint64_t i = 0; i < 3; ++i) {
    dispatches[i].kernel_id = 1;
    dispatches[i].correlation_id = i + 1;
    dispatches[i].start_ns = 1000 * (i + 1);
    dispatches[i].end_ns = 1000 * (i + 1) + 500;
    dispatches[i].grid_x = static_cast<uint32_t>(64 * i);
  }
  copies[1].bytes = 4096;
  copies[1].direction = ROCATTACH_COPY_HOST_TO_DEVICE;
  (void)writer->Append<DispatchKind>(id, dispatches);
  (void)writer->Append<CopyKind>(id, copies);
}

void AddPlan(StreamWriter* writer, StreamId id) {
  v1::SessionPlan plan;
  plan.set_id(1);
  plan.add_counters("SQ_WAVES");
  plan.add_counters("GRBM_COUNT");
  v1::SessionArchitecture* architecture = plan.add_architectures();
  architecture->set_name("gfx90a");
  architecture->add_passes()->add_counters(0);
  architecture->add_passes()->add_counters(1);
  architecture->add_sampler_passes()->add_counters(1);
  v1::RequestedValue* value = architecture->add_values();
  value->set_name("WavesPerCount");
  value->set_metric(true);
  v1::MetricDefinition* metric = architecture->add_metrics();
  metric->set_name("WavesPerCount");
  metric->set_expression("SQ_WAVES/max(GRBM_COUNT)*CU_NUM");
  v1::SessionAgent* gpu = plan.add_agents();
  gpu->set_agent_id(1);
  gpu->set_architecture("gfx90a");
  v1::AgentConstant* constant = gpu->add_constants();
  constant->set_name("CU_NUM");
  constant->set_value(104);
  (void)writer->AddSessionPlan(id, plan);
}

void AddSessionRecords(StreamWriter* writer, StreamId id) {
  v1::ApiFunction function;
  function.set_name("hipMalloc");
  function.set_domain(v1::API_DOMAIN_HIP);
  function.set_function(7);
  (void)writer->AddApiFunction(id, function);
  v1::SessionEvent session;
  session.set_session(1);
  session.set_plan(1);
  session.set_what(v1::SessionEvent::STARTED);
  (void)writer->AddSessionEvent(id, session);
  CounterRecord values[2];
  values[0].operation = values[1].operation = 3;
  for (CounterRecord& record : values) {
    record.session = record.plan = 1;
    record.kernel_id = 1;
    record.agent_id = 1;
    record.sum = 12.5;
  }
  values[1].each = std::make_shared<std::vector<CounterInstance>>(
      std::vector<CounterInstance>{{0, 1}, {uint64_t{1} << 30, 0.5}});
  (void)writer->Append<CounterKind>(id, values);
  values[1].each = nullptr;
  values[1].counter = 1;
  values[1].end_ns = 1000;
  (void)writer->Append<SampleKind>(id, absl::MakeConstSpan(values).subspan(1));
  ApiCallRecord call;
  call.domain = v1::API_DOMAIN_HIP;
  call.function = 7;
  call.text = "text";
  (void)writer->Append<ApiCallKind>(id, {call});
  MemoryRecord memory;
  memory.operation = v1::MEMORY_OPERATION_ALLOCATE;
  memory.address = 0x7f0000000000;
  memory.bytes = 4096;
  (void)writer->Append<MemoryKind>(id, {memory});
}

std::string Record(int level) {
  std::string bytes;
  WriterOptions options;
  options.compression_level = level;
  auto writer = StreamWriter::Create(std::make_unique<MemorySink>(&bytes), options);
  v1::Process process;
  process.set_comm("seed");
  process.add_arguments("--flag");
  StreamId id = (*writer)->OpenProcess(process);
  AddDictionary(writer->get(), id);
  AddRecords(writer->get(), id);
  AddPlan(writer->get(), id);
  AddSessionRecords(writer->get(), id);
  rocattach_clock clock = {};
  clock.agent_id = 1;
  (void)(*writer)->AddClock(id, clock);
  v1::LossAccount account;
  account.set_final(true);
  account.set_dispatches_seen(3);
  (void)(*writer)->SetAccount(id, account);
  (void)(*writer)->EndProcess(id, {});
  (void)(*writer)->AddSummary({});
  (void)(*writer)->Close();
  return bytes;
}

// In the fuzz target's own form: type, codec and stream, length, payload.
std::string Payloads(absl::string_view stream) {
  std::string out = "\x01";
  FrameScanner scanner([](const SkippedRange&) {});
  scanner.Append(stream);
  scanner.Finish();
  FrameView frame;
  while (scanner.Next(&frame)) {
    // Leaves out the descriptors, which are most of a small recording.
    if (frame.header.type == v1::FRAME_TYPE_STREAM_HEADER) continue;
    out += static_cast<char>(frame.header.type);
    out += static_cast<char>(frame.header.codec | frame.header.stream_id << 2);
    out += static_cast<char>(frame.payload.size() & 0xff);
    out += static_cast<char>(frame.payload.size() >> 8);
    out.append(frame.payload.data(), frame.payload.size());
  }
  return out;
}

absl::Status Write(const std::string& directory, const char* name,
                   absl::string_view bytes) {
  auto sink = OpenFileSink(directory + "/" + name, ExistingFile::kTruncate);
  if (!sink.ok()) return sink.status();
  return (*sink)->Write(bytes);
}

int Main(const std::string& directory) {
  absl::Status status = MakeDirectories(directory, 0755);
  std::string plain = Record(0);
  status.Update(Write(directory, "plain", std::string(1, '\0') + plain));
  status.Update(Write(directory, "compressed", std::string(1, '\0') + Record(1)));
  status.Update(Write(directory, "payloads", Payloads(plain)));
  status.Update(Write(directory, "compressed-payloads", Payloads(Record(1))));
  if (status.ok()) return 0;
  fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}

}  // namespace
}  // namespace rocattach

int main(int argc, char** argv) {
  return argc == 2 ? rocattach::Main(argv[1]) : 2;
}
