// The frames of a recording, and what must stand in front of each.
#include <algorithm>
#include <utility>

#include "userspace/base/status_macros.h"
#include "userspace/stream/compression.h"
#include "userspace/stream/frame.h"
#include "userspace/stream/process_stream.h"
#include "userspace/stream/stream_header.h"
#include "userspace/stream/writer.h"

namespace rocattach {
namespace {

// Below this, compressing costs more than it saves.
constexpr size_t kCompressFrom = 96;

}  // namespace

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
