#include "userspace/stream/decoder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

template <typename M>
absl::Status Parse(absl::string_view payload, M* message) {
  if (message->ParseFromArray(payload.data(), static_cast<int>(payload.size()))) {
    return absl::OkStatus();
  }
  return absl::DataLossError(
      absl::StrCat("payload is not a ", message->GetDescriptor()->name()));
}

bool IsKnownType(uint8_t type) {
  if (IsRecordFrame(type)) return true;
  switch (type) {
    case v1::FRAME_TYPE_STREAM_HEADER:
    case v1::FRAME_TYPE_DICTIONARY:
    case v1::FRAME_TYPE_SESSION:
    case v1::FRAME_TYPE_EVENT:
    case v1::FRAME_TYPE_ACCOUNT:
    case v1::FRAME_TYPE_KEY_FRAME:
    case v1::FRAME_TYPE_END:
    case v1::FRAME_TYPE_SUMMARY:
      return true;
    default:
      return false;
  }
}

}  // namespace

StreamDecoder::StreamDecoder(StreamVisitor* visitor)
    : visitor_(visitor),
      scanner_([this](const SkippedRange& range) { HandleSkip(range); }) {}

void StreamDecoder::Feed(absl::string_view bytes) {
  // Work in pieces, so that a large span is not copied as a whole.
  constexpr size_t kPiece = 1 << 20;
  FrameView frame;
  while (!bytes.empty()) {
    absl::string_view piece = bytes.substr(0, kPiece);
    bytes.remove_prefix(piece.size());
    stats_.bytes += piece.size();
    scanner_.Append(piece);
    while (scanner_.Next(&frame)) HandleFrame(frame);
  }
}

void StreamDecoder::FinishInput() {
  FrameView frame;
  scanner_.Finish();
  while (scanner_.Next(&frame)) HandleFrame(frame);
  EndRecording();
  scanner_.Reset();
}

Damage StreamDecoder::NewDamage(Damage::Kind kind) const {
  Damage damage;
  damage.kind = kind;
  damage.offset = context_.offset;
  damage.recording = context_.recording;
  damage.stream = context_.stream;
  return damage;
}

void StreamDecoder::HandleSkip(const SkippedRange& range) {
  stats_.skipped_bytes += range.bytes;
  ++stats_.skipped_ranges;
  stats_.lost_records += range.damaged_records;
  if (range.at_end) stats_.truncated_bytes += range.bytes;
  Damage damage = NewDamage(Damage::Kind::kSkippedBytes);
  damage.offset = range.offset;
  damage.bytes = range.bytes;
  damage.frames = range.damaged_frames;
  damage.records = range.damaged_records;
  damage.at_end = range.at_end;
  damage.what =
      absl::StrCat(range.bytes, " bytes at offset ", range.offset,
                   range.at_end ? " are the beginning of a frame that was cut off"
                                : " belong to no intact frame");
  visitor_->OnDamage(damage);
}

void StreamDecoder::AbandonInput() {
  in_recording_ = recording_ended_ = false;
  streams_.clear();
  scanner_.Reset();
}

void StreamDecoder::HandleFrame(const FrameView& frame) {
  context_.stream = frame.header.stream_id;
  context_.sequence = frame.header.sequence;
  context_.offset = frame.offset;
  context_.repeated = false;
  absl::Status status;
  if (frame.header.version != kFrameVersion || !IsKnownType(frame.header.type)) {
    PlaceFrame(frame, "", nullptr);
    (void)CheckSequence(frame);
    ++stats_.unknown_frames;
    Damage damage = NewDamage(Damage::Kind::kUnknownFrame);
    damage.records = frame.header.records;
    damage.what =
        absl::StrCat("frame of version ", frame.header.version, ", type ",
                     frame.header.type, " is not known to this program: skipped");
    visitor_->OnDamage(damage);
    Observe(frame, "", FrameFate::kUnknown);
    return;
  }
  absl::string_view payload;
  status = Uncompress(frame, &payload);
  if (status.ok()) status = HandlePayload(frame, payload);
  if (status.ok()) {
    ++stats_.frames;
    Observe(frame, payload, FrameFate::kUnderstood);
    return;
  }
  ++stats_.undecodable_frames;
  stats_.lost_records += frame.header.records;
  Damage damage = NewDamage(Damage::Kind::kUndecodable);
  damage.bytes = frame.bytes.size();
  damage.frames = 1;
  damage.records = frame.header.records;
  damage.what = absl::StrCat("frame at offset ", frame.offset, ": ",
                             absl::string_view(status.message()));
  visitor_->OnDamage(damage);
  Observe(frame, "", FrameFate::kUndecodable);
}

absl::Status StreamDecoder::Uncompress(const FrameView& frame,
                                       absl::string_view* payload) {
  switch (static_cast<FrameCodec>(frame.header.codec)) {
    case FrameCodec::kNone:
      *payload = frame.payload;
      return absl::OkStatus();
    case FrameCodec::kZstd:
      RETURN_IF_ERROR(decompressor_.Decompress(frame.payload, &plain_));
      *payload = plain_;
      return absl::OkStatus();
    default:
      return absl::UnimplementedError(
          absl::StrCat("codec ", frame.header.codec, " is not known"));
  }
}

absl::Status StreamDecoder::HandlePayload(const FrameView& frame,
                                          absl::string_view payload) {
  switch (frame.header.type) {
    case v1::FRAME_TYPE_STREAM_HEADER:
      return HandleHeader(frame, payload);
    case v1::FRAME_TYPE_DICTIONARY:
    case v1::FRAME_TYPE_KEY_FRAME:
      return HandleDictionary(frame, payload);
    default:
      break;
  }
  PlaceFrame(frame, "", nullptr);
  (void)CheckSequence(frame);
  if (IsRecordFrame(frame.header.type)) {
    return HandleRecords(frame.header.type, payload);
  }
  switch (frame.header.type) {
    case v1::FRAME_TYPE_SESSION: {
      v1::SessionEvent event;
      RETURN_IF_ERROR(Parse(payload, &event));
      visitor_->OnSession(context_, event);
      return absl::OkStatus();
    }
    case v1::FRAME_TYPE_EVENT:
      return HandleEvent(payload);
    case v1::FRAME_TYPE_ACCOUNT: {
      v1::LossAccount account;
      RETURN_IF_ERROR(Parse(payload, &account));
      visitor_->OnAccount(context_, account);
      return absl::OkStatus();
    }
    case v1::FRAME_TYPE_SUMMARY: {
      v1::WatcherSummary summary;
      RETURN_IF_ERROR(Parse(payload, &summary));
      visitor_->OnSummary(context_, summary);
      return absl::OkStatus();
    }
    default:
      return HandleStreamEnd(payload);
  }
}

// A frame begins another recording if it has another recording id, follows an end
// frame, or has a sequence number that its stream has already passed. In the last case
// files were concatenated, and the frames between them are damaged.
void StreamDecoder::PlaceFrame(const FrameView& frame, absl::string_view recording_id,
                               const v1::StreamHeader* header) {
  bool begins = !in_recording_ || recording_ended_;
  if (!begins && !recording_id.empty() && !recording_id_.empty()) {
    begins = recording_id != recording_id_;
  }
  auto state = streams_.find(frame.header.stream_id);
  if (!begins && state != streams_.end()) {
    begins =
        static_cast<int32_t>(frame.header.sequence - state->second.next_sequence) < 0;
  }
  if (!begins) {
    if (recording_id_.empty()) recording_id_ = std::string(recording_id);
    ++recording_frames_;
    return;
  }
  EndRecording();
  in_recording_ = true;
  recording_id_ = std::string(recording_id);
  recording_frames_ = 1;
  recording_missing_ = 0;
  from_beginning_ = header != nullptr && frame.header.sequence == 0;
  context_.recording = static_cast<uint32_t>(stats_.recordings++);
  visitor_->OnRecording(context_, header);
  if (from_beginning_) return;
  Damage damage = NewDamage(Damage::Kind::kNoBeginning);
  damage.what = "the recording's first frames are not there";
  visitor_->OnDamage(damage);
}

void StreamDecoder::EndRecording() {
  if (!in_recording_) return;
  in_recording_ = false;
  streams_.clear();
  untracked_ = {};
  if (std::exchange(recording_ended_, false)) return;
  Damage damage = NewDamage(Damage::Kind::kNoEnd);
  damage.what =
      "the recording has no end frame: the recorder was killed, or still runs";
  visitor_->OnDamage(damage);
}

StreamDecoder::StreamState* StreamDecoder::CheckSequence(const FrameView& frame) {
  uint32_t id = frame.header.stream_id;
  auto it = streams_.find(id);
  bool is_new = it == streams_.end();
  if (is_new) {
    if (streams_.size() >= kMaxTrackedStreams) {
      untracked_ = {};
      return &untracked_;
    }
    it = streams_.emplace(id, StreamState{}).first;
  }
  StreamState* state = &it->second;
  uint32_t gap = frame.header.sequence - state->next_sequence;
  state->next_sequence = frame.header.sequence + 1;
  if (gap == 0) return state;
  state->complete = false;
  // A reader that joins in the middle does not miss earlier frames.
  if (is_new && !from_beginning_) return state;
  stats_.missing_frames += gap;
  recording_missing_ += gap;
  Damage damage = NewDamage(Damage::Kind::kMissingFrames);
  damage.frames = gap;
  damage.what = absl::StrCat(gap, " frames of stream ", id,
                             " are missing before offset ", frame.offset);
  visitor_->OnDamage(damage);
  return state;
}

absl::Status StreamDecoder::HandleHeader(const FrameView& frame,
                                         absl::string_view payload) {
  v1::StreamHeader header;
  absl::Status status = Parse(payload, &header);
  PlaceFrame(frame, header.recording_id(), status.ok() ? &header : nullptr);
  (void)CheckSequence(frame);
  return status;
}

absl::Status StreamDecoder::HandleDictionary(const FrameView& frame,
                                             absl::string_view payload) {
  v1::Dictionary entries;
  absl::Status status = Parse(payload, &entries);
  if (!status.ok()) entries.Clear();
  PlaceFrame(frame, entries.recording_id(), nullptr);
  StreamState* state = CheckSequence(frame);
  RETURN_IF_ERROR(status);
  FrameContext context = context_;
  if (frame.header.type == v1::FRAME_TYPE_DICTIONARY) {
    DeliverDictionary(context, entries);
    return absl::OkStatus();
  }
  if (state->complete) return absl::OkStatus();
  context.repeated = state->heard;
  DeliverDictionary(context, entries);
  if (entries.part() == 0) state->key_parts = 0;
  if (entries.part() == state->key_parts) ++state->key_parts;
  if (state->key_parts == entries.parts()) state->complete = state->heard = true;
  return absl::OkStatus();
}

void StreamDecoder::DeliverDictionary(const FrameContext& context,
                                      const v1::Dictionary& entries) {
  if (entries.has_process()) visitor_->OnProcess(context, entries.process());
  for (const auto& agent : entries.agents()) visitor_->OnAgent(context, agent);
  for (const auto& queue : entries.queues()) visitor_->OnQueue(context, queue);
  for (const auto& code_object : entries.code_objects()) {
    visitor_->OnCodeObject(context, code_object);
  }
  for (const auto& kernel : entries.kernels()) visitor_->OnKernel(context, kernel);
  for (const auto& plan : entries.session_plans()) {
    visitor_->OnSessionPlan(context, plan);
  }
  for (const auto& function : entries.api_functions()) {
    visitor_->OnApiFunction(context, function);
  }
  for (const auto& thread : entries.threads()) visitor_->OnThread(context, thread);
  for (const auto& clock : entries.clocks()) visitor_->OnClock(context, clock);
  for (const auto& window : entries.windows()) visitor_->OnWindow(context, window);
  if (entries.has_sampling()) visitor_->OnSampling(context, entries.sampling());
  if (entries.has_account()) visitor_->OnAccount(context, entries.account());
  if (entries.has_end()) visitor_->OnProcessEnd(context, entries.end());
}

template <typename Kind>
absl::Status StreamDecoder::HandleBatch(absl::string_view payload) {
  auto& records = records_.of<Kind>();
  records.clear();
  RETURN_IF_ERROR(Kind::kDecode(payload, &records));
  stats_.records[Kind::kKind] += records.size();
  visitor_->OnBatch(context_, Kind::kKind, records.size());
  (visitor_->*Kind::kVisit)(context_, records);
  return absl::OkStatus();
}

absl::Status StreamDecoder::HandleRecords(uint8_t frame_type,
                                          absl::string_view payload) {
  absl::Status status;
  ForEachRecordKind([&](auto kind) {
    using Kind = decltype(kind);
    if (frame_type == Kind::kFrame) status = HandleBatch<Kind>(payload);
  });
  return status;
}

absl::Status StreamDecoder::HandleEvent(absl::string_view payload) {
  v1::Event event;
  RETURN_IF_ERROR(Parse(payload, &event));
  switch (event.what_case()) {
    case v1::Event::kWindow:
      visitor_->OnWindow(context_, event.window());
      break;
    case v1::Event::kClock:
      visitor_->OnClock(context_, event.clock());
      break;
    case v1::Event::kEnd:
      visitor_->OnProcessEnd(context_, event.end());
      break;
    case v1::Event::kSampling:
      visitor_->OnSampling(context_, event.sampling());
      break;
    case v1::Event::WHAT_NOT_SET:
      ++stats_.unknown_frames;  // an event of a newer version
      break;
  }
  return absl::OkStatus();
}

absl::Status StreamDecoder::HandleStreamEnd(absl::string_view payload) {
  v1::StreamEnd end;
  RETURN_IF_ERROR(Parse(payload, &end));
  recording_ended_ = true;
  ++stats_.recordings_ended;
  // Missing frames at the end of a stream leave no gap; only the sum shows them.
  uint64_t expected = end.frames() + end.frames_dropped() + 1;
  uint64_t known = recording_frames_ + recording_missing_;
  if (from_beginning_ && expected > known) {
    Damage damage = NewDamage(Damage::Kind::kMissingFrames);
    damage.frames = expected - known;
    damage.what = absl::StrCat(expected - known, " frames are missing at stream ends");
    stats_.missing_frames += damage.frames;
    visitor_->OnDamage(damage);
  }
  visitor_->OnStreamEnd(context_, end);
  return absl::OkStatus();
}

}  // namespace rocattach
