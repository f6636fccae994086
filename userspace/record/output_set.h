// The output of a run: one stream for everything, or one per process.
#ifndef ROCATTACH_USERSPACE_RECORD_OUTPUT_SET_H_
#define ROCATTACH_USERSPACE_RECORD_OUTPUT_SET_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "schemas/stream.pb.h"
#include "userspace/base/process.h"
#include "userspace/record/recording_file.h"
#include "userspace/record/recording_index.h"
#include "userspace/record/rotation_options.h"
#include "userspace/stream/writer.h"

namespace rocattach {

struct OutputOptions {
  std::string directory = ".";
  // With rocprofv3's keys; "-" is standard output; empty is the default name.
  std::string file;
  std::vector<std::string> recorder_arguments;
  // Where each process has a file of its own: such a file is complete. Must not wait;
  // may be null.
  std::function<void(const std::string& file)> on_complete = nullptr;
  RotationOptions rotation = {};
  // As RecordingFileOptions has it.
  std::function<ClockSnapshot()> clock = TakeClockSnapshot;
};

// Where one process's stream is written.
struct ProcessOutput {
  StreamWriter* writer = nullptr;
  StreamId stream = 0;
  // It has a file; false: it would be the only one in its file, and was not to be
  // recorded.
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
  // The same for a process that is not to be recorded: it gets no file of its own, and
  // its stream goes nowhere then.
  absl::StatusOr<ProcessOutput> OpenUnwanted(const ProcessInfo& info,
                                             v1::Process process);
  // Ends the stream; a file of its own is closed.
  void EndProcess(const ProcessOutput& output, v1::ProcessEnd end);
  // Writes what is due. The first error of the run is kept.
  void Flush(uint64_t now_ns);
  void Note(const absl::Status& status);
  // The summary goes into every open file.
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
  // The first 10,000 of them. Of a split recording those that are complete.
  const std::vector<std::string>& files() const { return completions_->files; }
  // Nothing can be written at the moment, for this reason; OK: it can.
  const absl::Status& paused() const { return paused_; }
  uint64_t records_dropped() const;
  // Bytes written to all files.
  uint64_t bytes() const;

 private:
  explicit OutputSet(OutputOptions options) : options_(std::move(options)) {}
  // What happens to completed files; outlives moves of the set.
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
  std::unique_ptr<RecordingFile> nowhere_;  // once there is a process for it
  absl::Status first_error_;
  absl::Status round_error_;  // since the last Flush()
  absl::Status paused_;
  uint64_t last_error_ns_ = 0;  // CLOCK_BOOTTIME
  uint64_t closed_records_dropped_ = 0;
  uint64_t closed_bytes_ = 0;
  bool used_ = false;  // a process has been opened
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_OUTPUT_SET_H_
