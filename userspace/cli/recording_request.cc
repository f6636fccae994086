#include "userspace/cli/recording_request.h"

#include <stdio.h>

#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "userspace/base/human.h"
#include "userspace/base/status_macros.h"
#include "userspace/base/user_threads.h"
#include "userspace/cli/attach_console.h"
#include "userspace/cli/common/command_run.h"
#include "userspace/cli/common/end_conversion.h"
#include "userspace/cli/common/parent_process.h"
#include "userspace/cli/subcommands.h"
#include "userspace/cli/terminal/enter_key.h"
#include "userspace/cli/terminal/input_end.h"
#include "userspace/doctor/start_checks.h"
#include "userspace/record/drain/dictionary.h"
#include "userspace/service/watcher.h"
#include "userspace/watch/late/running_process.h"
#include "userspace/watch/late/runtime_start.h"

namespace rocattach {
namespace {

constexpr int kExitCannotStart = 3;
constexpr int kExitNothing = 4;

// Checking a process takes some milliseconds, unless the check is kept waiting.
constexpr absl::Duration kCheckPatience = absl::Seconds(5);

AttachConsoleOptions ConsoleOptions(const RecordingRequest& run,
                                    const WatchArguments& watch) {
  const bool stdout_taken = watch.watcher.output_file == "-" || !watch.command.empty();
  return {.json = watch.json,
          .log_format = watch.log_format,
          .quiet = watch.quiet,
          .recording = watch.watcher.recording,
          .announce = run.announce,
          .live = watch.command.empty(),
          .children = run.children,
          .named = {run.pids.begin(), run.pids.end()},
          .out = watch.json && !stdout_taken ? stdout : stderr};
}

void Log(LogFormat format, const LogEntry& entry) {
  WriteLog(format, "rocattach", entry);
}

// Prints the details that -V and -VV add.
void Explain(const RecordingRequest& run, const WatchArguments& watch,
             const Watcher& watcher) {
  if (run.verbosity >= 1) {
    size_t counters = 0;
    for (const FilterSpec& filter : watch.watcher.session.filters) {
      counters += filter.CounterList().size();
    }
    fprintf(stderr, "rocattach: %zu counters and metrics, output %s\n", counters,
            watcher.output_name().c_str());
  }
  if (run.verbosity >= 2) {
    fprintf(stderr, "rocattach: hold '%s'%s\n",
            std::string(HoldModeName(watcher.hold_mode())).c_str(),
            watcher.hold_mode_reason().empty()
                ? ""
                : absl::StrCat(" (", watcher.hold_mode_reason(), ")").c_str());
    for (const LibraryCopy& copy : watcher.libraries().copies) {
      fprintf(stderr, "rocattach: HSA runtime %s\n", CleanText(copy.path).c_str());
    }
  }
  if (run.verbosity >= 3) {
    for (const FilterSpec& filter : watch.watcher.session.filters) {
      for (const std::string& name : filter.CounterList()) {
        fprintf(stderr, "rocattach: counter %s\n", name.c_str());
      }
    }
  }
}

// True if the recording has the counters that it needs; reports it if not.
bool HasCounters(const RecordingRequest& run, const RunResult& result, LogFormat log) {
  if (!run.needs_counters) return true;
  if (result.totals.measured > 0) {
    Log(log,
        {.event = "session_collected",
         .message = absl::StrCat("counters of ", HumanCount(result.totals.measured),
                                 " dispatches were measured")});
    return true;
  }
  Log(log, {.level = LogLevel::kWarning,
            .event = "session_empty",
            .message = absl::StrCat(
                "no counters were measured",
                result.totals.attached == 0 ? ": no process was attached to"
                : result.session_refused    ? ": every process refused them, see above"
                                            : ": no kernel was dispatched meanwhile")});
  return false;
}

// Processes the recordings, unless the counters that they need are missing.
bool FinishOutputs(const RecordingRequest& run, const RunResult& result, bool counted) {
  return !counted || !run.afterwards || run.afterwards(result.files);
}

int PrintError(const absl::Status& status, int exit_status, LogFormat log) {
  Log(log, {.level = LogLevel::kError,
            .event = "failed",
            .message = std::string(status.message())});
  return exit_status;
}

// OK if the process can be attached to now or, if the options allow it, later.
absl::Status CheckAttachable(pid_t pid, bool wait, bool children) {
  if (pid == MainProcess()) {
    return absl::InvalidArgumentError(
        absl::StrCat("process ", pid, " is the one that is to attach"));
  }
  if (absl::Status status = CheckIsProcess(pid); !status.ok()) return status;
  // Its children may have started their runtime.
  if (children) return absl::OkStatus();
  absl::Status status = CheckRuntimeStarted(pid);
  if (!absl::IsFailedPrecondition(status)) return status;
  if (wait) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(status.message(), "; --wait waits until it does"));
}

// Reports once what rules out any attach, in the words of 'rocattach doctor'.
absl::StatusOr<std::unique_ptr<Watcher>> StartWatcher(const WatchArguments& watch,
                                                      AttachConsole* console) {
  if (const absl::Status start = CheckStart({.enters_all = false}).status;
      !start.ok()) {
    return absl::PermissionDeniedError(start.message());
  }
  return Watcher::Start(watch.watcher, console);
}

// Returns the processes that can be attached to, and reports the others to the console.
// `*kept`: a process keeps the thread that checks it waiting; that thread cannot end.
std::vector<ProcessId> Attachable(const RecordingRequest& run, AttachConsole* console,
                                  bool* kept) {
  struct Answers {
    absl::Mutex mutex;
    std::map<pid_t, std::pair<ProcessId, absl::Status>> of ABSL_GUARDED_BY(mutex);
  };
  const auto answers = std::make_shared<Answers>();
  UserThreads threads("rocattach-check", /*most_per_user=*/2);
  const std::set<pid_t> unread =
      ReadProcesses(&threads, kCheckPatience, run.pids,
                    [answers, wait = run.wait, children = run.children](pid_t pid) {
                      const ProcessId process = IdentityOf(pid);
                      absl::Status status = CheckAttachable(pid, wait, children);
                      absl::MutexLock lock(&answers->mutex);
                      answers->of[pid] = {process, std::move(status)};
                    });
  *kept = !unread.empty();
  std::set<ProcessId> wanted;
  absl::MutexLock lock(&answers->mutex);
  for (pid_t pid : run.pids) {
    const auto& [process, checked] = answers->of[pid];
    const absl::Status status =
        unread.contains(pid) ? KeepsReadersWaiting(pid) : checked;
    if (!status.ok()) {
      console->Refuse(pid, status);
    } else {
      wanted.insert(process);
    }
  }
  return {wanted.begin(), wanted.end()};
}

}  // namespace

void AddAttachOptions(CLI::App* app, RecordingRequest* run) {
  CLI::Option* wait = app->add_flag(
      "--wait", run->wait,
      "Wait for processes that have not started their HSA runtime, or that cannot be "
      "entered now, and attach when they can be; the duration counts from then on");
  app->add_option("--wait-timeout-msec", run->wait_timeout_msec,
                  "Stop waiting after this time; 0: only on Enter or Ctrl-C")
      ->check(CLI::Range(int64_t{0}, int64_t{UINT32_MAX}))
      ->type_name("MSEC")
      ->needs(wait);
  app->add_flag("--announce", run->announce,
                "Print a line into the standard error of each process when it is "
                "attached to, and one at the detach");
}

absl::Status InterpretAttach(const CLI::App& app, const char* name,
                             WatchArguments* watch) {
  watch->watcher.attach = true;
  if (watch->command.empty()) {
    // The duration is that of the whole run, with or without a session.
    watch->watcher.duration_msec =
        static_cast<uint64_t>(std::exchange(watch->session.duration_msec, 0));
  }
  std::string words = name;  // for the stream's header
  char* arguments[] = {words.data()};
  absl::Status status = InterpretWatchArguments(app, 1, arguments, watch);
  watch->watcher.watch_new = !watch->command.empty();
  return status;
}

namespace {

// `*kept`: a thread that checks a process cannot end.
int RecordAttachable(const RecordingRequest& run, WatchArguments* watch, bool* kept) {
  AttachConsole console(ConsoleOptions(run, *watch));
  watch->watcher.running = Attachable(run, &console, kept);
  if (watch->watcher.running.empty()) {
    console.PrintEnd({}, console.Summarize(RunResult()), absl::OkStatus());
    return kExitLosses;
  }
  watch->watcher.follow_children = run.children;
  watch->watcher.wait_for_start = run.wait;
  watch->watcher.wait_timeout_msec = run.wait_timeout_msec;
  watch->watcher.duration_from_attach = true;
  watch->watcher.watch_new = run.children || run.wait;
  auto conversion = EndConversion::Start("rocattach", watch);
  if (!conversion.ok()) {
    return PrintError(conversion.status(), kExitCannotStart, watch->log_format);
  }
  auto watcher = StartWatcher(*watch, &console);
  if (!watcher.ok()) {
    console.ReportFailure(watcher.status());
    return kExitCannotStart;
  }
  if (*conversion != nullptr) (*conversion)->Begin(**watcher);
  console.Expect((*watcher)->running());
  Explain(run, *watch, **watcher);
  StopSignals signals(watcher->get());
  InputEnd input_end(run.detach_on_eof, [&] { (*watcher)->RequestStop(0); });
  EnterKey enter(/*wanted=*/!run.detach_on_eof);
  if (enter.watching() && !watch->quiet && !watch->json) {
    Log(watch->log_format,
        {.event = "stop_hint", .message = "press Enter or Ctrl-C to detach"});
  }
  console.SetSessionAnswers((*watcher)->SessionAnswers());
  auto result = (*watcher)->Run({}, [&] {
    console.SetSessionAnswers((*watcher)->SessionAnswers());
    console.Tick((*watcher)->Totals());
    // Nothing is left to be recorded: every process has ended, or was refused.
    const bool over = console.decided() && !console.any_attached() &&
                      !(run.children && (*watcher)->FollowsAny());
    if (over || enter.Pressed(0)) (*watcher)->RequestStop(0);
  });
  if (!result.ok()) {
    return PrintError(result.status(), kExitCannotStart, watch->log_format);
  }
  const AttachResult outcome = console.Summarize(*result);
  const bool counted = HasCounters(run, *result, watch->log_format);
  const bool finished = FinishOutputs(run, *result, counted);
  const absl::Status converted =
      *conversion == nullptr ? absl::OkStatus() : (*conversion)->Finish();
  console.PrintEnd(*result, outcome, converted);
  int status = outcome == AttachResult::kRecorded ? kExitOk : kExitNothing;
  if (!counted || !finished || !converted.ok() ||
      outcome == AttachResult::kNotRecorded) {
    status = kExitLosses;
  }
  ExitIfKept(**watcher, status);
  return status;
}

}  // namespace

int RecordRunning(const RecordingRequest& run, WatchArguments* watch) {
  return RunBelowParent([&] {
    bool kept = false;
    const int status = RecordAttachable(run, watch, &kept);
    if (kept) ExitWithKept(status);
    return status;
  });
}

int RecordCommand(const RecordingRequest& run, WatchArguments* watch) {
  AttachConsole console(ConsoleOptions(run, *watch));
  auto watcher = StartWatcher(*watch, &console);
  if (!watcher.ok()) {
    console.ReportFailure(watcher.status());
    return kExitCannotStart;
  }
  Explain(run, *watch, **watcher);
  StopSignals signals(watcher->get());
  auto result = (*watcher)->Run(watch->command, nullptr);
  if (!result.ok()) {
    return PrintError(result.status(), CommandExit(result.status()), watch->log_format);
  }
  const AttachResult outcome = console.Summarize(*result);
  const bool complete = outcome != AttachResult::kNotRecorded;
  const bool counted = HasCounters(run, *result, watch->log_format);
  const bool finished = FinishOutputs(run, *result, counted);
  console.PrintEnd(*result, outcome, absl::OkStatus());
  int status = ExitStatusOfCommand(*result);
  if (status == 0 && !(complete && counted && finished)) status = kExitLosses;
  ExitIfKept(**watcher, status);
  return status;
}

}  // namespace rocattach
