// rocattach-watch: the service's command line.
#include <malloc.h>
#include <stdio.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "userspace/base/human.h"
#include "userspace/base/process.h"
#include "userspace/cli/common/command_run.h"
#include "userspace/cli/common/end_conversion.h"
#include "userspace/cli/common/guarded_main.h"
#include "userspace/cli/common/parent_process.h"
#include "userspace/cli/options/help_formatter.h"
#include "userspace/cli/options/usage_error.h"
#include "userspace/cli/options/watch_arguments.h"
#include "userspace/cli/terminal/enter_key.h"
#include "userspace/cli/terminal/log_line.h"
#include "userspace/cli/watch/service_notifier.h"
#include "userspace/cli/watch/watch_console.h"
#include "userspace/control/sessions_server.h"
#include "userspace/doctor/start_checks.h"
#include "userspace/service/watcher.h"
#include "userspace/watch/late/running_process.h"

namespace rocattach {
namespace {

// Exit statuses other than the command's own.
constexpr int kExitIncomplete = 1;  // the run finished, but its output is incomplete
constexpr int kExitUsage = 2;
constexpr int kExitCannotStart = 3;

void Log(const WatchArguments& args, LogLevel level, absl::string_view event,
         std::string message) {
  WriteLog(args.log_format, "rocattach-watch",
           {.level = level, .event = event, .message = std::move(message)});
}

// Null if there is no control socket. A path given by the option must work; the
// default one may be in use by another service.
absl::StatusOr<std::unique_ptr<SessionsServer>> StartControl(const WatchArguments& args,
                                                             Watcher* watcher) {
  if (watcher->sessions() == nullptr) return nullptr;
  if (!args.socket_wanted) return nullptr;
  auto server = SessionsServer::Start(args.socket, watcher->sessions(),
                                      watcher->output_name(), &watcher->history());
  if (server.ok() || args.socket_named) return server;
  Log(args, LogLevel::kWarning, "no_control_socket",
      absl::StrCat("no control socket: ", server.status().message()));
  return nullptr;
}

int ExitStatus(const WatchArguments& args, const RunResult& result) {
  if (int status = ExitStatusOfCommand(result); status != 0) return status;
  const bool none_of_named =
      !args.named.empty() && !args.watcher.dry_run && result.totals.attached == 0;
  const bool complete =
      result.output_status.ok() && !result.session_refused && !result.session_too_late;
  return complete && !none_of_named ? 0 : kExitIncomplete;
}

// True until all processes that -p names have ended; always without -p.
bool AnyIsLeft(const WatchArguments& args) {
  const std::vector<ProcessId>& named = args.named;
  return named.empty() ||
         std::any_of(named.begin(), named.end(), [](const ProcessId& process) {
           return Lives(process) && CheckIsProcess(process.pid).ok();
         });
}

int LogError(const WatchArguments& args, const absl::Status& status, int exit_status) {
  Log(args, LogLevel::kError, "failed", std::string(status.message()));
  return exit_status;
}

// False if the program must end with `exit_status`.
bool Parse(int argc, char** argv, WatchArguments* args, int* exit_status) {
  CLI::App app(
      "Watches the machine for new AMD GPU processes, attaches a collector to each at "
      "its\nfirst hsa_init, and records kernel dispatches and memory copies.",
      "rocattach-watch");
  app.formatter(std::make_shared<HelpFormatter>());
  app.failure_message(UsageError);
  AddWatchOptions(&app, args);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    *exit_status = app.exit(error) == 0 ? 0 : kExitUsage;
    return false;
  }
  absl::Status status = InterpretWatchArguments(app, argc, argv, args);
  if (status.ok()) return true;
  *exit_status =
      LogError(*args, status,
               absl::IsInvalidArgument(status) ? kExitUsage : CommandExit(status));
  return false;
}

// The text that `systemctl status` shows. `limits`: failed checks.
std::string StatusLine(const RunTotals& totals, const std::vector<Check>& limits) {
  std::string text = absl::StrCat(
      HumanCount(totals.running), " processes attached now, ",
      HumanCount(totals.attached), " in all; ", HumanCount(totals.dispatches),
      " dispatches, ", HumanCount(totals.dropped), " records lost");
  for (const Check& check : limits) {
    absl::StrAppend(&text, "; limited: ", check.name, ", ", check.found);
  }
  return text;
}

// The findings of 'rocattach doctor' that matter for this run.
StartFindings CheckRun(const WatchArguments& args) {
  const WatcherOptions& watcher = args.watcher;
  return CheckStart({.attaches = watcher.attach && !watcher.dry_run,
                     .enters_all = !watcher.only_own_command && args.named.empty()});
}

// Runs the service once; with a command, until that ends. `interrupted`: a signal or
// the Enter key ended it.
int RunOnce(WatchArguments args, ServiceNotifier* notifier, bool* interrupted) {
  const bool has_command = !args.command.empty();
  bool stdout_taken = args.watcher.output_file == "-" || has_command;
  WatchConsole console({.json = args.json,
                        .log_format = args.log_format,
                        .quiet = args.quiet,
                        .attach = args.watcher.attach,
                        .passed_once = args.watcher.attach && !args.watcher.dry_run,
                        .live = !has_command,
                        .lines_per_second = args.watcher.budget.lines_per_second,
                        .out = args.json && !stdout_taken ? stdout : stderr});
  const StartFindings findings = CheckRun(args);
  if (!findings.status.ok()) {
    notifier->Refused(findings.status.message());
    return LogError(args, findings.status, kExitCannotStart);
  }
  for (const Check& check : findings.limits) {
    Log(args, LogLevel::kWarning, "limited", CheckText(check));
  }
  auto conversion = EndConversion::Start("rocattach-watch", &args);
  if (!conversion.ok()) return LogError(args, conversion.status(), kExitCannotStart);
  auto watcher = Watcher::Start(args.watcher, &console);
  if (!watcher.ok()) return LogError(args, watcher.status(), kExitCannotStart);
  if (*conversion != nullptr) (*conversion)->Begin(**watcher);
  auto control = StartControl(args, watcher->get());
  if (!control.ok()) return LogError(args, control.status(), kExitCannotStart);
  StopSignals signals(watcher->get());

  console.Announce(**watcher);
  notifier->Ready();
  EnterKey enter(/*wanted=*/args.command.empty());
  if (enter.watching() && !args.quiet && !args.json) {
    Log(args, LogLevel::kInfo, "stop_hint", "press Enter or Ctrl-C to stop");
  }
  auto result = (*watcher)->Run(args.command, [&] {
    console.Tick((*watcher)->Totals());
    if (notifier->IsDue()) {
      notifier->Alive(StatusLine((*watcher)->Totals(), findings.limits));
    }
    if (enter.Pressed(0) || !AnyIsLeft(args)) (*watcher)->RequestStop(0);
  });
  if (!result.ok()) {
    *interrupted = true;  // the next run would fail in the same way
    return LogError(args, result.status(), CommandExit(result.status()));
  }
  notifier->Stopping();
  console.Summarize(*result);
  if (result->command_runs_on) {
    control->reset();
    result->command_status = (*watcher)->WaitForCommand();
  }
  *interrupted = result->interrupted;
  const bool converted = *conversion == nullptr || (*conversion)->Finish().ok();
  int status = ExitStatus(args, *result);
  if (status == 0 && !converted) status = kExitIncomplete;
  ExitIfKept(**watcher, status);
  return status;
}

// For jobs with different filters: runs the command once for each kind, as rocprofv3
// does, each time into a folder pass_N. Returns the first exit status that is not 0.
int RunEach(WatchArguments args, ServiceNotifier* notifier) {
  const std::string directory = args.watcher.output_directory;
  int exit_status = 0;
  bool interrupted = false;
  for (size_t i = 0; i < args.runs.size() && !interrupted; ++i) {
    args.watcher.session = args.runs[i];
    args.watcher.output_directory =
        absl::StrCat(directory.empty() ? "." : directory, "/pass_", i + 1);
    if (!args.quiet) {
      Log(args, LogLevel::kInfo, "run",
          absl::StrCat("run ", i + 1, " of ", args.runs.size(),
                       " (jobs with different filters)"));
    }
    const int status = RunOnce(args, notifier, &interrupted);
    if (exit_status == 0) exit_status = status;
  }
  return exit_status;
}

int Main(int argc, char** argv) {
  WatchArguments args;
  int exit_status = 0;
  if (!Parse(argc, argv, &args, &exit_status)) return exit_status;
  ServiceNotifier notifier = ServiceNotifier::FromEnvironment();
  if (args.runs.size() > 1) return RunEach(std::move(args), &notifier);
  bool interrupted = false;
  return RunOnce(args, &notifier, &interrupted);
}

// The service runs for weeks with some seventy threads: glibc would create eight heaps
// per processor, and never shrink one with free space in its middle. With two heaps,
// and large blocks outside of them, memory use stays level after the first sessions.
void KeepHeapsSmall() {
  (void)mallopt(M_ARENA_MAX, 2);
  (void)mallopt(M_MMAP_THRESHOLD, 64 << 10);
}

}  // namespace
}  // namespace rocattach

int main(int argc, char** argv) {
  rocattach::KeepHeapsSmall();
  return rocattach::RunBelowParent([&] {
    return rocattach::GuardedMain("rocattach-watch", rocattach::kExitCannotStart,
                                  rocattach::Main, argc, argv);
  });
}
