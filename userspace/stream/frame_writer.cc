#include "userspace/stream/frame_writer.h"

#include <algorithm>
#include <utility>

#include "userspace/base/status_macros.h"
#include "userspace/stream/stream_header.h"

namespace rocattach {

FrameWriter::FrameWriter(std::unique_ptr<Sink> sink, const WriterOptions& options)
    : sink_(std::move(sink)), options_(options) {
  const int level =
      options_.compression_level.value_or(sink_->compress_by_default() ? 1 : 0);
  if (level > 0) compressor_ = std::make_unique<Compressor>(std::min(level, 19));
  header_ = MakeStreamHeader(options_.recorder_arguments);
}

void FrameWriter::BeginFile(std::unique_ptr<Sink> sink) {
  sink_ = std::move(sink);
  header_ = MakeStreamHeader(options_.recorder_arguments);
  header_due_ = true;
  stats_ = {};
  recorder_sequence_ = 0;
}

v1::ClockSnapshot FrameWriter::Clock() {
  const ClockSnapshot clock = options_.clock();
  AdvanceTo(clock.boottime_ns);
  return ClockToProto(clock);
}

absl::Status FrameWriter::WriteStreamHeader() {
  *header_.mutable_clock() = Clock();
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

absl::Status FrameWriter::WriteKeyFrame(ProcessStream* stream) {
  std::vector<std::string> payloads =
      stream->KeyFramePayloads(header_.recording_id(), Clock());
  // The key frame contains the new entries.
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

absl::Status FrameWriter::Prepare(ProcessStream* stream) {
  if (header_due_ || stats_.bytes - header_frame_bytes_ >= options_.key_frame_bytes ||
      now_ns_ - header_ns_ >= options_.key_frame_ns) {
    RETURN_IF_ERROR(WriteStreamHeader());
  }
  // Readers that have read everything skip key frames, so new entries must be in a
  // separate frame. When a key frame is due, no reader has read everything.
  if (!stream->key_frame_due) {
    for (const std::string& payload : stream->TakeNewEntries()) {
      RETURN_IF_ERROR(
          WriteProcessFrame(stream, v1::FRAME_TYPE_DICTIONARY, 0, 1, payload));
    }
  }
  // A large dictionary is repeated less often, so that it stays a small part of the
  // recording.
  uint64_t interval = std::max(options_.key_frame_bytes, 8 * stream->key_frame_size);
  if (stream->key_frame_due || stream->bytes_since_key >= interval ||
      now_ns_ - stream->key_frame_ns >= options_.key_frame_ns) {
    return WriteKeyFrame(stream);
  }
  return absl::OkStatus();
}

absl::Status FrameWriter::CutBatches(ProcessStream* stream) {
  absl::Status status;
  ForEachRecordKind([&](auto kind) {
    using Kind = decltype(kind);
    if (stream->HasRecords<Kind>()) status.Update(WriteBatch<Kind>(stream));
  });
  return status;
}

absl::Status FrameWriter::WriteMessage(ProcessStream* stream,
                                       const absl::Status& prepared, v1::FrameType type,
                                       uint8_t flags,
                                       const google::protobuf::Message& message) {
  if (!prepared.ok()) {
    MarkGap(stream);
    return prepared;
  }
  message.SerializeToString(&payload_);
  return WriteProcessFrame(stream, type, flags, 1, payload_);
}

void FrameWriter::MarkGap(ProcessStream* stream) {
  // The gap tells readers that something is missing; the key frame repeats what can be
  // repeated.
  ++stream->sequence;
  ++stats_.frames_dropped;
  stream->key_frame_due = true;
}

absl::Status FrameWriter::WriteProcessFrame(ProcessStream* stream, v1::FrameType type,
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
    stream->key_frame_due = true;  // it is retried, and nothing is lost yet
  } else {
    MarkGap(stream);
  }
  return status;
}

absl::Status FrameWriter::WriteRecorderFrame(v1::FrameType type, uint8_t flags,
                                             const google::protobuf::Message& message) {
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

absl::Status FrameWriter::WriteFrame(FrameHeader header, absl::string_view payload) {
  if (compressor_ && compressor_->Compress(payload, &compressed_)) {
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
