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

}  // namespace rocattach
