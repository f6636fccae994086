#include "userspace/stream/writer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "userspace/base/status_macros.h"
#include "userspace/stream/compression.h"
#include "userspace/stream/frame.h"
#include "userspace/stream/process_stream.h"
#include "userspace/stream/stream_header.h"
#include "userspace/stream/utf8.h"

namespace rocattach {
namespace {

constexpr size_t kDetailLimit = 4 << 10;
// A plan that names every counter of an architecture has about 100 KiB.
constexpr size_t kMaxPlanBytes = 512 << 10;
// Below this, compressing costs more than it saves.
constexpr size_t kCompressFrom = 96;
// Encoders of a stream that has been idle for so many flushes are freed.
constexpr uint32_t kIdleFlushes = 8;

}  // namespace

StreamWriter::StreamWriter(std::unique_ptr<Sink> sink, WriterOptions options)
    : sink_(std::move(sink)), options_(std::move(options)) {
  int level = options_.compression_level.value_or(sink_->compress_by_default() ? 1 : 0);
  if (level > 0) compressor_ = std::make_unique<Compressor>(std::min(level, 19));
  header_ = MakeStreamHeader(options_.recorder_arguments);
}

StreamWriter::~StreamWriter() {
  if (!closed_) (void)FlushAll();
}

absl::StatusOr<std::unique_ptr<StreamWriter>> StreamWriter::Create(
    std::unique_ptr<Sink> sink, WriterOptions options) {
  std::unique_ptr<StreamWriter> writer(
      new StreamWriter(std::move(sink), std::move(options)));
  RETURN_IF_ERROR(writer->WriteStreamHeader());
  return writer;
}

ProcessStream* StreamWriter::Find(StreamId stream) const {
  auto it = streams_.find(stream);
  return it == streams_.end() ? nullptr : it->second.get();
}

absl::Status StreamWriter::NotFound(StreamId stream) const {
  return absl::NotFoundError(
      absl::StrCat(sink_->name(), ": stream ", stream, " is not open"));
}

StreamId StreamWriter::OpenProcess(v1::Process process) {
  LimitArguments(process.mutable_arguments());
  SanitizeStrings(kTextLimit, &process);
  // Replacing bytes by U+FFFD can make arguments longer again.
  LimitArguments(process.mutable_arguments());
  StreamId id = next_stream_++;
  streams_[id] = std::make_unique<ProcessStream>(id, std::move(process));
  ++stats_.streams;
  return id;
}

absl::Status StreamWriter::AddAgent(StreamId id, v1::Agent agent) {
  ProcessStream* stream = Find(id);
  if (stream == nullptr) return NotFound(id);
  v1::Dictionary entries;
  *entries.add_agents() = std::move(agent);
  SanitizeStrings(kTextLimit, &entries);
  stream->AddEntries(entries);
  return absl::OkStatus();
}

absl::Status StreamWriter::AddQueue(StreamId id, v1::Queue queue) {
  ProcessStream* stream = Find(id);
  if (stream == nullptr) return NotFound(id);
  v1::Dictionary entries;
  *entries.add_queues() = std::move(queue);
  stream->AddEntries(entries);
  return absl::OkStatus();
}

absl::Status StreamWriter::AddKernel(StreamId id, v1::Kernel kernel) {
  ProcessStream* stream = Find(id);
  if (stream == nullptr) return NotFound(id);
  v1::Dictionary entries;
  *entries.add_kernels() = std::move(kernel);
  SanitizeStrings(kTextLimit, &entries);
  stream->AddEntries(entries);
  return absl::OkStatus();
}

absl::Status StreamWriter::AddCodeObject(StreamId id, v1::CodeObject code_object) {
  ProcessStream* stream = Find(id);
  if (stream == nullptr) return NotFound(id);
  v1::Dictionary entries;
  *entries.add_code_objects() = std::move(code_object);
  SanitizeStrings(kTextLimit, &entries);
  stream->AddEntries(entries);
  return absl::OkStatus();
}

absl::Status StreamWriter::AddSessionPlan(StreamId id, v1::SessionPlan plan) {
  ProcessStream* stream = Find(id);
  if (stream == nullptr) return NotFound(id);
  v1::Dictionary entries;
  *entries.add_session_plans() = std::move(plan);
  SanitizeStrings(kDetailLimit, &entries);
  if (entries.ByteSizeLong() > kMaxPlanBytes) {
    return absl::InvalidArgumentError("the session's plan is too large for the stream");
  }
  stream->AddEntries(entries);
  return absl::OkStatus();
}

absl::Status StreamWriter::AddApiFunction(StreamId id, v1::ApiFunction function) {
  ProcessStream* stream = Find(id);
  if (stream == nullptr) return NotFound(id);
  v1::Dictionary entries;
  *entries.add_api_functions() = std::move(function);
  SanitizeStrings(kDetailLimit, &entries);
  stream->AddEntries(entries);
  return absl::OkStatus();
}

absl::Status StreamWriter::AppendDispatches(
    StreamId id, absl::Span<const rocattach_dispatch> records) {
  ProcessStream* stream = Find(id);
  if (stream == nullptr) return NotFound(id);
  absl::Status status;
  while (!records.empty()) {
    DispatchBatchEncoder* batch = stream->dispatches(options_.batch_bytes);
    records.remove_prefix(batch->Append(records));
    if (batch->full()) status.Update(WriteDispatches(stream));
  }
  return status;
}

absl::Status StreamWriter::AppendCopies(StreamId id,
                                        absl::Span<const rocattach_copy> records) {
  ProcessStream* stream = Find(id);
  if (stream == nullptr) return NotFound(id);
  absl::Status status;
  while (!records.empty()) {
    CopyBatchEncoder* batch = stream->copies(options_.batch_bytes);
    records.remove_prefix(batch->Append(records));
    if (batch->full()) status.Update(WriteCopies(stream));
  }
  return status;
}

absl::Status StreamWriter::AppendCounters(StreamId id,
                                          absl::Span<const CounterRecord> records) {
  ProcessStream* stream = Find(id);
  if (stream == nullptr) return NotFound(id);
  absl::Status status;
  while (!records.empty()) {
    CounterBatchEncoder* batch = stream->counters(options_.batch_bytes);
    records.remove_prefix(batch->Append(records));
    if (batch->full()) status.Update(WriteCounters(stream));
  }
  return status;
}

absl::Status StreamWriter::AppendSamples(StreamId id,
                                         absl::Span<const CounterRecord> records) {
  ProcessStream* stream = Find(id);
  if (stream == nullptr) return NotFound(id);
  absl::Status status;
  while (!records.empty()) {
    CounterBatchEncoder* batch = stream->samples(options_.batch_bytes);
    records.remove_prefix(batch->Append(records));
    if (batch->full()) status.Update(WriteSamples(stream));
  }
  return status;
}

absl::Status StreamWriter::AppendApiCalls(StreamId id,
                                          absl::Span<const ApiCallRecord> records) {
  ProcessStream* stream = Find(id);
  if (stream == nullptr) return NotFound(id);
  absl::Status status;
  while (!records.empty()) {
    ApiBatchEncoder* batch = stream->api_calls(options_.batch_bytes);
    records.remove_prefix(batch->Append(records));
    if (batch->full()) status.Update(WriteApiCalls(stream));
  }
  return status;
}

absl::Status StreamWriter::AddWindowEvent(StreamId id, v1::WindowEvent event) {
  ProcessStream* stream = Find(id);
  if (stream == nullptr) return NotFound(id);
  SanitizeStrings(kDetailLimit, &event);
  absl::Status status = CutBatches(stream);
  // A key frame that comes first must not hold the event that follows it.
  absl::Status prepared = Prepare(stream);
  stream->AddWindow(event);
  v1::Event wrapped;
  *wrapped.mutable_window() = std::move(event);
  status.Update(WriteEvent(stream, prepared, wrapped, 0));
  return status;
}

absl::Status StreamWriter::AddClock(StreamId id, const rocattach_clock& clock) {
  ProcessStream* stream = Find(id);
  if (stream == nullptr) return NotFound(id);
  v1::Event event;
  v1::ClockRelation* relation = event.mutable_clock();
  relation->set_agent_id(clock.agent_id);
  relation->set_gpu_ticks(clock.gpu_ticks);
  relation->set_boottime_ns(clock.boottime_ns);
  relation->set_ticks_per_second(clock.ticks_per_second);
  // No order with records to keep: the times are in it.
  absl::Status prepared = Prepare(stream);
  stream->AddClock(*relation);
  return WriteEvent(stream, prepared, event, 0);
}

absl::Status StreamWriter::AddSessionEvent(StreamId id, v1::SessionEvent event) {
  ProcessStream* stream = Find(id);
  if (stream == nullptr) return NotFound(id);
  SanitizeStrings(kDetailLimit, &event);
  absl::Status status = CutBatches(stream);
  absl::Status prepared = Prepare(stream);
  if (!prepared.ok()) {
    NoteUnwritten(stream);
    status.Update(prepared);
    return status;
  }
  event.SerializeToString(&payload_);
  status.Update(WriteProcessFrame(stream, v1::FRAME_TYPE_SESSION, 0, 1, payload_));
  return status;
}

absl::Status StreamWriter::SetAccount(StreamId id, v1::LossAccount account) {
  ProcessStream* stream = Find(id);
  if (stream == nullptr) return NotFound(id);
  absl::Status status = CutBatches(stream);
  account.set_dispatches_delivered(stream->dispatches_count.delivered);
  account.set_copies_delivered(stream->copies_count.delivered);
  account.set_dropped_writer(stream->dispatches_count.dropped +
                             stream->copies_count.dropped);
  account.set_counted_delivered(stream->counted_count.delivered);
  account.set_counted_dropped(account.counted_dropped() +
                              stream->counted_count.dropped);
  account.set_samples_delivered(stream->samples_count.delivered);
  account.set_samples_dropped(account.samples_dropped() +
                              stream->samples_count.dropped);
  account.set_api_calls_delivered(stream->api_calls_count.delivered);
  account.set_api_calls_dropped(account.api_calls_dropped() +
                                stream->api_calls_count.dropped);
  if (stream->account) {
    v1::LossAccount before = *stream->account;
    before.set_time_ns(account.time_ns());
    if (before.SerializeAsString() == account.SerializeAsString()) return status;
  }
  absl::Status prepared = Prepare(stream);
  stream->account = account;
  if (prepared.ok()) {
    account.SerializeToString(&payload_);
    status.Update(WriteProcessFrame(stream, v1::FRAME_TYPE_ACCOUNT, 0, 1, payload_));
  } else {
    NoteUnwritten(stream);
    status.Update(prepared);
  }
  return status;
}

absl::Status StreamWriter::EndProcess(StreamId id, v1::ProcessEnd end) {
  auto it = streams_.find(id);
  if (it == streams_.end()) return NotFound(id);
  std::unique_ptr<ProcessStream> stream = std::move(it->second);
  streams_.erase(it);
  v1::Event event;
  *event.mutable_end() = end;
  absl::Status status = CutBatches(stream.get());
  absl::Status prepared = Prepare(stream.get());
  stream->end = std::move(end);
  absl::Status ended = WriteEvent(stream.get(), prepared, event, kFrameFlagLast);
  status.Update(ended);
  if (!ended.ok()) ending_.push_back(std::move(stream));
  return status;
}

absl::Status StreamWriter::AddSummary(const v1::WatcherSummary& summary) {
  return WriteRecorderFrame(v1::FRAME_TYPE_SUMMARY, 0, summary);
}

absl::Status StreamWriter::Flush(uint64_t now_ns) {
  now_ns_ = std::max(now_ns_, now_ns);
  absl::Status status;
  for (auto& [id, stream] : streams_) {
    if (stream->key_frame_due || stream->has_new_entries()) {
      status.Update(Prepare(stream.get()));
    }
    if (!stream->has_records()) {
      if (++stream->idle_flushes == kIdleFlushes) stream->ReleaseEncoders();
      continue;
    }
    stream->idle_flushes = 0;
    if (stream->batch_seen_ns == 0) {
      stream->batch_seen_ns = now_ns_;
    } else if (now_ns_ - stream->batch_seen_ns >= options_.batch_ns) {
      status.Update(CutBatches(stream.get()));
    }
  }
  // Ends that could not be written before.
  for (auto& stream : ending_) {
    absl::Status ended = WriteKeyFrame(stream.get());
    if (ended.ok()) stream.reset();
    status.Update(ended);
  }
  ending_.erase(std::remove(ending_.begin(), ending_.end(), nullptr), ending_.end());
  return status;
}

absl::Status StreamWriter::FlushAll() {
  absl::Status status = Flush(now_ns_);
  for (auto& [id, stream] : streams_) status.Update(CutBatches(stream.get()));
  return status;
}

absl::Status StreamWriter::Close() {
  absl::Status status = FlushAll();
  closed_ = true;
  v1::StreamEnd end;
  *end.mutable_clock() = ClockToProto(options_.clock());
  end.set_frames(stats_.frames);
  end.set_bytes(stats_.bytes);
  end.set_streams(stats_.streams);
  end.set_dispatches(stats_.dispatches);
  end.set_copies(stats_.copies);
  end.set_counter_values(stats_.counter_values);
  end.set_sample_values(stats_.sample_values);
  end.set_api_calls(stats_.api_calls);
  end.set_frames_dropped(stats_.frames_dropped);
  end.set_records_dropped(stats_.records_dropped);
  status.Update(WriteRecorderFrame(v1::FRAME_TYPE_END, kFrameFlagLast, end));
  return status;
}

const v1::LossAccount* StreamWriter::account(StreamId id) const {
  const ProcessStream* stream = Find(id);
  return stream != nullptr && stream->account ? &*stream->account : nullptr;
}

uint64_t StreamWriter::delivered_dispatches(StreamId id) const {
  const ProcessStream* stream = Find(id);
  return stream == nullptr ? 0 : stream->dispatches_count.delivered;
}

uint64_t StreamWriter::delivered_copies(StreamId id) const {
  const ProcessStream* stream = Find(id);
  return stream == nullptr ? 0 : stream->copies_count.delivered;
}

absl::Status StreamWriter::WriteStreamHeader() {
  ClockSnapshot clock = options_.clock();
  *header_.mutable_clock() = ClockToProto(clock);
  now_ns_ = std::max(now_ns_, clock.boottime_ns);
  FrameHeader frame;
  frame.type = v1::FRAME_TYPE_STREAM_HEADER;
  frame.flags = kFrameFlagKey;
  frame.sequence = recorder_sequence_;
  frame.records = 1;
  absl::Status status = WriteFrame(frame, header_.SerializeAsString());
  header_due_ = !status.ok();
  if (!status.ok()) return status;
  ++recorder_sequence_;
  header_ns_ = now_ns_;
  header_frame_bytes_ = stats_.bytes;
  return absl::OkStatus();
}

absl::Status StreamWriter::WriteKeyFrame(ProcessStream* stream) {
  ClockSnapshot clock = options_.clock();
  now_ns_ = std::max(now_ns_, clock.boottime_ns);
  std::vector<std::string> payloads =
      stream->KeyFramePayloads(header_.recording_id(), ClockToProto(clock));
  // What is new by now is in the key frame.
  (void)stream->TakeNewEntries();
  stream->key_frame_due = false;
  stream->key_frame_size = 0;
  for (const std::string& payload : payloads) {
    stream->key_frame_size += payload.size();
    RETURN_IF_ERROR(
        WriteProcessFrame(stream, v1::FRAME_TYPE_KEY_FRAME, kFrameFlagKey, 1, payload));
  }
  stream->bytes_since_key = 0;
  stream->key_frame_ns = now_ns_;
  return absl::OkStatus();
}

absl::Status StreamWriter::Prepare(ProcessStream* stream) {
  if (header_due_ || stats_.bytes - header_frame_bytes_ >= options_.key_frame_bytes ||
      now_ns_ - header_ns_ >= options_.key_frame_ns) {
    RETURN_IF_ERROR(WriteStreamHeader());
  }
  // Readers that have heard everything pass over key frames: what is new must stand in
  // a frame of its own. When a key frame is due, no reader has heard everything.
  if (!stream->key_frame_due) {
    for (const std::string& payload : stream->TakeNewEntries()) {
      RETURN_IF_ERROR(
          WriteProcessFrame(stream, v1::FRAME_TYPE_DICTIONARY, 0, 1, payload));
    }
  }
  // A large dictionary is repeated less often, so that it stays a small part of the
  // whole.
  uint64_t interval = std::max(options_.key_frame_bytes, 8 * stream->key_frame_size);
  if (stream->key_frame_due || stream->bytes_since_key >= interval ||
      now_ns_ - stream->key_frame_ns >= options_.key_frame_ns) {
    return WriteKeyFrame(stream);
  }
  return absl::OkStatus();
}

template <typename Encoder>
absl::Status StreamWriter::WriteBatch(ProcessStream* stream, v1::FrameType type,
                                      Encoder* batch, size_t operations,
                                      RecordCounts* counts, uint64_t* written) {
  const size_t records = batch->count();
  absl::Status status = Prepare(stream);
  batch->EncodeTo(&payload_);
  stream->batch_seen_ns = 0;
  if (status.ok()) {
    status = WriteProcessFrame(stream, type, 0, records, payload_);
  } else {
    NoteUnwritten(stream);
  }
  if (!status.ok()) {
    stats_.records_dropped += records;
    counts->dropped += operations;
    return status;
  }
  counts->delivered += operations;
  *written += records;
  return status;
}

absl::Status StreamWriter::WriteDispatches(ProcessStream* stream) {
  DispatchBatchEncoder* batch = stream->dispatches(options_.batch_bytes);
  return WriteBatch(stream, v1::FRAME_TYPE_DISPATCHES, batch, batch->count(),
                    &stream->dispatches_count, &stats_.dispatches);
}

absl::Status StreamWriter::WriteCopies(ProcessStream* stream) {
  CopyBatchEncoder* batch = stream->copies(options_.batch_bytes);
  return WriteBatch(stream, v1::FRAME_TYPE_COPIES, batch, batch->count(),
                    &stream->copies_count, &stats_.copies);
}

absl::Status StreamWriter::WriteCounters(ProcessStream* stream) {
  CounterBatchEncoder* batch = stream->counters(options_.batch_bytes);
  return WriteBatch(stream, v1::FRAME_TYPE_COUNTERS, batch, batch->operations(),
                    &stream->counted_count, &stats_.counter_values);
}

absl::Status StreamWriter::WriteSamples(ProcessStream* stream) {
  CounterBatchEncoder* batch = stream->samples(options_.batch_bytes);
  return WriteBatch(stream, v1::FRAME_TYPE_SAMPLES, batch, batch->operations(),
                    &stream->samples_count, &stats_.sample_values);
}

absl::Status StreamWriter::WriteApiCalls(ProcessStream* stream) {
  ApiBatchEncoder* batch = stream->api_calls(options_.batch_bytes);
  return WriteBatch(stream, v1::FRAME_TYPE_API_CALLS, batch, batch->count(),
                    &stream->api_calls_count, &stats_.api_calls);
}

absl::Status StreamWriter::CutBatches(ProcessStream* stream) {
  absl::Status status;
  if (stream->has_dispatches()) status.Update(WriteDispatches(stream));
  if (stream->has_copies()) status.Update(WriteCopies(stream));
  if (stream->has_counters()) status.Update(WriteCounters(stream));
  if (stream->has_samples()) status.Update(WriteSamples(stream));
  if (stream->has_api_calls()) status.Update(WriteApiCalls(stream));
  return status;
}

absl::Status StreamWriter::WriteEvent(ProcessStream* stream, absl::Status prepared,
                                      const v1::Event& event, uint8_t flags) {
  if (!prepared.ok()) {
    NoteUnwritten(stream);
    return prepared;
  }
  event.SerializeToString(&payload_);
  return WriteProcessFrame(stream, v1::FRAME_TYPE_EVENT, flags, 1, payload_);
}

void StreamWriter::NoteUnwritten(ProcessStream* stream) {
  // The gap tells readers that something is missing; the key frame repeats what can be.
  ++stream->sequence;
  ++stats_.frames_dropped;
  stream->key_frame_due = true;
}

absl::Status StreamWriter::WriteProcessFrame(ProcessStream* stream, v1::FrameType type,
                                             uint8_t flags, size_t records,
                                             absl::string_view payload) {
  FrameHeader header;
  header.type = static_cast<uint8_t>(type);
  header.flags = flags;
  header.stream_id = stream->id;
  header.sequence = stream->sequence;
  header.records = static_cast<uint32_t>(records);
  uint64_t before = stats_.bytes;
  absl::Status status = WriteFrame(header, payload);
  stream->bytes_since_key += stats_.bytes - before;
  if (status.ok()) {
    ++stream->sequence;
  } else if (type == v1::FRAME_TYPE_KEY_FRAME) {
    stream->key_frame_due = true;  // and nothing is lost yet
  } else {
    NoteUnwritten(stream);
  }
  return status;
}

absl::Status StreamWriter::WriteRecorderFrame(
    v1::FrameType type, uint8_t flags, const google::protobuf::Message& message) {
  absl::Status status;
  if (header_due_) status = WriteStreamHeader();
  FrameHeader header;
  header.type = static_cast<uint8_t>(type);
  header.flags = flags;
  header.sequence = recorder_sequence_++;
  header.records = 1;
  if (status.ok()) {
    message.SerializeToString(&payload_);
    status = WriteFrame(header, payload_);
  }
  if (!status.ok()) ++stats_.frames_dropped;
  return status;
}

absl::Status StreamWriter::WriteFrame(FrameHeader header, absl::string_view payload) {
  if (compressor_ && payload.size() >= kCompressFrom &&
      compressor_->Compress(payload, &compressed_)) {
    header.codec = static_cast<uint8_t>(FrameCodec::kZstd);
    payload = compressed_;
  }
  BuildFrame(header, payload, &frame_);
  RETURN_IF_ERROR(sink_->Write(frame_));
  ++stats_.frames;
  stats_.bytes += frame_.size();
  return absl::OkStatus();
}

}  // namespace rocattach
