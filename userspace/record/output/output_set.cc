#include "userspace/record/output/output_set.h"

#include <errno.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "userspace/base/errno_status.h"
#include "userspace/base/file.h"
#include "userspace/base/status_macros.h"
#include "userspace/record/output/output_path.h"
#include "userspace/record/output/recording_index.h"
#include "userspace/stream/sink.h"

namespace rocattach {
namespace {

constexpr char kDefaultName[] = "rocattach-%hostname%-%launch_date%-%launch_time%";
// Discards the streams of processes that have no file.
class NullSink : public Sink {
 public:
  absl::Status Write(absl::string_view) override { return absl::OkStatus(); }
  bool broken() const override { return false; }
  bool compress_by_default() const override { return false; }
  const std::string& name() const override { return name_; }

 private:
  const std::string name_ = "nowhere";
};

// Recording counts as resumed after this time without an error.
constexpr uint64_t kResumeNs = 1'000'000'000;
// A run of weeks may write a file for each of many processes.
constexpr size_t kMostNamedFiles = 10'000;

}  // namespace

absl::StatusOr<OutputSet> OutputSet::Open(OutputOptions options) {
  if (options.file.empty()) options.file = kDefaultName;
  OutputSet set(std::move(options));
  set.per_process_ =
      set.options_.file != "-" && NamesOneFilePerProcess(set.options_.file);
  if (set.options_.file != "-") {
    RETURN_IF_ERROR(MakeDirectories(set.options_.directory, 0755));
    if (access(set.options_.directory.c_str(), W_OK) != 0) {
      return ErrnoStatus(errno,
                         absl::StrCat("output directory ", set.options_.directory,
                                      " is not writable; choose another with -d DIR"));
    }
  }
  if (set.options_.rotation.indexes() && set.options_.file != "-") {
    ASSIGN_OR_RETURN(set.completions_->index,
                     RecordingIndex::Open(set.options_.directory));
  }
  if (set.per_process_) {
    set.name_ = absl::StrCat(set.options_.directory, "/", set.options_.file,
                             kRecordingExtension, " (one file per process)");
  } else {
    RETURN_IF_ERROR(set.OpenShared());
  }
  return set;
}

RecordingFileOptions OutputSet::FileOptions() {
  RecordingFileOptions options;
  options.rotation = options_.rotation;
  options.clock = options_.clock;
  options.writer.recorder_arguments = options_.recorder_arguments;
  // Only where files are completed one after the other, not all at the end of the run.
  auto on_complete = per_process_ ? options_.on_complete : nullptr;
  options.on_complete = [completions = completions_, on_complete,
                         directory = options_.directory + "/",
                         limits = options_.rotation](IndexedRecording recording) {
    const std::string file = recording.file;
    if (limits.splits() && completions->files.size() < kMostNamedFiles) {
      completions->files.push_back(file);
    }
    if (on_complete) on_complete(file);
    if (!completions->index.has_value()) return;
    recording.file = std::string(absl::StripPrefix(file, directory));
    completions->index_error = completions->index->Add(std::move(recording), limits);
  };
  return options;
}

absl::Status OutputSet::OpenShared() {
  if (options_.file == "-") {
    ASSIGN_OR_RETURN(std::unique_ptr<Sink> sink, OpenStdoutSink());
    ASSIGN_OR_RETURN(shared_, RecordingFile::Wrap(std::move(sink), FileOptions()));
    name_ = "standard output";
    return absl::OkStatus();
  }
  // In per-process mode this is the fallback for processes whose own file cannot be
  // created.
  std::string pattern = per_process_ ? kDefaultName : options_.file;
  std::string path = absl::StrCat(options_.directory, "/",
                                  ExpandOutputKeys(pattern, CurrentOutputKeys({})));
  ASSIGN_OR_RETURN(shared_, OpenFile(path));
  if (!per_process_) name_ = shared_->title();
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<RecordingFile>> OutputSet::OpenFile(
    const std::string& path) {
  ASSIGN_OR_RETURN(auto file, RecordingFile::Open(path, FileOptions()));
  if (!options_.rotation.splits() && completions_->files.size() < kMostNamedFiles) {
    completions_->files.push_back(file->name());
  }
  return file;
}

absl::StatusOr<ProcessOutput> OutputSet::OpenProcess(const ProcessInfo& info,
                                                     v1::Process process) {
  used_ = true;
  if (per_process_) {
    std::string path =
        absl::StrCat(options_.directory, "/",
                     ExpandOutputKeys(options_.file, CurrentOutputKeys(info)));
    auto file = OpenFile(path);
    if (file.ok()) {
      own_.push_back(*std::move(file));
      StreamWriter* writer = own_.back()->writer();
      return ProcessOutput{writer, writer->OpenProcess(std::move(process))};
    }
    KeepError(file.status());
    if (shared_ == nullptr) RETURN_IF_ERROR(OpenShared());
  }
  StreamWriter* writer = shared_->writer();
  return ProcessOutput{writer, writer->OpenProcess(std::move(process))};
}

absl::StatusOr<ProcessOutput> OutputSet::OpenUnwanted(const ProcessInfo& info,
                                                      v1::Process process) {
  if (!per_process_) return OpenProcess(info, std::move(process));
  if (nowhere_ == nullptr) {
    ASSIGN_OR_RETURN(nowhere_, RecordingFile::Wrap(std::make_unique<NullSink>(), {}));
  }
  StreamWriter* writer = nowhere_->writer();
  return ProcessOutput{writer, writer->OpenProcess(std::move(process)),
                       /*kept=*/false};
}

void OutputSet::EndProcess(const ProcessOutput& output, v1::ProcessEnd end) {
  KeepError(output.writer->EndProcess(output.stream, std::move(end)));
  auto own = std::find_if(own_.begin(), own_.end(), [&](const auto& file) {
    return file->writer() == output.writer;
  });
  if (own == own_.end()) return;
  KeepError((*own)->Close());
  closed_records_dropped_ += (*own)->records_dropped();
  closed_bytes_ += (*own)->bytes();
  own_.erase(own);
}

void OutputSet::Flush(uint64_t now_ns) {
  if (shared_ != nullptr) KeepError(shared_->Flush(now_ns));
  if (nowhere_ != nullptr) KeepError(nowhere_->Flush(now_ns));
  for (const auto& file : own_) KeepError(file->Flush(now_ns));
  KeepError(std::exchange(completions_->index_error, absl::OkStatus()));
  // Data that could not be written is due again, so a round without an error has
  // written it. A nearly full disk may have room for some frames now and then.
  if (!round_error_.ok()) {
    paused_ = std::exchange(round_error_, absl::OkStatus());
    last_error_ns_ = now_ns;
  } else if (!paused_.ok() && now_ns - last_error_ns_ >= kResumeNs) {
    paused_ = absl::OkStatus();
  }
}

void OutputSet::KeepError(const absl::Status& status) {
  if (status.ok()) return;
  if (first_error_.ok()) first_error_ = status;
  round_error_ = status;
}

absl::Status OutputSet::Close(const v1::WatcherSummary& summary) {
  if (shared_ != nullptr) {
    KeepError(shared_->writer()->AddSummary(summary));
    KeepError(shared_->Close());
  }
  for (const auto& file : own_) KeepError(file->Close());
  KeepError(completions_->index_error);
  return first_error_;
}

void OutputSet::Discard() {
  // Each was created by this run (O_EXCL).
  if (shared_ != nullptr) unlink(shared_->name().c_str());
  for (const auto& file : own_) unlink(file->name().c_str());
  shared_.reset();
  own_.clear();
  completions_->files.clear();
}

uint64_t OutputSet::bytes() const {
  uint64_t sum = closed_bytes_;
  if (shared_ != nullptr) sum += shared_->bytes();
  for (const auto& file : own_) sum += file->bytes();
  return sum;
}

uint64_t OutputSet::records_dropped() const {
  uint64_t sum = closed_records_dropped_;
  if (shared_ != nullptr) sum += shared_->records_dropped();
  for (const auto& file : own_) sum += file->records_dropped();
  return sum;
}

}  // namespace rocattach
