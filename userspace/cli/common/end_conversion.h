// Conversion during a recording: each process's records as soon as it has ended.
//
// `rocattach convert` runs in a process of its own, because its input comes from
// targets: if it fails, the service continues, and the recording stays complete. The
// process has a low priority and no privilege but to write to the output directory, and
// the kernel kills it first when memory runs out. One conversion runs at a time.
#ifndef ROCATTACH_USERSPACE_CLI_COMMON_END_CONVERSION_H_
#define ROCATTACH_USERSPACE_CLI_COMMON_END_CONVERSION_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "userspace/cli/options/watch_arguments.h"
#include "userspace/cli/terminal/log_line.h"
#include "userspace/service/watcher.h"

namespace rocattach {

struct EndConversionOptions {
  const char* program = "";  // for messages
  LogFormat log_format = LogFormat::kText;
  std::vector<std::string> formats;
  // Names of the outputs if all processes share a recording; may contain keys.
  std::string directory;
  std::string file = "%hostname%/%pid%";
};

class EndConversion {
 public:
  // Creates the conversion that `watch` requests (null: none), which gets all complete
  // recordings from now on. Fails if `rocattach` is not in this program's directory.
  static absl::StatusOr<std::unique_ptr<EndConversion>> Start(const char* program,
                                                              WatchArguments* watch);
  // Ends a conversion that is still running: its outputs stay partial.
  ~EndConversion();

  // Call when the recording has begun.
  void Begin(const Watcher& watcher);

  // Call after the end of all recordings: waits for the conversions. A signal that
  // would stop the program ends them early. Returns an error if an output is missing,
  // which has been reported.
  absl::Status Finish();

 private:
  struct Job {
    std::string recording;
    bool follow = false;  // the recording is still being made
  };

  EndConversion(EndConversionOptions options, std::string converter, bool shared);
  void Add(Job job) ABSL_LOCKS_EXCLUDED(mutex_);
  void Work() ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns the exit status, 128 + signal, or -1 if it could not be started.
  int Run(const Job& job) ABSL_LOCKS_EXCLUDED(mutex_);
  std::vector<std::string> CommandOf(const Job& job) const;
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);
  // Logs to standard error.
  void Say(LogLevel level, absl::string_view event, std::string message) const;
  bool Idle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return ended_ || (jobs_.empty() && !working_);
  }
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stop_ || !jobs_.empty();
  }

  const EndConversionOptions options_;
  const std::string converter_;
  const bool shared_;  // all processes have one recording
  absl::Mutex mutex_;
  std::deque<Job> jobs_ ABSL_GUARDED_BY(mutex_);
  bool working_ ABSL_GUARDED_BY(mutex_) = false;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  pid_t child_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t failed_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string first_failed_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;  // starts the conversions; they get SIGTERM when it ends
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CLI_COMMON_END_CONVERSION_H_
