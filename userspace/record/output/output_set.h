// The output of a run: one stream for everything, or one per process.
#ifndef ROCATTACH_USERSPACE_RECORD_OUTPUT_OUTPUT_SET_H_
#define ROCATTACH_USERSPACE_RECORD_OUTPUT_OUTPUT_SET_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "schemas/stream.pb.h"
#include "userspace/base/process.h"
#include "userspace/record/output/recording_file.h"
#include "userspace/record/output/recording_index.h"
#include "userspace/record/output/rotation_options.h"
#include "userspace/stream/writer.h"

namespace rocattach {

struct OutputOptions {
  std::string directory = ".";
  // With rocprofv3's keys; "-" is standard output; empty is the default name.
  std::string file;
  std::vector<std::string> recorder_arguments;
  // Called with each completed file if every process has a file of its own. Must not
  // wait; may be null.
  std::function<void(const std::string& file)> on_complete = nullptr;
  RotationOptions rotation = {};
  // As in RecordingFileOptions.
  std::function<ClockSnapshot()> clock = CaptureClockSnapshot;
};

// The output of one process's stream.
struct ProcessOutput {
  StreamWriter* writer = nullptr;
  StreamId stream = 0;
  // False if the stream goes nowhere: its process was not to be recorded, and would
  // have been the only one in its file.
  bool kept = true;
};

// Not thread-safe.
class OutputSet {
 public:
  // Opens the run's own file right away, so that an unwritable directory or a bad name
  // is an error before any process is attached to. With a name that differs per process
  // the directory is checked instead.
  static absl::StatusOr<OutputSet> Open(OutputOptions options);
  OutputSet(OutputSet&&) = default;

  // Begins the stream of a process. If its own file cannot be created, its stream goes
  // to the run's file, which is then created; the error is kept for status().
  absl::StatusOr<ProcessOutput> OpenProcess(const ProcessInfo& info,
                                            v1::Process process);
  // The same for a process that is not to be recorded: where it would have a file of
  // its own, it gets none, and its stream goes nowhere.
  absl::StatusOr<ProcessOutput> OpenUnwanted(const ProcessInfo& info,
                                             v1::Process process);
  // Ends the stream, and closes its file if that is its own.
  void EndProcess(const ProcessOutput& output, v1::ProcessEnd end);
  // Writes what is due.
  void Flush(uint64_t now_ns);
  // Keeps an error, for Close() if it is the first of the run; OK is ignored.
  void KeepError(const absl::Status& status);
  // Closes all files; the summary goes into the run's own file.
  absl::Status Close(const v1::WatcherSummary& summary);

  // True once a process's stream was opened.
  bool used() const { return used_; }
  // Removes the files that this run has created, which are empty because its start
  // failed. No other call may follow.
  void Discard();

  // First error of the run; OK if none.
  const absl::Status& status() const { return first_error_; }
  // The name as the user would recognise it.
  const std::string& name() const { return name_; }
  // The first 10,000 of them; of a split recording, only completed files.
  const std::vector<std::string>& files() const { return completions_->files; }
  // The reason why nothing can be written at the moment; OK if it can be.
  const absl::Status& paused() const { return paused_; }
  uint64_t records_dropped() const;
  // Bytes written to all files.
  uint64_t bytes() const;

 private:
  explicit OutputSet(OutputOptions options) : options_(std::move(options)) {}
  // State for completed files; stays in place when the set is moved.
  struct Completions {
    std::vector<std::string> files;
    std::optional<RecordingIndex> index;
    absl::Status index_error;  // the last one
  };

  absl::StatusOr<std::unique_ptr<RecordingFile>> OpenFile(const std::string& path);
  absl::Status OpenShared();
  RecordingFileOptions FileOptions();

  OutputOptions options_;
  std::shared_ptr<Completions> completions_ = std::make_shared<Completions>();
  bool per_process_ = false;
  std::string name_;
  std::unique_ptr<RecordingFile> shared_;
  std::vector<std::unique_ptr<RecordingFile>> own_;
  std::unique_ptr<RecordingFile> nowhere_;  // created for its first process
  absl::Status first_error_;
  absl::Status round_error_;  // since the last Flush()
  absl::Status paused_;
  uint64_t last_error_ns_ = 0;  // CLOCK_BOOTTIME
  uint64_t closed_records_dropped_ = 0;
  uint64_t closed_bytes_ = 0;
  bool used_ = false;  // a process has been opened
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_OUTPUT_OUTPUT_SET_H_
