#include "userspace/stream/merge.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "userspace/base/errno_status.h"
#include "userspace/base/file.h"
#include "userspace/base/status_macros.h"
#include "userspace/stream/compression.h"
#include "userspace/stream/frame.h"
#include "userspace/stream/merged_clock.h"
#include "userspace/stream/reader.h"

namespace rocattach {
namespace {

constexpr size_t kWriteBytes = 1 << 20;
// Bounds memory; realistic inputs have far fewer.
constexpr size_t kMostRecordings = 1 << 16;

// The range of (time of day - clock) over the clock snapshots of a recording.
class Drift {
 public:
  void Add(const v1::ClockSnapshot& clock) {
    if (clock.realtime_ns() == 0 || clock.boottime_ns() == 0) return;
    const auto difference =
        static_cast<int64_t>(clock.realtime_ns() - clock.boottime_ns());
    least_ = seen_ ? std::min(least_, difference) : difference;
    most_ = seen_ ? std::max(most_, difference) : difference;
    seen_ = true;
  }
  uint64_t range() const {
    return static_cast<uint64_t>(most_) - static_cast<uint64_t>(least_);
  }

 private:
  bool seen_ = false;
  int64_t least_ = 0, most_ = 0;
};

// First pass: collects what must be known before the first frame is written.
class Finder : public StreamVisitor {
 public:
  void set_path(const std::string& path) { path_ = path; }
  const absl::Status& status() const { return status_; }

  void OnRecording(const FrameContext&, const v1::StreamHeader* header) override {
    if (!status_.ok()) return;
    if (header == nullptr) {
      status_ = absl::InvalidArgumentError(absl::StrCat(
          path_,
          ": a recording in it has no beginning, so its clock is not known; 'rocattach "
          "recover' finds out what can be recovered"));
    } else if (recordings.size() == kMostRecordings) {
      status_ = absl::ResourceExhaustedError(
          absl::StrCat("there are more than ", kMostRecordings, " recordings"));
    } else if (!ids_.insert(header->recording_id()).second) {
      status_ = absl::InvalidArgumentError(
          absl::StrCat(path_, ": a recording in it was given already"));
    }
    recordings.emplace_back();
    drifts.emplace_back();
    recordings.back().path = path_;
    if (header == nullptr) return;
    recordings.back().header = *header;
    recordings.back().header.clear_descriptors();
    drifts.back().Add(header->clock());
  }

  void OnFrame(const FrameView& frame, absl::string_view payload, FrameFate fate) {
    if (fate != FrameFate::kUnderstood || drifts.empty()) return;
    const int size = static_cast<int>(payload.size());
    if (frame.header.type == v1::FRAME_TYPE_STREAM_HEADER) {
      v1::StreamHeader header;
      if (header.ParseFromArray(payload.data(), size))
        drifts.back().Add(header.clock());
    } else if (frame.header.type == v1::FRAME_TYPE_END) {
      v1::StreamEnd end;
      if (end.ParseFromArray(payload.data(), size)) drifts.back().Add(end.clock());
    }
  }

  std::vector<MergedRecording> recordings;
  std::vector<Drift> drifts;

 private:
  std::string path_;
  absl::flat_hash_set<std::string> ids_;
  absl::Status status_;
};

// Second pass: writes the frames with their times on the first recording's clock.
class Merger : public StreamVisitor {
 public:
  Merger(MergeResult* result, int to) : result_(result), to_(to) {}

  const absl::Status& status() const { return status_; }

  void OnRecording(const FrameContext& at, const v1::StreamHeader*) override {
    if (at.recording >= result_->recordings.size()) {
      status_.Update(absl::DataLossError("an input changed while it was read"));
      return;
    }
    current_ = &result_->recordings[at.recording];
    recording_bytes_ = 0;
  }

  void OnFrame(const FrameView& frame, absl::string_view payload, FrameFate fate) {
    if (!status_.ok() || current_ == nullptr) return;
    const uint8_t type = frame.header.type;
    const bool changed = current_->alignment.offset_ns != 0 ||
                         type == v1::FRAME_TYPE_STREAM_HEADER ||
                         type == v1::FRAME_TYPE_END;
    if (fate == FrameFate::kUndecodable || (changed && fate == FrameFate::kUnknown)) {
      return LeaveOut(frame);
    }
    if (!changed) return Write(frame.bytes);
    auto shifted = ShiftPayload(current_->alignment, type, payload);
    if (!shifted.has_value()) return LeaveOut(frame);
    if (type == v1::FRAME_TYPE_STREAM_HEADER) Describe(&*shifted);
    if (type == v1::FRAME_TYPE_END) Count(&*shifted);
    WriteFrame(frame.header, *shifted);
  }

  absl::Status Finish() {
    if (status_.ok()) status_ = WriteAll(to_, pending_);
    return status_;
  }

 private:
  void LeaveOut(const FrameView& frame) {
    ++result_->frames_left_out;
    result_->records_left_out += frame.header.records;
  }

  // The boot id marks the times as comparable with those of the first recording.
  void Describe(std::string* payload) {
    v1::StreamHeader header;
    (void)header.ParseFromString(*payload);
    header.set_boot_id(result_->recordings[0].header.boot_id());
    AddMergedClock(
        {static_cast<int64_t>(current_->alignment.offset_ns), current_->error_ns},
        &header);
    *payload = header.SerializeAsString();
  }

  // Updates the byte count: the frames have other sizes now.
  void Count(std::string* payload) {
    v1::StreamEnd end;
    (void)end.ParseFromString(*payload);
    end.set_bytes(recording_bytes_);
    *payload = end.SerializeAsString();
  }

  void WriteFrame(FrameHeader header, absl::string_view payload) {
    header.codec = static_cast<uint8_t>(FrameCodec::kNone);
    if (compressor_.Compress(payload, &compressed_)) {
      header.codec = static_cast<uint8_t>(FrameCodec::kZstd);
      payload = compressed_;
    }
    BuildFrame(header, payload, &frame_);
    Write(frame_);
  }

  void Write(absl::string_view frame) {
    pending_.append(frame.data(), frame.size());
    recording_bytes_ += frame.size();
    result_->bytes_written += frame.size();
    if (pending_.size() < kWriteBytes) return;
    status_.Update(WriteAll(to_, pending_));
    pending_.clear();
  }

  MergeResult* const result_;
  const int to_;
  absl::Status status_;
  const MergedRecording* current_ = nullptr;
  Compressor compressor_{1};
  std::string pending_, compressed_, frame_;
  uint64_t recording_bytes_ = 0;
};

// Feeds all files to a visitor that has OnFrame() and status().
template <typename Visitor>
absl::StatusOr<ReadStats> ReadAll(const std::vector<std::string>& from,
                                  const std::function<bool()>& stop, Visitor* visitor,
                                  const std::function<void(const std::string&)>& next) {
  StreamDecoder decoder(visitor);
  decoder.set_frame_observer(
      [&](const FrameContext&, const FrameView& frame, absl::string_view payload,
          FrameFate fate) { visitor->OnFrame(frame, payload, fate); });
  ReadOptions options;
  options.stop = [&] { return !visitor->status().ok() || (stop && stop()); };
  for (const std::string& path : from) {
    if (next) next(path);
    RETURN_IF_ERROR(ReadStream(path, options, &decoder));
    RETURN_IF_ERROR(visitor->status());
    if (stop && stop()) return absl::CancelledError("stopped");
  }
  return decoder.stats();
}

absl::Status CheckFile(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) {
    return ErrnoStatus(errno, "cannot open " + path);
  }
  if (S_ISREG(info.st_mode)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(path, " is not a regular file; merging reads its inputs twice"));
}

absl::Status AlignAll(const MergeOptions& options, const Finder& finder,
                      std::vector<MergedRecording>* recordings) {
  for (size_t i = 0; i < recordings->size(); ++i) {
    MergedRecording& recording = (*recordings)[i];
    recording.alignment = Align((*recordings)[0].header, recording.header);
    if (!recording.alignment.known && i > 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(recording.path, ": how its clock relates to that of ",
                       (*recordings)[0].path, " is not known: a header has no clocks"));
    }
    if (i == 0 || recording.alignment.same_clock) continue;
    recording.error_ns =
        options.sync_error_ns + finder.drifts[0].range() + finder.drifts[i].range();
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<MergeResult> MergeStreams(const std::vector<std::string>& from,
                                         const std::string& to,
                                         const MergeOptions& options,
                                         const std::function<bool()>& stop) {
  for (const std::string& path : from) RETURN_IF_ERROR(CheckFile(path));
  Finder finder;
  auto found = ReadAll(from, stop, &finder,
                       [&](const std::string& path) { finder.set_path(path); });
  RETURN_IF_ERROR(found.status());
  MergeResult result;
  result.recordings = finder.recordings;
  RETURN_IF_ERROR(AlignAll(options, finder, &result.recordings));
  ASSIGN_OR_RETURN(UniqueFd out,
                   OpenFile(to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0640));
  Merger merger(&result, out.get());
  auto read = ReadAll(from, stop, &merger, nullptr);
  absl::Status status = read.ok() ? merger.Finish() : read.status();
  if (status.ok()) {
    result.read = *read;
    return result;
  }
  (void)unlink(to.c_str());  // created here; a partial one would look complete
  return absl::Status(status.code(), absl::StrCat(to, ": ", status.message()));
}

}  // namespace rocattach
