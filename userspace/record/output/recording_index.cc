#include "userspace/record/output/recording_index.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "userspace/base/errno_status.h"
#include "userspace/base/file.h"
#include "userspace/base/json.h"
#include "userspace/base/status_macros.h"
#include "userspace/stream/sink.h"

namespace rocattach {
namespace {

// About 300 bytes for each file.
constexpr size_t kMaxIndexBytes = 64 << 20;
constexpr char kTemporaryName[] = ".rocattach-index.jsonl.tmp";

std::string TimeText(uint64_t ns) {
  return absl::FormatTime(absl::RFC3339_full,
                          absl::FromUnixNanos(static_cast<int64_t>(ns)),
                          absl::UTCTimeZone());
}

uint64_t ParseTime(const std::string& text) {
  absl::Time time;
  std::string error;
  if (!absl::ParseTime(absl::RFC3339_full, text, &time, &error)) return 0;
  const int64_t ns = absl::ToUnixNanos(time);
  return ns > 0 ? static_cast<uint64_t>(ns) : 0;
}

// "NAME.000007.rwa.partial"
bool IsPartOfASeries(absl::string_view file) {
  constexpr size_t kDigits = 6;
  if (!absl::ConsumeSuffix(&file, ".rwa.partial")) return false;
  size_t digits = 0;
  for (; !file.empty() && absl::ascii_isdigit(file.back()); file.remove_suffix(1)) {
    ++digits;
  }
  return digits >= kDigits && absl::ConsumeSuffix(&file, ".") && !file.empty();
}

// True for the path of a recording below the directory; others in a line are ignored.
bool IsOurs(const std::string& file) {
  if (file.empty() || file[0] == '/') return false;
  if (!absl::EndsWith(file, kRecordingExtension) && !IsPartOfASeries(file))
    return false;
  for (absl::string_view part : absl::StrSplit(file, '/')) {
    if (part.empty() || part == "." || part == "..") return false;
  }
  return file.find('\0') == std::string::npos;
}

// The directory of `file` below `directory`, without following symbolic links; -1 with
// errno. `name` is set to the file's own name.
UniqueFd OpenParent(int directory, const std::string& file, std::string* name) {
  std::vector<std::string> parts = absl::StrSplit(file, '/');
  *name = parts.back();
  UniqueFd parent(openat(directory, ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
  for (size_t i = 0; i + 1 < parts.size() && parent.valid(); ++i) {
    parent.reset(openat(parent.get(), parts[i].c_str(),
                        O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  }
  return parent;
}

bool Exists(int directory, const std::string& file) {
  std::string name;
  const UniqueFd parent = OpenParent(directory, file, &name);
  struct stat info;
  return parent.valid() &&
         fstatat(parent.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 &&
         S_ISREG(info.st_mode);
}

Json ToJson(const IndexedRecording& r) {
  return {{"file", r.file},
          {"bytes", r.bytes},
          {"begin", TimeText(r.begin_ns)},
          {"end", TimeText(r.end_ns)},
          {"processes", r.processes},
          {"dispatches", r.dispatches},
          {"copies", r.copies},
          {"records_dropped", r.records_dropped}};
}

}  // namespace

absl::StatusOr<RecordingIndex> RecordingIndex::Open(const std::string& directory) {
  ASSIGN_OR_RETURN(UniqueFd fd, OpenFile(directory, O_RDONLY | O_DIRECTORY));
  RecordingIndex index(std::move(fd), directory);
  index.Read();
  index.AddLeftovers();
  return index;
}

void RecordingIndex::Read() {
  UniqueFd file(openat(directory_.get(), kRecordingIndexName,
                       O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat info;
  if (!file.valid() || fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) return;
  std::string text;
  char part[64 << 10];
  for (ssize_t n; text.size() < kMaxIndexBytes &&
                  (n = read(file.get(), part, sizeof(part))) > 0;) {
    text.append(part, static_cast<size_t>(n));
  }
  for (absl::string_view row : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::optional<Json> line = ParseJsonObject(row);
    if (!line) continue;
    IndexedRecording r;
    r.file = JsonString(*line, "file");
    if (!IsOurs(r.file) || !Exists(directory_.get(), r.file)) continue;
    r.bytes = JsonUnsigned(*line, "bytes");
    r.begin_ns = ParseTime(JsonString(*line, "begin"));
    r.end_ns = ParseTime(JsonString(*line, "end"));
    r.processes = JsonUnsigned(*line, "processes");
    r.dispatches = JsonUnsigned(*line, "dispatches");
    r.copies = JsonUnsigned(*line, "copies");
    r.records_dropped = JsonUnsigned(*line, "records_dropped");
    recordings_.push_back(std::move(r));
  }
}

void RecordingIndex::AddLeftovers() {
  std::set<std::string> folders = {""};
  for (const IndexedRecording& r : recordings_) {
    const size_t slash = r.file.rfind('/');
    if (slash != std::string::npos) folders.insert(r.file.substr(0, slash + 1));
  }
  for (const std::string& folder : folders) AddLeftoversIn(folder);
}

void RecordingIndex::AddLeftoversIn(const std::string& folder) {
  std::string unused;
  UniqueFd fd = OpenParent(directory_.get(), folder + "x", &unused);
  if (fd.valid()) {
    fd.reset(openat(fd.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  }
  std::unique_ptr<DIR, int (*)(DIR*)> entries(
      fd.valid() ? fdopendir(fd.get()) : nullptr, closedir);
  if (entries == nullptr) return;
  const int parent = fd.release();  // now owned by the directory stream
  while (const dirent* entry = readdir(entries.get())) {
    IndexedRecording left;
    left.file = folder + entry->d_name;
    const bool is_known =
        std::any_of(recordings_.begin(), recordings_.end(),
                    [&left](const IndexedRecording& r) { return r.file == left.file; });
    if (is_known || !IsPartOfASeries(left.file)) continue;
    const UniqueFd file(
        openat(parent, entry->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat info;
    if (!file.valid() || fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode) ||
        IsBeingWritten(file.get())) {
      continue;
    }
    left.bytes = static_cast<uint64_t>(info.st_size);
    left.begin_ns = left.end_ns =
        static_cast<uint64_t>(info.st_mtim.tv_sec) * 1'000'000'000 +
        static_cast<uint64_t>(info.st_mtim.tv_nsec);
    // The oldest are deleted first.
    const auto later = std::find_if(
        recordings_.begin(), recordings_.end(),
        [&left](const IndexedRecording& r) { return r.end_ns > left.end_ns; });
    recordings_.insert(later, std::move(left));
  }
}

absl::Status RecordingIndex::Retain(const RotationOptions& limits) {
  uint64_t bytes = 0;
  for (const IndexedRecording& r : recordings_) bytes += r.bytes;
  absl::Status status;
  size_t gone = 0;
  // The newest one stays, however large it is.
  while (gone + 1 < recordings_.size()) {
    const bool too_many =
        limits.keep_files != 0 && recordings_.size() - gone > limits.keep_files;
    const bool too_large = limits.keep_bytes != 0 && bytes > limits.keep_bytes;
    if (!too_many && !too_large) break;
    const IndexedRecording& oldest = recordings_[gone++];
    bytes -= oldest.bytes;
    std::string name;
    const UniqueFd parent = OpenParent(directory_.get(), oldest.file, &name);
    if (parent.valid() && (unlinkat(parent.get(), name.c_str(), 0) == 0)) continue;
    if (errno == ENOENT) continue;
    status.Update(ErrnoStatus(
        errno, absl::StrCat("unlink(", path_, "/", oldest.file, ") failed")));
  }
  recordings_.erase(recordings_.begin(),
                    recordings_.begin() + static_cast<ptrdiff_t>(gone));
  return status;
}

absl::Status RecordingIndex::Write() const {
  std::string text;
  for (const IndexedRecording& r : recordings_) {
    absl::StrAppend(&text, DumpJson(ToJson(r)), "\n");
  }
  const int directory = directory_.get();
  (void)unlinkat(directory, kTemporaryName, 0);  // left by a killed run
  UniqueFd file(openat(directory, kTemporaryName,
                       O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0640));
  if (!file.valid()) {
    return ErrnoStatus(errno,
                       absl::StrCat("open(", path_, "/", kTemporaryName, ") failed"));
  }
  absl::Status status = WriteAll(file.get(), text);
  if (status.ok() &&
      renameat(directory, kTemporaryName, directory, kRecordingIndexName) != 0) {
    status = ErrnoStatus(
        errno, absl::StrCat("rename(", path_, "/", kRecordingIndexName, ") failed"));
  }
  if (!status.ok()) (void)unlinkat(directory, kTemporaryName, 0);
  return status;
}

absl::Status RecordingIndex::Add(IndexedRecording recording,
                                 const RotationOptions& limits) {
  recordings_.push_back(std::move(recording));
  absl::Status status = Retain(limits);
  status.Update(Write());
  return status;
}

}  // namespace rocattach
