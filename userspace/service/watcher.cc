#include "userspace/service/watcher.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "injector/function_offset.h"
#include "injector/probe_instruction.h"
#include "userspace/abi/geometry.h"
#include "userspace/base/clock.h"
#include "userspace/base/file.h"
#include "userspace/base/process.h"
#include "userspace/base/status_macros.h"
#include "userspace/base/version.h"

namespace rocattach {
namespace {

constexpr char kCollectorName[] = "librocattach-collector.so";
constexpr int kTickMsec = 500;
// How long the last events of a command that has just ended may take to come through.
constexpr int kSettleMsec = 50;

// Sizes of a collector's memory; sparse, only what is used costs anything.
rocattach_collector_config DefaultCollectorConfig(const WatcherOptions& options) {
  rocattach_collector_config config = {};
  config.size = sizeof(config);
  config.version = ROCATTACH_SHM_VERSION;
  config.plan_flags = options.plan_flags;
  config.recording = options.recording ? 1 : 0;
  config.ring_count = 64;
  config.ring_slots = options.ring_slots;
  config.inflight_count = 65536;
  config.dictionary_bytes = 32 << 20;
  config.map_wait_msec = 200;
  return config;
}

uint64_t MemoryBytes(rocattach_collector_config config) {
  config.collector_path[0] = '/';  // any: without one the config is not valid
  collector::Geometry geometry;
  return collector::ComputeGeometry(config, &geometry) ? geometry.total_bytes : 0;
}

// Directories that the command's own environment adds to the search for libraries.
std::vector<std::string> LibraryPathEntries() {
  std::vector<std::string> entries;
  const char* path = getenv("LD_LIBRARY_PATH");
  if (path == nullptr) return entries;
  for (absl::string_view entry : absl::StrSplit(path, ':', absl::SkipEmpty())) {
    entries.push_back(absl::StrCat(entry, "/libhsa-runtime64*.so*"));
  }
  return entries;
}

// Processes that the command left behind become ours (PR_SET_CHILD_SUBREAPER), so that
// they still count as its descendants. Zombies among them are reaped one by one:
// waitpid(-1) could take a ptrace stop from an attach thread, and the command's own
// status is wanted by the caller.
void ReapOrphans(pid_t command) {
  for (;;) {
    siginfo_t info = {};
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WNOTHREAD) != 0 ||
        info.si_pid == 0 || info.si_pid == command) {
      return;
    }
    waitpid(info.si_pid, nullptr, WNOHANG | __WNOTHREAD);
  }
}

bool OthersMayWrite(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return true;
  // In a sticky directory, as /tmp, files can be added by anybody.
  return (info.st_uid != 0 && info.st_uid != geteuid()) ||
         ((info.st_mode & S_IWGRP) != 0 && info.st_gid != 0) ||
         (info.st_mode & S_IWOTH) != 0;
}

// The file itself, or by another file in its directory.
bool OthersMayReplace(const std::string& path) {
  char* real = realpath(path.c_str(), nullptr);
  if (real == nullptr) return true;
  const std::string file = real;
  free(real);
  return OthersMayWrite(file) ||
         OthersMayWrite(file.substr(0, std::max<size_t>(file.rfind('/'), 1)));
}

}  // namespace

absl::StatusOr<std::string> FindCollector(const std::string& given) {
  std::vector<std::string> candidates;
  std::string untrusted;
  if (!given.empty()) {
    candidates.push_back(given);
  } else {
    if (auto program = ReadLink("/proc/self/exe"); program.ok()) {
      std::string directory = program->substr(0, program->rfind('/'));
      candidates = {absl::StrCat(directory, "/", kCollectorName),
                    absl::StrCat(directory, "/../collector/", kCollectorName),
                    absl::StrCat(directory, "/", ROCATTACH_LIBDIR_FROM_BINDIR,
                                 "/rocattach/", kCollectorName)};
    }
    candidates.push_back(
        absl::StrCat(ROCATTACH_INSTALL_LIBDIR, "/rocattach/", kCollectorName));
  }
  for (const std::string& candidate : candidates) {
    if (char* real = realpath(candidate.c_str(), nullptr); real != nullptr) {
      std::string path = real;
      free(real);
      if (access(path.c_str(), R_OK) != 0) continue;
      // A place that nobody has named must not be one where another user may put a
      // library for us to load into every process.
      if (given.empty() && OthersMayReplace(path) &&
          !OthersMayReplace("/proc/self/exe")) {
        untrusted = path;
        continue;
      }
      return path;
    }
  }
  if (!untrusted.empty()) {
    return absl::PermissionDeniedError(
        absl::StrCat("the collector ", untrusted,
                     " can be changed by other users than this program can; name it "
                     "with --collector FILE to use it all the same"));
  }
  return absl::NotFoundError(
      absl::StrCat("the collector ", candidates[0],
                   " cannot be read; name it with --collector FILE"));
}

absl::StatusOr<std::string> FindProgram(const std::string& name) {
  std::vector<std::string> candidates;
  if (absl::StrContains(name, '/')) {
    candidates.push_back(name);
  } else {
    const char* path = getenv("PATH");
    for (absl::string_view entry : absl::StrSplit(path ? path : "/bin:/usr/bin", ':')) {
      candidates.push_back(entry.empty() ? name : absl::StrCat(entry, "/", name));
    }
  }
  // As execvp: one that may not be executed is the answer only if no other is found.
  int error = ENOENT;
  for (const std::string& candidate : candidates) {
    struct stat info;
    if (access(candidate.c_str(), X_OK) == 0 && stat(candidate.c_str(), &info) == 0 &&
        S_ISREG(info.st_mode)) {
      return candidate;
    }
    if (access(candidate.c_str(), F_OK) == 0 || errno == EACCES) error = EACCES;
  }
  return absl::ErrnoToStatus(error, absl::StrCat("cannot run ", name));
}

absl::StatusOr<std::unique_ptr<Watcher>> Watcher::Start(WatcherOptions options,
                                                        WatcherObserver* observer) {
  auto watcher = std::unique_ptr<Watcher>(new Watcher());
  watcher->options_ = std::move(options);
  watcher->observer_ = observer;
  WatcherOptions& o = watcher->options_;
  watcher->descriptors_ = DescriptorLimit::Raise();
  o.budget.processes = watcher->descriptors_.Processes(o.budget.processes);
  watcher->stop_fd_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!watcher->stop_fd_.valid()) return absl::ErrnoToStatus(errno, "eventfd() failed");

  KernelProbeOptions probe;
  probe.hold = o.attach && !o.dry_run && o.best_hold_mode != HoldMode::kNone;
  probe.hold_deadline_ns = uint64_t{o.hold_timeout_msec} * 1'000'000;
  probe.budget = o.budget;
  probe.best_hold_mode = std::min(o.best_hold_mode, HoldMode::kSignal);
  if (o.only_own_command) {
    probe.only_below = getpid();
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) {
      return absl::ErrnoToStatus(errno, "prctl(PR_SET_CHILD_SUBREAPER) failed");
    }
  }
  ASSIGN_OR_RETURN(watcher->probe_, KernelProbe::Load(probe));

  if (probe.hold) {
    ASSIGN_OR_RETURN(watcher->stop_guard_,
                     StopGuard::Start(std::clamp(o.hold_timeout_msec / 4, 5u, 50u)));
  }

  LibraryScanOptions scan;
  scan.extra_paths = o.extra_libraries;
  scan.most_copies = o.budget.libraries;
  scan.most_copies_per_user = o.budget.libraries_per_user;
  for (std::string& entry : LibraryPathEntries()) scan.usual_places.push_back(entry);
  watcher->libraries_ = ScanLibraries(scan);

  RecorderOptions recorder;
  recorder.output = {o.output_directory, o.output_file, o.recorder_arguments};
  recorder.recording = o.recording;
  recorder.collector_config = DefaultCollectorConfig(o);
  if (o.catalog != nullptr && o.attach && !o.dry_run) {
    watcher->sessions_ = std::make_unique<SessionService>(
        o.catalog, [observer](pid_t pid, const std::string& why) {
          if (observer != nullptr) observer->OnSessionRefused(pid, why);
        });
    recorder.targets = watcher->sessions_->targets();
    recorder.sdk_search = o.sdk_search;
    recorder.hold_arrivals = [sessions = watcher->sessions_.get()] {
      return sessions->holds_arrivals();
    };
  }
  if (o.attach && !o.dry_run) {
    watcher->stub_remover_ = std::make_unique<StubRemover>();
    recorder.stub_remover = watcher->stub_remover_.get();
  }
  ASSIGN_OR_RETURN(watcher->recorder_, Recorder::Start(std::move(recorder), observer));

  if (SessionService* sessions = watcher->sessions_.get()) {
    sessions->SetRecorder(watcher->recorder_.get());
    if (!o.session.filters.empty()) {
      ASSIGN_OR_RETURN(watcher->session_, sessions->Start(o.session));
    }
  }
  if (o.attach) {
    ASSIGN_OR_RETURN(o.collector_path, FindCollector(o.collector_path));
    ASSIGN_OR_RETURN(watcher->collector_, CollectorFile::Open(o.collector_path));
    RETURN_IF_ERROR(watcher->ArmCollector());
  }
  watcher->server_ = std::make_unique<WindowServer>(
      watcher->probe_.get(), watcher->recorder_.get(), watcher->ServerOptions());
  // The threads first: a window that opens while the probes go in is met already.
  RETURN_IF_ERROR(watcher->server_->Start());
  RETURN_IF_ERROR(watcher->ArmLibraries());
  return watcher;
}

WindowServerOptions Watcher::ServerOptions() const {
  WindowServerOptions server;
  if (SessionService* sessions = sessions_.get()) {
    server.needs_sdk = [sessions, always = options_.always_sdk] {
      return always || sessions->needs_sdk();
    };
    server.sdk_search = options_.sdk_search;
  }
  server.policy.rules = options_.policy;
  server.stub_remover = stub_remover_.get();
  server.policy.attach = options_.attach;
  server.policy.dry_run = options_.dry_run;
  server.policy.hold = options_.best_hold_mode != HoldMode::kNone;
  server.hold_timeout_msec = options_.hold_timeout_msec;
  server.threads = options_.threads;
  server.policy.budget = options_.budget;
  server.policy.full = [recorder = recorder_.get(), most = options_.budget.processes] {
    if (recorder->running() >= most) {
      return absl::StrCat(most,
                          " processes are attached, as many as --max-processes and the "
                          "limit of open files (ulimit -n) allow");
    }
    if (recorder->crowded()) {
      return std::string(
          "the service is behind with its recording: the output, or the processor, is "
          "too "
          "slow for it");
    }
    return std::string();
  };
  server.collector.config = DefaultCollectorConfig(options_);
  server.collector.memory_bytes = MemoryBytes(server.collector.config);
  if (collector_ != nullptr) {
    const CollectorFile::Choice* copy = collector_->copy();
    server.collector.file = copy != nullptr ? *copy : collector_->original();
    if (copy != nullptr) server.collector.other_file = collector_->original();
  }
  for (const LibraryCopy& copy : libraries_.copies) {
    server.libraries.push_back(copy.path);
  }
  return server;
}

Watcher::~Watcher() {
  if (server_ != nullptr) server_->Stop();
  if (sessions_ != nullptr) sessions_->Close();
  if (recorder_ != nullptr && !ran_) recorder_->Abandon();
}

absl::Status Watcher::ArmCollector() {
  const int fd = collector_->original_fd();
  ASSIGN_OR_RETURN(uint64_t ready,
                   FindFunctionFileOffset(fd, ROCATTACH_COLLECTOR_READY));
  ASSIGN_OR_RETURN(uint64_t unloaded,
                   FindFunctionFileOffset(fd, ROCATTACH_COLLECTOR_UNLOADED));
  // By the descriptors: what lies at the path may have been replaced since.
  RETURN_IF_ERROR(
      probe_->AddCollector(absl::StrCat("/proc/self/fd/", fd), ready, unloaded));
  if (collector_->copy() == nullptr) return absl::OkStatus();
  return probe_->AddCollector(absl::StrCat("/proc/self/fd/", collector_->copy_fd()),
                              ready, unloaded);
}

// 1. The scan has opened the file and found hsa_init in it.
// 2. The probe goes to what was opened.
// 3. A file that has changed meanwhile is looked at once more: a rename is no harm. If
//    it was written, the probe may stand anywhere: it goes away again.
// 4. What is written after the watch was set, the watch tells.
absl::Status Watcher::ArmLibrary(size_t index) {
  const LibraryCopy& copy = libraries_.copies[index];
  const uint64_t cookie = index + 1;
  library_watch_.Add(index, copy.file);
  RETURN_IF_ERROR(
      probe_->AddLibrary(copy.file.ProbePath(), copy.hsa_init_offset, cookie));
  absl::Status unchanged = copy.file.CheckUnchanged();
  if (unchanged.ok()) return absl::OkStatus();
  const int fd = copy.file.fd();
  auto offset = FindFunctionFileOffset(fd, "hsa_init");
  if (offset.ok() && *offset == copy.hsa_init_offset &&
      CheckProbeInstruction(fd, *offset).ok()) {
    return absl::OkStatus();
  }
  probe_->RemoveLibrary(cookie);
  return unchanged;
}

absl::Status Watcher::ArmLibraries() {
  for (size_t i = 0; i < libraries_.copies.size(); ++i) {
    const LibraryCopy& copy = libraries_.copies[i];
    absl::Status status = ArmLibrary(i);
    if (status.ok()) continue;
    libraries_.rejected.push_back({copy.path, std::string(status.message())});
    // One copy that resists must not cost the others; no copy at all is an error.
    if (libraries_.copies.size() == 1) return status;
  }
  return absl::OkStatus();
}

void Watcher::DisarmWritten() {
  for (size_t index : library_watch_.Written()) {
    probe_->RemoveLibrary(index + 1);
    const std::string& path = libraries_.copies[index].path;
    if (observer_ != nullptr) {
      observer_->OnLibraryChanged(
          path,
          "was written to, so its probe was taken away: another instruction may stand "
          "there now. Processes that load it from now on are not seen; start "
          "rocattach-watch again. Replace libraries by renaming, as package managers "
          "do, and not by writing into them");
    }
  }
}

void Watcher::RequestStop(int forward_signal) {
  forward_signal_ = forward_signal;
  uint64_t one = 1;
  (void)!write(stop_fd_.get(), &one, sizeof(one));
}

absl::StatusOr<pid_t> Watcher::Launch(const std::vector<std::string>& command) {
  std::vector<char*> argv;
  argv.reserve(command.size() + 1);
  for (const std::string& word : command)
    argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  // The exec's errno comes back through a pipe that a successful exec closes.
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "pipe2() failed");
  UniqueFd reader(fds[0]), writer(fds[1]);
  pid_t parent = getpid();
  pid_t child = fork();
  if (child < 0) return absl::ErrnoToStatus(errno, "fork() failed");
  if (child == 0) {
    for (int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) signal(number, SIG_DFL);
    // Like any child of a shell it dies of its own causes only; but a command whose
    // watcher never came up must not run unprofiled.
    if (getppid() != parent) _exit(127);
    descriptors_.Restore();
    execvp(argv[0], argv.data());
    int error = errno;
    (void)!write(writer.get(), &error, sizeof(error));
    _exit(127);
  }
  writer.reset();
  int error = 0;
  if (read(reader.get(), &error, sizeof(error)) ==
      static_cast<ssize_t>(sizeof(error))) {
    waitpid(child, nullptr, 0);
    return absl::ErrnoToStatus(error, absl::StrCat("cannot run ", command[0]));
  }
  return child;
}

bool Watcher::StopsNow(RunResult* result) {
  uint64_t count;
  (void)!read(stop_fd_.get(), &count, sizeof(count));
  // The command's end is the run's end: it is asked to end, and waited for. The second
  // request, or one without a command, ends the run at once.
  const bool again = std::exchange(result->interrupted, true);
  if (command_ <= 0 || again) return true;
  if (int number = forward_signal_.load(); number != 0) kill(command_, number);
  return false;
}

void Watcher::Wait(uint64_t deadline_ns, const std::function<void()>& on_tick,
                   RunResult* result) {
  UniqueFd child_fd;
  if (command_ > 0) {
    if (auto fd = OpenPidFd(command_); fd.ok()) child_fd = *std::move(fd);
  }
  for (;;) {
    int timeout = kTickMsec;
    if (deadline_ns != 0) {
      uint64_t now = BootNs();
      if (now >= deadline_ns) {
        result->command_runs_on = command_ > 0;
        return;
      }
      timeout = static_cast<int>(
          std::min<uint64_t>(kTickMsec, (deadline_ns - now) / 1'000'000 + 1));
    }
    // Without a descriptor poll() passes over the entry.
    pollfd fds[3] = {{stop_fd_.get(), POLLIN, 0},
                     {child_fd.get(), POLLIN, 0},
                     {library_watch_.fd(), POLLIN, 0}};
    int ready = poll(fds, 3, timeout);
    if (on_tick) on_tick();
    ReapOrphans(command_);
    if (ready <= 0) continue;
    if (fds[2].revents != 0 && probe_ != nullptr) DisarmWritten();
    if (fds[0].revents != 0 && StopsNow(result)) return;
    if (child_fd.valid() && fds[1].revents != 0) {
      int status = 0;
      if (waitpid(command_, &status, __WNOTHREAD) == command_)
        result->command_status = status;
      command_ = -1;
      return;
    }
  }
}

std::optional<int> Watcher::WaitForCommand() {
  // Nobody would read what the probes tell.
  server_.reset();
  probe_.reset();
  RunResult result;
  if (command_ > 0) Wait(0, nullptr, &result);
  return result.command_status;
}

absl::StatusOr<RunResult> Watcher::Run(const std::vector<std::string>& command,
                                       const std::function<void()>& on_tick) {
  RunResult result;
  if (!command.empty()) {
    ASSIGN_OR_RETURN(command_, Launch(command));
  }
  ran_ = true;
  const uint64_t duration_ns = uint64_t{options_.duration_msec} * 1'000'000;
  Wait(duration_ns == 0 ? 0 : BootNs() + duration_ns, on_tick, &result);
  if (!command.empty()) poll(nullptr, 0, kSettleMsec);
  probe_->SetPaused(true);
  server_->Stop();
  if (sessions_ != nullptr) {
    sessions_->Close();
    for (const SessionInfo& info : sessions_->List()) {
      if (info.number != session_) continue;
      result.session_refused = info.refused_by_all;
      result.session_measures = NeedsSdk(options_.session.filters);
    }
  }
  result.kernel = probe_->ReadStats();
  result.refusals = probe_->ReadRefusals();
  result.output_status = recorder_->Finish(result.kernel);
  result.totals = recorder_->Totals();
  result.files = recorder_->files();
  return result;
}

}  // namespace rocattach
