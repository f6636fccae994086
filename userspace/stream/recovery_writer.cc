#include "userspace/stream/recovery_writer.h"

#include <utility>

#include "userspace/stream/frame.h"
#include "userspace/stream/record_kinds.h"
#include "userspace/stream/stream_header.h"

namespace rocattach {
namespace {

constexpr size_t kRecoveryWriteBytes = 1 << 20;

void Add(const v1::Recovery& more, v1::Recovery* sum) {
  sum->set_frames_missing(sum->frames_missing() + more.frames_missing());
  sum->set_frames_left_out(sum->frames_left_out() + more.frames_left_out());
  sum->set_bytes_skipped(sum->bytes_skipped() + more.bytes_skipped());
  sum->set_records_lost(sum->records_lost() + more.records_lost());
  sum->set_header_made(sum->header_made() || more.header_made());
  sum->set_end_made(sum->end_made() || more.end_made());
}

}  // namespace

void RecoveryWriter::WriteFrame(absl::string_view frame) {
  FrameHeader header = *DecodeFrameHeader(frame.data());
  // Streams whose sequence numbers readers do not check keep theirs.
  if (sequences_.size() < kMaxTrackedStreams || sequences_.contains(header.stream_id)) {
    auto [sequence, is_new] = sequences_.try_emplace(header.stream_id, 0);
    if (is_new && header.stream_id != 0) counts_.set_streams(counts_.streams() + 1);
    header.sequence = sequence->second++;
  }
  const size_t at = pending_.size();
  pending_.append(frame.data(), frame.size());
  EncodeFrameHeader(header, pending_.data() + at);
  counts_.set_frames(counts_.frames() + 1);
  counts_.set_bytes(counts_.bytes() + frame.size());
  ++result_.frames_written;
  result_.bytes_written += frame.size();
  if (pending_.size() < kRecoveryWriteBytes) return;
  if (status_.ok()) status_ = write_(pending_);
  pending_.clear();
}

void RecoveryWriter::WriteMessage(uint8_t type, uint8_t flags,
                                  const google::protobuf::Message& message) {
  FrameHeader header;
  header.type = type;
  header.flags = flags;
  header.records = 1;
  std::string frame;
  BuildFrame(header, message.SerializeAsString(), &frame);
  WriteFrame(frame);
}

void RecoveryWriter::WriteHeader(const RecordingFacts& facts) {
  if (!facts.header_frame.empty()) {
    WriteFrame(facts.header_frame);
    return;
  }
  lost_.set_header_made(true);
  ++result_.headers_made;
  v1::StreamHeader made = MakeStreamHeader({});
  // Do not describe this machine: the original one is unknown.
  v1::StreamHeader header;
  header.set_recording_id(facts.recording_id.empty() ? made.recording_id()
                                                     : facts.recording_id);
  *header.mutable_clock() = facts.clock;
  *header.mutable_descriptors() = std::move(*made.mutable_descriptors());
  WriteMessage(v1::FRAME_TYPE_STREAM_HEADER, kFrameFlagKey, header);
}

void RecoveryWriter::WriteEnd(const FrameView* frame, v1::StreamEnd end) {
  in_recording_ = false;
  if (frame == nullptr) {
    lost_.set_end_made(true);
    ++result_.ends_made;
  }
  const v1::Recovery lost = std::exchange(lost_, {});
  Add(lost, &result_.lost);
  if (lost.ByteSizeLong() == 0) {  // proto3: zeros take no bytes
    WriteFrame(frame->bytes);
    return;
  }
  // A file may be damaged again after it was recovered.
  Add(lost, end.mutable_recovery());
  end.set_frames(counts_.frames());
  end.set_bytes(counts_.bytes());
  end.set_streams(counts_.streams());
  end.clear_frames_dropped();  // their gaps are closed
  WriteMessage(v1::FRAME_TYPE_END, kFrameFlagLast, end);
}

void RecoveryWriter::WriteMadeEnd() {
  v1::StreamEnd end = counts_;
  SetTotals(records_, &end);
  WriteEnd(nullptr, std::move(end));
}

void RecoveryWriter::OnRecording(const FrameContext& at,
                                 const v1::StreamHeader* header) {
  if (in_recording_) WriteMadeEnd();
  // Losses between two recordings stay in lost_ and count for this one.
  in_recording_ = true;
  counts_.Clear();
  records_ = {};
  sequences_.clear();
  if (at.recording >= facts_.size()) {
    status_.Update(absl::DataLossError("it changed while it was read"));
  } else if (header == nullptr) {
    WriteHeader(facts_[at.recording]);
  }
}

void RecoveryWriter::OnFrame(const FrameView& frame, absl::string_view payload,
                             FrameFate fate) {
  // Frames of another version cannot be renumbered here: their layout is unknown.
  if (fate == FrameFate::kUndecodable || frame.header.version != kFrameVersion) {
    lost_.set_frames_left_out(lost_.frames_left_out() + 1);
    lost_.set_records_lost(lost_.records_lost() + frame.header.records);
    return;
  }
  if (frame.header.type != v1::FRAME_TYPE_END || fate != FrameFate::kUnderstood) {
    WriteFrame(frame.bytes);
    return;
  }
  v1::StreamEnd end;
  (void)end.ParseFromArray(payload.data(), static_cast<int>(payload.size()));
  WriteEnd(&frame, std::move(end));
}

void RecoveryWriter::OnDamage(const Damage& damage) {
  if (damage.kind == Damage::Kind::kMissingFrames) {
    lost_.set_frames_missing(lost_.frames_missing() + damage.frames);
  } else if (damage.kind == Damage::Kind::kSkippedBytes) {
    lost_.set_bytes_skipped(lost_.bytes_skipped() + damage.bytes);
    lost_.set_records_lost(lost_.records_lost() + damage.records);
  }
}

absl::Status RecoveryWriter::Finish() {
  if (in_recording_) WriteMadeEnd();
  Add(lost_, &result_.lost);  // losses after the last end
  if (status_.ok()) status_ = write_(pending_);
  pending_.clear();
  return status_;
}

}  // namespace rocattach
