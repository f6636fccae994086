#include "userspace/record/output_set.h"

#include <errno.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "userspace/base/file.h"
#include "userspace/base/status_macros.h"
#include "userspace/record/output_path.h"
#include "userspace/stream/sink.h"

namespace rocattach {
namespace {

constexpr char kExtension[] = ".rwa";
constexpr char kDefaultName[] = "rocattach-%hostname%-%launch_date%-%launch_time%";
// Names are tried with the suffixes -1, -2 … before a run gives up on a name in use.
constexpr int kMaxNameTries = 1000;
// A run of weeks may write a file for each of many processes.
constexpr size_t kMostNamedFiles = 10'000;

std::string WithExtension(const std::string& path, int attempt) {
  std::string stem = path;
  if (absl::EndsWith(stem, kExtension)) stem.resize(stem.size() - strlen(kExtension));
  return attempt == 0 ? absl::StrCat(stem, kExtension)
                      : absl::StrCat(stem, "-", attempt, kExtension);
}

}  // namespace

absl::StatusOr<OutputSet> OutputSet::Open(OutputOptions options) {
  if (options.file.empty()) options.file = kDefaultName;
  OutputSet set(std::move(options));
  set.per_process_ =
      set.options_.file != "-" && NamesOneFilePerProcess(set.options_.file);
  if (set.options_.file != "-") {
    RETURN_IF_ERROR(MakeDirectories(set.options_.directory, 0755));
    if (access(set.options_.directory.c_str(), W_OK) != 0) {
      return absl::ErrnoToStatus(
          errno, absl::StrCat("output directory ", set.options_.directory,
                              " is not writable; choose another with -d DIR"));
    }
  }
  if (set.per_process_) {
    set.name_ = absl::StrCat(set.options_.directory, "/", set.options_.file, kExtension,
                             " (one file per process)");
  } else {
    RETURN_IF_ERROR(set.OpenShared());
  }
  return set;
}

absl::Status OutputSet::OpenShared() {
  if (options_.file == "-") {
    ASSIGN_OR_RETURN(std::unique_ptr<Sink> sink, OpenStdoutSink());
    WriterOptions writer;
    writer.recorder_arguments = options_.recorder_arguments;
    ASSIGN_OR_RETURN(shared_, StreamWriter::Create(std::move(sink), std::move(writer)));
    name_ = "standard output";
    return absl::OkStatus();
  }
  // In per-process mode this is the fallback for processes whose own file cannot be
  // created.
  std::string pattern = per_process_ ? kDefaultName : options_.file;
  std::string path = absl::StrCat(options_.directory, "/",
                                  ExpandOutputKeys(pattern, CurrentOutputKeys({})));
  ASSIGN_OR_RETURN(shared_, OpenFile(path));
  if (!per_process_) name_ = files_.back();
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<StreamWriter>> OutputSet::OpenFile(
    const std::string& path) {
  size_t slash = path.rfind('/');
  if (slash != std::string::npos && slash > 0) {
    RETURN_IF_ERROR(MakeDirectories(path.substr(0, slash), 0755));
  }
  for (int attempt = 0; attempt < kMaxNameTries; ++attempt) {
    std::string name = WithExtension(path, attempt);
    auto sink = OpenFileSink(name, ExistingFile::kRefuse);
    // An older recording is never overwritten.
    if (absl::IsAlreadyExists(sink.status())) continue;
    RETURN_IF_ERROR(sink.status());
    WriterOptions options;
    options.recorder_arguments = options_.recorder_arguments;
    ASSIGN_OR_RETURN(auto writer, StreamWriter::Create(*std::move(sink), options));
    if (files_.size() < kMostNamedFiles) files_.push_back(name);
    return writer;
  }
  return absl::AlreadyExistsError(absl::StrCat(WithExtension(path, 0), " and ",
                                               kMaxNameTries, " more names exist"));
}

absl::StatusOr<ProcessOutput> OutputSet::OpenProcess(const ProcessInfo& info,
                                                     v1::Process process) {
  used_ = true;
  if (per_process_) {
    std::string path =
        absl::StrCat(options_.directory, "/",
                     ExpandOutputKeys(options_.file, CurrentOutputKeys(info)));
    auto writer = OpenFile(path);
    if (writer.ok()) {
      own_.push_back(*std::move(writer));
      StreamWriter* raw = own_.back().get();
      return ProcessOutput{raw, raw->OpenProcess(std::move(process))};
    }
    Note(writer.status());
    if (shared_ == nullptr) RETURN_IF_ERROR(OpenShared());
  }
  return ProcessOutput{shared_.get(), shared_->OpenProcess(std::move(process))};
}

void OutputSet::EndProcess(const ProcessOutput& output, v1::ProcessEnd end) {
  Note(output.writer->EndProcess(output.stream, std::move(end)));
  auto own = std::find_if(own_.begin(), own_.end(), [&](const auto& writer) {
    return writer.get() == output.writer;
  });
  if (own == own_.end()) return;
  Complete(own->get());
  closed_records_dropped_ += (*own)->stats().records_dropped;
  own_.erase(own);
}

void OutputSet::Complete(StreamWriter* writer) {
  Note(writer->Close());
  if (per_process_ && options_.on_complete) {
    options_.on_complete(writer->sink().name());
  }
}

void OutputSet::Flush(uint64_t now_ns) {
  if (shared_ != nullptr) Note(shared_->Flush(now_ns));
  for (const auto& writer : own_) Note(writer->Flush(now_ns));
}

void OutputSet::Note(const absl::Status& status) {
  if (!status.ok() && first_error_.ok()) first_error_ = status;
}

absl::Status OutputSet::Close(const v1::WatcherSummary& summary) {
  if (shared_ != nullptr) {
    Note(shared_->AddSummary(summary));
    Complete(shared_.get());
  }
  for (const auto& writer : own_) Complete(writer.get());
  return first_error_;
}

void OutputSet::Discard() {
  shared_.reset();
  own_.clear();
  // Each was created by this run (O_EXCL).
  for (const std::string& file : files_) unlink(file.c_str());
  files_.clear();
}

uint64_t OutputSet::records_dropped() const {
  uint64_t sum = closed_records_dropped_;
  if (shared_ != nullptr) sum += shared_->stats().records_dropped;
  for (const auto& writer : own_) sum += writer->stats().records_dropped;
  return sum;
}

}  // namespace rocattach
