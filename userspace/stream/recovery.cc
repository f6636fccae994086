#include "userspace/stream/recovery.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "userspace/base/errno_status.h"
#include "userspace/base/file.h"
#include "userspace/base/status_macros.h"
#include "userspace/stream/recovery_writer.h"

namespace rocattach {
namespace {

constexpr size_t kReadBytes = 256 << 10;

// First pass: finds facts later in a recording that are missing at its beginning.
class FactsFinder : public StreamVisitor {
 public:
  explicit FactsFinder(std::vector<RecordingFacts>* facts) : facts_(facts) {}

  void OnRecording(const FrameContext&, const v1::StreamHeader* header) override {
    if (facts_->size() == kMaxRecoveredRecordings) {
      too_many_ = true;
      return;
    }
    facts_->emplace_back();
    facts_->back().begins_with_header = header != nullptr;
  }

  void OnFrame(const FrameView& frame, absl::string_view payload, FrameFate fate) {
    if (fate != FrameFate::kUnderstood || too_many_) return;
    RecordingFacts& facts = facts_->back();
    if (facts.begins_with_header || !facts.header_frame.empty()) return;
    if (frame.header.type == v1::FRAME_TYPE_STREAM_HEADER) {
      facts.header_frame = std::string(frame.bytes);
    } else if (frame.header.type == v1::FRAME_TYPE_KEY_FRAME &&
               facts.recording_id.empty()) {
      v1::Dictionary entries;
      (void)entries.ParseFromArray(payload.data(), static_cast<int>(payload.size()));
      facts.recording_id = entries.recording_id();
      facts.clock = entries.clock();
    }
  }

  bool too_many() const { return too_many_; }

 private:
  std::vector<RecordingFacts>* facts_;
  bool too_many_ = false;
};

// Feeds the first `bytes` bytes of a file, so that both passes read the same part of a
// growing one.
absl::Status FeedFile(int fd, uint64_t bytes, const std::function<bool()>& stop,
                      const std::function<absl::Status(absl::string_view)>& feed) {
  std::unique_ptr<char[]> buffer(new char[kReadBytes]);
  uint64_t done = 0;
  while (done < bytes) {
    if (stop && stop()) return absl::CancelledError("stopped");
    const size_t want =
        static_cast<size_t>(std::min<uint64_t>(kReadBytes, bytes - done));
    const ssize_t n = pread(fd, buffer.get(), want, static_cast<off_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus(errno, "read failed");
    if (n == 0) return absl::DataLossError("it shrank while it was read");
    RETURN_IF_ERROR(feed(absl::string_view(buffer.get(), static_cast<size_t>(n))));
    done += static_cast<uint64_t>(n);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<RecordingFacts>> FindFacts(
    int fd, uint64_t bytes, const std::function<bool()>& stop) {
  std::vector<RecordingFacts> facts;
  FactsFinder finder(&facts);
  StreamDecoder decoder(&finder);
  decoder.set_frame_observer(
      [&](const FrameContext&, const FrameView& frame, absl::string_view payload,
          FrameFate fate) { finder.OnFrame(frame, payload, fate); });
  RETURN_IF_ERROR(FeedFile(fd, bytes, stop, [&](absl::string_view piece) {
    decoder.Feed(piece);
    return finder.too_many()
               ? absl::ResourceExhaustedError(absl::StrCat(
                     "it holds more than ", kMaxRecoveredRecordings, " recordings"))
               : absl::OkStatus();
  }));
  decoder.FinishInput();
  if (decoder.stats().frames == 0) {
    return absl::InvalidArgumentError("it holds no intact frame");
  }
  return facts;
}

absl::StatusOr<RecoveryResult> Copy(int from, uint64_t bytes, int to,
                                    const std::vector<RecordingFacts>& facts,
                                    const std::function<bool()>& stop) {
  RecoveryWriter writer(facts,
                        [to](absl::string_view piece) { return WriteAll(to, piece); });
  StreamDecoder decoder(&writer);
  decoder.set_frame_observer(
      [&](const FrameContext&, const FrameView& frame, absl::string_view payload,
          FrameFate fate) { writer.OnFrame(frame, payload, fate); });
  RETURN_IF_ERROR(FeedFile(from, bytes, stop, [&](absl::string_view piece) {
    decoder.Feed(piece);
    return writer.status();
  }));
  decoder.FinishInput();
  RETURN_IF_ERROR(writer.Finish());
  RecoveryResult result = writer.result();
  result.read = decoder.stats();
  return result;
}

}  // namespace

absl::StatusOr<RecoveryResult> RecoverStream(const std::string& from,
                                             const std::string& to,
                                             const std::function<bool()>& stop) {
  ASSIGN_OR_RETURN(UniqueFd in, OpenFile(from, O_RDONLY | O_NOCTTY | O_NONBLOCK));
  struct stat info;
  if (fstat(in.get(), &info) != 0) {
    return ErrnoStatus(errno, absl::StrCat("fstat(", from, ") failed"));
  }
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat(from, " is not a regular file; recovery reads its input twice"));
  }
  const auto size = static_cast<uint64_t>(info.st_size);
  auto facts = FindFacts(in.get(), size, stop);
  if (!facts.ok()) {
    return absl::Status(facts.status().code(),
                        absl::StrCat(from, ": ", facts.status().message()));
  }
  ASSIGN_OR_RETURN(UniqueFd out, OpenFile(to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW,
                                          info.st_mode & 0666));
  auto result = Copy(in.get(), size, out.get(), *facts, stop);
  if (result.ok()) return result;
  (void)unlink(to.c_str());  // created here; a partial recovery would look complete
  return absl::Status(result.status().code(),
                      absl::StrCat(from, " to ", to, ": ", result.status().message()));
}

}  // namespace rocattach
