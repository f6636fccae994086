#include "userspace/record/output/recording_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "userspace/base/clock.h"
#include "userspace/base/errno_status.h"
#include "userspace/base/file.h"
#include "userspace/base/status_macros.h"
#include "userspace/stream/sink.h"

namespace rocattach {
namespace {

constexpr char kPartial[] = ".partial";
// Names are tried with the suffixes -1, -2 … before a run gives up on a name in use.
constexpr int kMaxNameTries = 1000;
// Creating the next file, if it has failed, is tried again after this time.
constexpr uint64_t kRetryNs = 1'000'000'000;

std::string Stem(const std::string& path) {
  return std::string(absl::StripSuffix(path, kRecordingExtension));
}

std::string WithExtension(const std::string& path, int attempt) {
  return attempt == 0 ? absl::StrCat(Stem(path), kRecordingExtension)
                      : absl::StrCat(Stem(path), "-", attempt, kRecordingExtension);
}

std::string NameOfPart(const std::string& stem, uint64_t number) {
  return absl::StrFormat("%s.%06d%s", stem, number, kRecordingExtension);
}

// The highest number of a series that exists, complete or not.
uint64_t LastNumber(const std::string& stem) {
  const size_t slash = stem.rfind('/');
  const std::string directory =
      slash == std::string::npos ? "." : stem.substr(0, std::max<size_t>(slash, 1));
  const std::string prefix =
      absl::StrCat(slash == std::string::npos ? stem : stem.substr(slash + 1), ".");
  std::unique_ptr<DIR, int (*)(DIR*)> entries(opendir(directory.c_str()), closedir);
  uint64_t last = 0;
  while (entries != nullptr) {
    const dirent* entry = readdir(entries.get());
    if (entry == nullptr) break;
    absl::string_view name = entry->d_name;
    (void)absl::ConsumeSuffix(&name, kPartial);
    uint64_t number = 0;
    if (absl::ConsumePrefix(&name, prefix) &&
        absl::ConsumeSuffix(&name, kRecordingExtension) &&
        absl::SimpleAtoi(name, &number)) {
      last = std::max(last, number);
    }
  }
  return last;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RecordingFile>> RecordingFile::Open(
    const std::string& path, RecordingFileOptions options) {
  if (const size_t slash = path.rfind('/'); slash != std::string::npos && slash > 0) {
    RETURN_IF_ERROR(MakeDirectories(path.substr(0, slash), 0755));
  }
  std::unique_ptr<RecordingFile> file(new RecordingFile(std::move(options)));
  std::unique_ptr<Sink> sink;
  if (file->options_.rotation.splits()) {
    file->stem_ = Stem(path);
    file->number_ = LastNumber(file->stem_);
    ASSIGN_OR_RETURN(sink, file->CreateNext());
  } else {
    ASSIGN_OR_RETURN(sink, file->Create(path));
  }
  auto writer = StreamWriter::Create(std::move(sink), file->options_.writer);
  if (!writer.ok()) {
    // For example, the disk is full. The file was created by this run, and is empty.
    (void)unlink(file->name_.c_str());
    return writer.status();
  }
  file->writer_ = *std::move(writer);
  return file;
}

absl::StatusOr<std::unique_ptr<RecordingFile>> RecordingFile::Wrap(
    std::unique_ptr<Sink> sink, RecordingFileOptions options) {
  std::unique_ptr<RecordingFile> file(new RecordingFile(std::move(options)));
  file->name_ = sink->name();
  ASSIGN_OR_RETURN(file->writer_,
                   StreamWriter::Create(std::move(sink), file->options_.writer));
  return file;
}

absl::StatusOr<std::unique_ptr<Sink>> RecordingFile::Create(const std::string& path) {
  for (int attempt = 0; attempt < kMaxNameTries; ++attempt) {
    const std::string name = WithExtension(path, attempt);
    auto sink = OpenFileSink(name, ExistingFile::kRefuse);
    // An older recording is never overwritten.
    if (absl::IsAlreadyExists(sink.status())) continue;
    RETURN_IF_ERROR(sink.status());
    name_ = name;
    begin_boot_ns_ = options_.clock().boottime_ns;
    return sink;
  }
  return absl::AlreadyExistsError(absl::StrCat(WithExtension(path, 0), " and ",
                                               kMaxNameTries, " more names exist"));
}

absl::StatusOr<std::unique_ptr<Sink>> RecordingFile::CreateNext() {
  for (int attempt = 0; attempt < kMaxNameTries; ++attempt) {
    const std::string final_name = NameOfPart(stem_, number_ + 1);
    const std::string name = absl::StrCat(final_name, kPartial);
    // Another run that writes the same series may have completed one by now.
    const bool taken = access(final_name.c_str(), F_OK) == 0;
    auto sink = taken ? absl::AlreadyExistsError(final_name)
                      : OpenFileSink(name, ExistingFile::kRefuse);
    if (absl::IsAlreadyExists(sink.status())) {
      ++number_;
      continue;
    }
    RETURN_IF_ERROR(sink.status());
    ++number_;
    name_ = name;
    begin_boot_ns_ = options_.clock().boottime_ns;
    return sink;
  }
  return absl::AlreadyExistsError(
      absl::StrCat(NameOfPart(stem_, number_), " and many more names exist"));
}

std::string RecordingFile::title() const {
  return stem_.empty() ? name_ : absl::StrCat(stem_, ".*", kRecordingExtension);
}

uint64_t RecordingFile::records_dropped() const {
  return dropped_before_ + writer_->stats().records_dropped;
}

bool RecordingFile::IsDue(uint64_t now_ns) const {
  if (stem_.empty() || now_ns < retry_ns_) return false;
  const RotationOptions& rotation = options_.rotation;
  if (rotation.bytes != 0 && writer_->stats().bytes >= rotation.bytes) return true;
  // A file without any process is not replaced by another such file.
  return rotation.age_ns != 0 && writer_->stats().streams > 0 &&
         now_ns - begin_boot_ns_ >= rotation.age_ns;
}

absl::Status RecordingFile::Flush(uint64_t now_ns) {
  absl::Status status = writer_->Flush(now_ns);
  if (IsDue(now_ns)) status.Update(Rotate(now_ns));
  return status;
}

absl::Status RecordingFile::Rotate(uint64_t now_ns) {
  const std::string former = name_;
  const uint64_t begin_boot_ns = begin_boot_ns_;
  auto next = CreateNext();
  if (!next.ok()) {
    // Until then, output goes to the current file.
    retry_ns_ = now_ns + kRetryNs;
    return next.status();
  }
  WriterStats stats;
  absl::Status status = writer_->Rotate(*std::move(next), &stats);
  dropped_before_ += stats.records_dropped;
  bytes_before_ += stats.bytes;
  status.Update(Complete(former, begin_boot_ns, stats));
  return status;
}

absl::Status RecordingFile::Complete(const std::string& name, uint64_t begin_boot_ns,
                                     const WriterStats& stats) const {
  IndexedRecording recording;
  recording.file = std::string(absl::StripSuffix(name, kPartial));
  if (recording.file != name &&
      renameat2(AT_FDCWD, name.c_str(), AT_FDCWD, recording.file.c_str(),
                RENAME_NOREPLACE) != 0) {
    return ErrnoStatus(errno, absl::StrCat("rename(", name, ", ", recording.file,
                                           ") failed; the file keeps its name"));
  }
  recording.bytes = stats.bytes;
  // Both times come from one clock snapshot, so that the span between them is right.
  const ClockSnapshot now = options_.clock();
  recording.end_ns = now.realtime_ns;
  recording.begin_ns =
      now.realtime_ns -
      std::min(now.realtime_ns,
               now.boottime_ns - std::min(now.boottime_ns, begin_boot_ns));
  recording.processes = stats.streams;
  recording.dispatches = stats.records[RecordKind::kDispatch];
  recording.copies = stats.records[RecordKind::kCopy];
  recording.records_dropped = stats.records_dropped;
  if (options_.on_complete) options_.on_complete(std::move(recording));
  return absl::OkStatus();
}

absl::Status RecordingFile::Close() {
  absl::Status status = writer_->Close();
  status.Update(Complete(name_, begin_boot_ns_, writer_->stats()));
  return status;
}

}  // namespace rocattach
