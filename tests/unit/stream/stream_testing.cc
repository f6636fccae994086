#include "tests/unit/stream/stream_testing.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "userspace/abi/hip_stream.h"

namespace rocattach {

std::vector<rocattach_dispatch> RegularDispatches(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<uint64_t> jitter(0, 400);
  std::vector<rocattach_dispatch> records(count);
  uint64_t now = 5'000'000'000'000;
  uint64_t queue_end[2] = {};
  uint64_t packet[2] = {};
  for (size_t i = 0; i < count; ++i) {
    rocattach_dispatch& record = records[i];
    uint32_t queue = static_cast<uint32_t>(i / 7 % 2);
    record.kind = ROCATTACH_RECORD_DISPATCH;
    record.kernel_id = static_cast<uint32_t>(1 + i % 5);
    record.correlation_id = i + 1;
    record.enqueue_ns = now += 4000 + jitter(random);
    record.start_ns =
        std::max(record.enqueue_ns + 900, queue_end[queue]) + jitter(random);
    record.end_ns = queue_end[queue] = record.start_ns + 5000 + jitter(random);
    record.queue_id = queue + 1;
    record.tid = 4711;
    record.grid_x = 1u << 20;
    record.grid_y = record.grid_z = 1;
    record.workgroup_x = 256;
    record.workgroup_y = record.workgroup_z = 1;
    record.agent_id = 2;
    record.lds_bytes = record.kernel_id == 3 ? 16384 : 0;
    record.packet_index = packet[queue]++;
  }
  return records;
}

namespace {

// Mostly small, sometimes anything, sometimes an extreme.
uint64_t AnyNumber(std::mt19937_64* random) {
  uint64_t number = (*random)();
  switch ((*random)() % 6) {
    case 0:
      return number;
    case 1:
      return ~uint64_t{0} - number % 3;
    case 2:
      return 0;
    case 3:
      return uint64_t{1} << (number % 64);
    default:
      return number % 1000;
  }
}

}  // namespace

std::vector<rocattach_dispatch> RandomDispatches(size_t count,
                                                 std::mt19937_64* random) {
  std::vector<rocattach_dispatch> records(count);
  for (rocattach_dispatch& record : records) {
    record.kind = ROCATTACH_RECORD_DISPATCH;
    record.flags = static_cast<uint16_t>(AnyNumber(random));
    record.kernel_id = static_cast<uint32_t>(AnyNumber(random));
    record.correlation_id = AnyNumber(random);
    record.enqueue_ns = AnyNumber(random);
    record.start_ns = AnyNumber(random);
    record.end_ns = AnyNumber(random);
    record.queue_id = static_cast<uint32_t>(AnyNumber(random));
    record.tid = static_cast<uint32_t>(AnyNumber(random));
    record.grid_x = static_cast<uint32_t>(AnyNumber(random));
    record.grid_y = static_cast<uint32_t>(AnyNumber(random));
    record.grid_z = static_cast<uint32_t>(AnyNumber(random));
    record.workgroup_x = static_cast<uint16_t>(AnyNumber(random));
    record.workgroup_y = static_cast<uint16_t>(AnyNumber(random));
    record.workgroup_z = static_cast<uint16_t>(AnyNumber(random));
    record.agent_id = static_cast<uint16_t>(AnyNumber(random));
    record.lds_bytes = static_cast<uint32_t>(AnyNumber(random));
    record.scratch_bytes = static_cast<uint32_t>(AnyNumber(random));
    record.packet_index = AnyNumber(random) & ~kHipStreamTag;
    if ((*random)() % 2 == 0) {
      record.packet_index = PacketIndexOf(static_cast<uint32_t>(AnyNumber(random)));
    }
    record.dispatch_id = AnyNumber(random);
  }
  return records;
}

std::vector<rocattach_copy> RandomCopies(size_t count, std::mt19937_64* random) {
  std::vector<rocattach_copy> records(count);
  for (rocattach_copy& record : records) {
    record.kind = ROCATTACH_RECORD_COPY;
    record.flags = static_cast<uint16_t>(AnyNumber(random));
    record.src_agent_id = static_cast<uint16_t>(AnyNumber(random));
    record.dst_agent_id = static_cast<uint16_t>(AnyNumber(random));
    record.correlation_id = AnyNumber(random);
    record.enqueue_ns = AnyNumber(random);
    record.start_ns = AnyNumber(random);
    record.end_ns = AnyNumber(random);
    record.bytes = AnyNumber(random);
    record.tid = static_cast<uint32_t>(AnyNumber(random));
    record.direction = static_cast<uint16_t>(AnyNumber(random));
    record.engine = static_cast<uint16_t>(AnyNumber(random));
    record.src_address = AnyNumber(random);
    record.dst_address = AnyNumber(random);
    record.hip_stream = static_cast<uint32_t>(AnyNumber(random));
  }
  return records;
}

std::string Describe(const rocattach_dispatch& r) {
  return absl::StrCat("kind=", r.kind, " flags=", r.flags, " kernel=", r.kernel_id,
                      " correlation=", r.correlation_id, " enqueue=", r.enqueue_ns,
                      " start=", r.start_ns, " end=", r.end_ns, " queue=", r.queue_id,
                      " tid=", r.tid, " grid=", r.grid_x, ",", r.grid_y, ",", r.grid_z,
                      " workgroup=", r.workgroup_x, ",", r.workgroup_y, ",",
                      r.workgroup_z, " agent=", r.agent_id, " lds=", r.lds_bytes,
                      " scratch=", r.scratch_bytes, " packet=", r.packet_index,
                      " dispatch=", r.dispatch_id);
}

std::string Describe(const rocattach_copy& r) {
  return absl::StrCat("kind=", r.kind, " flags=", r.flags, " src=", r.src_agent_id,
                      " dst=", r.dst_agent_id, " correlation=", r.correlation_id,
                      " enqueue=", r.enqueue_ns, " start=", r.start_ns,
                      " end=", r.end_ns, " bytes=", r.bytes, " tid=", r.tid,
                      " direction=", r.direction, " engine=", r.engine,
                      " from=", r.src_address, " to=", r.dst_address,
                      " stream=", r.hip_stream);
}

void KeepingVisitor::OnRecording(const FrameContext& at,
                                 const v1::StreamHeader* header) {
  EXPECT_EQ(at.recording, recordings);
  ++recordings;
  if (header != nullptr) headers.push_back(*header);
}
void KeepingVisitor::OnProcess(const FrameContext& at, const v1::Process& process) {
  streams[{at.recording, at.stream}].processes.push_back(process);
}
void KeepingVisitor::OnAgent(const FrameContext& at, const v1::Agent& agent) {
  streams[{at.recording, at.stream}].agents[agent.id()] = agent;
}
void KeepingVisitor::OnQueue(const FrameContext& at, const v1::Queue& queue) {
  streams[{at.recording, at.stream}].queues[queue.id()] = queue;
}
void KeepingVisitor::OnKernel(const FrameContext& at, const v1::Kernel& kernel) {
  streams[{at.recording, at.stream}].kernels[kernel.id()] = kernel;
}
void KeepingVisitor::OnCodeObject(const FrameContext& at,
                                  const v1::CodeObject& object) {
  streams[{at.recording, at.stream}].code_objects[object.id()] = object;
}
void KeepingVisitor::OnDispatches(const FrameContext& at,
                                  absl::Span<const rocattach_dispatch> records) {
  auto& kept = streams[{at.recording, at.stream}].dispatches;
  kept.insert(kept.end(), records.begin(), records.end());
}
void KeepingVisitor::OnCopies(const FrameContext& at,
                              absl::Span<const rocattach_copy> records) {
  auto& kept = streams[{at.recording, at.stream}].copies;
  kept.insert(kept.end(), records.begin(), records.end());
}
void KeepingVisitor::OnWindow(const FrameContext& at, const v1::WindowEvent& event) {
  streams[{at.recording, at.stream}].windows.push_back(event);
}
void KeepingVisitor::OnClock(const FrameContext& at, const v1::ClockRelation& clock) {
  streams[{at.recording, at.stream}].clocks.push_back(clock);
}
void KeepingVisitor::OnSampling(const FrameContext& at,
                                const v1::SamplingEvent& event) {
  streams[{at.recording, at.stream}].sampling.push_back(event);
}
void KeepingVisitor::OnSession(const FrameContext& at, const v1::SessionEvent& event) {
  streams[{at.recording, at.stream}].sessions.push_back(event);
}
void KeepingVisitor::OnAccount(const FrameContext& at, const v1::LossAccount& account) {
  streams[{at.recording, at.stream}].accounts.push_back(account);
}
void KeepingVisitor::OnProcessEnd(const FrameContext& at, const v1::ProcessEnd& end) {
  streams[{at.recording, at.stream}].ends.push_back(end);
}
void KeepingVisitor::OnSummary(const FrameContext&, const v1::WatcherSummary& summary) {
  summaries.push_back(summary);
}
void KeepingVisitor::OnStreamEnd(const FrameContext&, const v1::StreamEnd& end) {
  stream_ends.push_back(end);
}
void KeepingVisitor::OnDamage(const Damage& damage) {
  damages.push_back(damage);
}

size_t KeepingVisitor::dispatch_count() const {
  size_t count = 0;
  for (const auto& [key, stream] : streams) count += stream.dispatches.size();
  return count;
}

bool KeepingVisitor::HasDamage(Damage::Kind kind) const {
  for (const Damage& damage : damages) {
    if (damage.kind == kind) return true;
  }
  return false;
}

ReadStats ReadBytes(absl::string_view bytes, KeepingVisitor* visitor) {
  StreamDecoder decoder(visitor);
  decoder.Feed(bytes);
  decoder.FinishInput();
  return decoder.stats();
}

std::vector<size_t> FrameOffsets(absl::string_view bytes) {
  std::vector<size_t> offsets;
  FrameScanner scanner([](const SkippedRange& range) {
    ADD_FAILURE() << range.bytes << " bytes skipped at " << range.offset;
  });
  scanner.Append(bytes);
  scanner.Finish();
  FrameView frame;
  while (scanner.Next(&frame)) offsets.push_back(frame.offset);
  offsets.push_back(bytes.size());
  return offsets;
}

std::unique_ptr<StreamWriter> MakeWriter(std::string* out, int level) {
  WriterOptions options;
  options.compression_level = level;
  options.clock = [] {
    return ClockSnapshot{1'000, 900, 901, 1'700'000'000'000'000'000};
  };
  auto writer = StreamWriter::Create(std::make_unique<MemorySink>(out), options);
  EXPECT_TRUE(writer.ok()) << writer.status();
  return *std::move(writer);
}

std::string SampleRecording(int level) {
  std::string bytes;
  std::unique_ptr<StreamWriter> writer = MakeWriter(&bytes, level);
  v1::Process process;
  process.set_pid(100);
  process.set_comm("app");
  process.set_executable("/usr/bin/app");
  StreamId app = writer->OpenProcess(process);
  v1::WindowEvent event;
  event.set_state(v1::WINDOW_STATE_ATTACHED);
  event.set_mode(v1::WINDOW_MODE_HELD);
  event.set_hit_ns(1000);
  event.set_released_ns(151000);
  EXPECT_TRUE(writer->AddWindowEvent(app, event).ok());
  v1::Agent agent;
  agent.set_id(2);
  agent.set_type(v1::AGENT_TYPE_GPU);
  agent.set_name("gfx90a");
  EXPECT_TRUE(writer->AddAgent(app, agent).ok());
  for (uint32_t id = 1; id <= 5; ++id) {
    v1::Kernel kernel;
    kernel.set_id(id);
    kernel.set_name(absl::StrCat("kernel_", id));
    EXPECT_TRUE(writer->AddKernel(app, kernel).ok());
  }
  std::vector<rocattach_dispatch> records = RegularDispatches(40);
  EXPECT_TRUE(
      writer->Append<DispatchKind>(app, absl::MakeConstSpan(records).subspan(0, 20))
          .ok());
  EXPECT_TRUE(writer->FlushAll().ok());
  EXPECT_TRUE(
      writer->Append<DispatchKind>(app, absl::MakeConstSpan(records).subspan(20)).ok());
  std::mt19937_64 random(7);
  EXPECT_TRUE(writer->Append<CopyKind>(app, RandomCopies(3, &random)).ok());

  process.set_pid(101);
  process.set_comm("other");
  StreamId other = writer->OpenProcess(process);
  event.set_state(v1::WINDOW_STATE_REFUSED);
  event.set_reason(v1::ATTACH_REASON_ALREADY_TRACED);
  EXPECT_TRUE(writer->AddWindowEvent(other, event).ok());

  v1::LossAccount account;
  account.set_final(true);
  account.set_dispatches_seen(40);
  account.set_copies_seen(3);
  EXPECT_TRUE(writer->SetAccount(app, account).ok());
  v1::ProcessEnd end;
  end.set_how(v1::ProcessEnd::EXITED);
  EXPECT_TRUE(writer->EndProcess(app, end).ok());
  EXPECT_TRUE(writer->EndProcess(other, end).ok());
  v1::WatcherSummary summary;
  summary.set_windows_attached(1);
  summary.set_windows_refused(1);
  EXPECT_TRUE(writer->AddSummary(summary).ok());
  EXPECT_TRUE(writer->Close().ok());
  return bytes;
}

}  // namespace rocattach
