#include "userspace/cli/common/end_conversion.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "userspace/base/errno_status.h"
#include "userspace/base/file.h"
#include "userspace/base/human.h"
#include "userspace/base/status_macros.h"
#include "userspace/record/output/output_path.h"
#include "userspace/record/output/recording_index.h"

namespace rocattach {
namespace {

constexpr char kConverter[] = "rocattach";
// Maximum number of waiting recordings (paths): far more than a burst of a service.
constexpr size_t kMostWaiting = 100'000;
constexpr absl::Duration kLook = absl::Milliseconds(50);

volatile sig_atomic_t g_signalled = 0;  // a type that a signal handler may write

void OnSignal(int) {
  g_signalled = 1;
}

// While it exists, the signals that stop the program only set a flag.
class ScopedSignalFlag {
 public:
  ScopedSignalFlag() {
    g_signalled = 0;
    struct sigaction action = {};
    action.sa_handler = OnSignal;
    action.sa_flags = SA_RESTART;
    for (size_t i = 0; i < 3; ++i) sigaction(kNumbers[i], &action, &before_[i]);
  }
  ~ScopedSignalFlag() {
    for (size_t i = 0; i < 3; ++i) sigaction(kNumbers[i], &before_[i], nullptr);
  }
  ScopedSignalFlag(const ScopedSignalFlag&) = delete;
  ScopedSignalFlag& operator=(const ScopedSignalFlag&) = delete;

 private:
  static constexpr int kNumbers[3] = {SIGINT, SIGTERM, SIGHUP};
  struct sigaction before_[3];
};

// In a process group of its own: Ctrl-C ends the recording first, then the conversion.
absl::StatusOr<pid_t> Spawn(const std::string& program,
                            const std::vector<std::string>& command) {
  std::vector<char*> argv;
  argv.reserve(command.size() + 1);
  for (const std::string& word : command) {
    argv.push_back(const_cast<char*>(word.c_str()));
  }
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t signals;
  sigemptyset(&signals);
  posix_spawnattr_setsigmask(&attributes, &signals);
  for (int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) sigaddset(&signals, number);
  posix_spawnattr_setsigdefault(&attributes, &signals);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF |
                                            POSIX_SPAWN_SETSIGMASK);
  pid_t child = 0;
  const int error =
      posix_spawn(&child, program.c_str(), &files, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  if (error != 0) return ErrnoStatus(error, "cannot run " + program);
  return child;
}

}  // namespace

absl::StatusOr<std::unique_ptr<EndConversion>> EndConversion::Start(
    const char* program, WatchArguments* watch) {
  if (watch->formats.empty()) return nullptr;
  ASSIGN_OR_RETURN(std::string converter, ReadLink("/proc/self/exe"));
  converter.resize(converter.rfind('/') + 1);
  absl::StrAppend(&converter, kConverter);
  if (access(converter.c_str(), X_OK) != 0) {
    return ErrnoStatus(
        errno, absl::StrCat("nothing can be converted when processes end: ", converter,
                            " cannot be run; leave out -f, or install it there"));
  }
  WatcherOptions& watcher = watch->watcher;
  EndConversionOptions options;
  options.program = program;
  options.log_format = watch->log_format;
  options.formats = watch->formats;
  options.directory = watcher.output_directory;
  if (!watcher.output_file.empty()) {
    options.file =
        std::string(absl::StripSuffix(watcher.output_file, kRecordingExtension));
  }
  const bool shared = !NamesOneFilePerProcess(watcher.output_file);
  std::unique_ptr<EndConversion> conversion(
      new EndConversion(std::move(options), std::move(converter), shared));
  watcher.on_file_complete = [to = conversion.get()](const std::string& file) {
    to->Add({file, false});
  };
  return conversion;
}

EndConversion::EndConversion(EndConversionOptions options, std::string converter,
                             bool shared)
    : options_(std::move(options)), converter_(std::move(converter)), shared_(shared) {
  thread_ = std::thread([this] { Work(); });
}

void EndConversion::Begin(const Watcher& watcher) {
  if (shared_) Add({watcher.output_name(), true});
}

EndConversion::~EndConversion() {
  Stop();
  thread_.join();
}

void EndConversion::Add(Job job) {
  absl::MutexLock lock(&mutex_);
  if (jobs_.size() < kMostWaiting) {
    jobs_.push_back(std::move(job));
    return;
  }
  if (failed_++ == 0) first_failed_ = job.recording;
}

void EndConversion::Say(LogLevel level, absl::string_view event,
                        std::string message) const {
  WriteLog(options_.log_format, options_.program,
           {.level = level, .event = event, .message = std::move(message)});
}

void EndConversion::Stop() {
  absl::MutexLock lock(&mutex_);
  stop_ = true;
  if (child_ > 0) kill(child_, SIGTERM);
}

std::vector<std::string> EndConversion::CommandOf(const Job& job) const {
  std::vector<std::string> command = {kConverter,
                                      "convert",
                                      "--quiet",
                                      "--for-service",
                                      absl::StrCat(getpid()),
                                      "-f",
                                      absl::StrJoin(options_.formats, ",")};
  std::string directory = options_.directory, file = options_.file;
  if (job.follow) {
    command.push_back("--when-ended");
  } else {
    const std::string stem(absl::StripSuffix(job.recording, kRecordingExtension));
    const size_t slash = stem.rfind('/');
    directory = slash == std::string::npos ? "." : stem.substr(0, slash);
    file = slash == std::string::npos ? stem : stem.substr(slash + 1);
  }
  for (const std::string& word : {std::string("-d"), directory, std::string("-o"), file,
                                  std::string("--"), job.recording}) {
    command.push_back(word);
  }
  return command;
}

int EndConversion::Run(const Job& job) {
  const auto child = Spawn(converter_, CommandOf(job));
  if (!child.ok()) {
    Say(LogLevel::kError, "conversion_failed", std::string(child.status().message()));
    return -1;
  }
  {
    absl::MutexLock lock(&mutex_);
    child_ = *child;
    if (stop_) kill(child_, SIGTERM);
  }
  siginfo_t info = {};
  // Do not reap it yet: until child_ is reset, other threads may send it a signal.
  while (waitid(P_PID, static_cast<id_t>(*child), &info, WEXITED | WNOWAIT) != 0) {
    if (errno != EINTR) break;
  }
  {
    absl::MutexLock lock(&mutex_);
    child_ = 0;
  }
  int status = 0;
  while (waitpid(*child, &status, 0) < 0) {
    if (errno != EINTR) return -1;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void EndConversion::Work() {
  while (true) {
    Job job;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &EndConversion::HasWork));
      if (stop_) {
        failed_ += jobs_.size();
        if (first_failed_.empty() && !jobs_.empty()) {
          first_failed_ = jobs_.front().recording;
        }
        jobs_.clear();
        ended_ = true;
        return;
      }
      job = std::move(jobs_.front());
      jobs_.pop_front();
      working_ = true;
    }
    const int status = Run(job);
    absl::MutexLock lock(&mutex_);
    working_ = false;
    if (status == 0) continue;
    if (failed_++ == 0) first_failed_ = job.recording;
  }
}

absl::Status EndConversion::Finish() {
  ScopedSignalFlag signals;
  absl::MutexLock lock(&mutex_);
  while (!mutex_.AwaitWithTimeout(absl::Condition(this, &EndConversion::Idle), kLook)) {
    if (g_signalled == 0 || stop_) continue;
    Say(LogLevel::kWarning, "conversion_stopped", "the conversion is ended early");
    stop_ = true;
    if (child_ > 0) kill(child_, SIGTERM);
  }
  if (failed_ == 0) return absl::OkStatus();
  const std::string others =
      failed_ == 1 ? "" : absl::StrCat(" and ", HumanCount(failed_ - 1), " more");
  const std::string what = absl::StrCat("the outputs of ", first_failed_, others,
                                        " are incomplete or missing");
  const std::string help =
      absl::StrCat("the recording is not affected: rocattach convert ", first_failed_,
                   " -f ", absl::StrJoin(options_.formats, ","));
  Say(LogLevel::kError, "conversion_failed", absl::StrCat(what, ", see above; ", help));
  return absl::DataLossError(absl::StrCat(what, "; ", help));
}

}  // namespace rocattach
