#include "userspace/cli/options/watch_arguments.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "userspace/base/status_macros.h"
#include "userspace/base/version.h"
#include "userspace/cli/options/help_groups.h"
#include "userspace/cli/options/machine_gpus.h"
#include "userspace/cli/options/output_options.h"
#include "userspace/cli/options/process_options.h"
#include "userspace/cli/options/process_selection.h"
#include "userspace/cli/options/telemetry_options.h"
#include "userspace/cli/options/usage_error.h"
#include "userspace/record/output/output_path.h"

namespace rocattach {
namespace {

constexpr char kExamples[] =
    "Examples:\n"
    "  rocattach-watch                            report GPU processes without "
    "attaching\n"
    "  rocattach-watch --auto                     profile every GPU process until "
    "Ctrl-C\n"
    "  rocattach-watch --auto -- ./app --size 4   profile one command\n"
    "  rocattach-watch --auto --pmc SQ_WAVES GRBM_COUNT -- ./app\n"
    "                                             with hardware counters\n"
    "  rocattach-watch --auto -n 'python3*' --uid alice -d /var/log/gpu\n"
    "  rocattach-watch --auto -p 4711             profile one process that runs "
    "already\n"
    "  rocattach-watch --auto -o %hostname%/%pid% one file per process\n"
    "  rocattach-watch --auto --metrics-listen 127.0.0.1:9410\n"
    "                                             with metrics for Prometheus\n"
    "  rocattach-watch --auto --dry-run           show what --auto would do\n"
    "Then: rocattach report FILE, rocattach dump FILE --json\n"
    "\n"
    "Exit status: the command's own (128 + signal if it was killed, 126 or 127 if it "
    "cannot\n"
    "be run); without a command 0, 1 if the recording is incomplete, 2 for a usage\n"
    "error, 3 if rocattach-watch could not start. 'rocattach doctor' shows what is "
    "missing.";

// The options that --help shows; the rest is for --help-all.
const char* const kEveryday[] = {"--auto",
                                 "--dry-run",
                                 "--attach-running",
                                 "--pid",
                                 "--name",
                                 "--uid",
                                 "--cgroup",
                                 "--deny",
                                 "--sys-trace",
                                 "--hip-trace",
                                 "--hsa-trace",
                                 "--marker-trace",
                                 "--kernel-include-regex",
                                 "--pmc",
                                 "--set",
                                 "--block",
                                 "--input",
                                 "--attach-duration-msec",
                                 "--collection-period",
                                 "--backend",
                                 "--output-directory",
                                 "--output-file",
                                 "--output-format",
                                 "--json",
                                 "--quiet",
                                 "--metrics-listen",
                                 "--duration-msec",
                                 "--hold-timeout-msec"};

void AddTuning(CLI::App* app, WatchArguments* args) {
  AddEntryOptions(app, args);
  AddLoadBudget(app, args);
  StartGroup(app, kLimitGroup);
  app->add_option("--duration-msec", args->watcher.duration_msec,
                  "Stop recording after this time; a command that still runs is waited "
                  "for. 0: until Ctrl-C or the end of the command")
      ->check(CLI::Range(int64_t{0}, kMaxDurationMsec))
      ->capture_default_str();
  AddLogFormat(app, args);
  app->add_option("--hold", args->hold_mode,
                  "Preferred hold mode: yielding, signal (for kernels without "
                  "sleepable uprobes) or none")
      ->check(CLI::IsMember({"yielding", "signal", "none"}))
      ->capture_default_str();
  app->add_option("--threads", args->watcher.threads,
                  "Attach windows served concurrently")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  StartGroup(app, kSessionGroup);
  app->add_option(
         "--socket", args->socket,
         "Control socket for 'rocattach session'; the variable ROCATTACH_SOCKET "
         "replaces "
         "the default. With a command, created only if one of the two is given")
      ->type_name("PATH")
      ->capture_default_str();
  AddBackend(app, args);
  AddTopology(app, args);
}

// True if the option exists and was given.
bool IsGiven(const CLI::App& app, const char* name) {
  const CLI::Option* option = app.get_option_no_throw(name);
  return option != nullptr && option->count() > 0;
}

void Interpret(const CLI::App& app, int argc, char** argv, WatchArguments* args) {
  WatcherOptions& watcher = args->watcher;
  watcher.best_hold_mode = args->hold_mode == "yielding" ? HoldMode::kYielding
                           : args->hold_mode == "signal" ? HoldMode::kSignal
                                                         : HoldMode::kNone;
  if (args->capture == "doorbell")
    watcher.recording_flags |= ROCATTACH_RECORDING_FORCE_DOORBELL;
  if (args->capture == "intercept")
    watcher.recording_flags |= ROCATTACH_RECORDING_FORCE_INTERCEPT;
  watcher.recording = !args->no_recording;
  watcher.attach |= watcher.all_running;
  args->socket_named = IsGiven(app, "--socket");
  args->socket_wanted = args->socket_named || args->command.empty() ||
                        ControlSocket() != kDefaultControlSocket;
  watcher.only_own_command = !args->command.empty();
  watcher.recorder_arguments.assign(argv, argv + argc);
}

// Rejects options that have no meaning if processes are only reported.
absl::Status CheckAuto(const CLI::App& app, const WatcherOptions& watcher) {
  if (watcher.attach) return absl::OkStatus();
  for (const char* option :
       {"--dry-run", "--crash-breaker", "--metrics-listen", "--otlp-endpoint"}) {
    if (!IsGiven(app, option)) continue;
    return absl::InvalidArgumentError(absl::StrCat(option, " requires --auto"));
  }
  return absl::OkStatus();
}

// Checks what is to be measured before any process is touched.
absl::Status PrepareSession(WatchArguments* args) {
  auto catalog = CounterCatalog::Builtin();
  if (!catalog.ok()) return catalog.status();
  const std::string& topology = args->watcher.sdk_search.topology;
  auto sessions = InterpretRuns(
      args->session, [&] { return TopologyArchitectures(topology); }, &*catalog);
  if (!sessions.ok()) return sessions.status();
  WatcherOptions& watcher = args->watcher;
  if (sessions->size() > 1 && args->command.empty()) {
    return MoreThanOneRun(args->session.input);
  }
  if (sessions->size() > 1 && watcher.output_file == "-") {
    return absl::InvalidArgumentError(
        absl::StrCat(args->session.input,
                     ": its jobs need several runs, which cannot share standard "
                     "output: use -d DIR instead of -o -"));
  }
  for (SessionSpec& session : *sessions) {
    if (!session.filters.empty() && !watcher.attach) {
      return absl::InvalidArgumentError(
          "a session needs attached processes; add --auto");
    }
    for (const std::string& key : session.ignored) {
      WriteLog(
          args->log_format, "rocattach-watch",
          {.level = LogLevel::kWarning,
           .event = "input_ignored",
           .message = absl::StrCat(args->session.input, ": ", key, " is ignored")});
    }
    SessionRequest request;
    request.filters = std::move(session.filters);
    request.periods = std::move(session.periods);
    request.duration_ns = session.duration_ns;
    request.from_first_process = true;
    args->runs.push_back(std::move(request));
  }
  watcher.session = args->runs.front();
  watcher.always_sdk = args->backend == "sdk";
  if (args->backend == "hsa") watcher.sdk_search.allowed = false;
  watcher.catalog = std::make_shared<const CounterCatalog>(*std::move(catalog));
  return absl::OkStatus();
}

}  // namespace

void AddRecordingOptions(CLI::App* app, WatchArguments* args) {
  AddOutput(app, args);
  AddRotation(app, args);
  AddLogFormat(app, args);
  AddSessionOptions(app, &args->session);
  AddEntryOptions(app, args);
  AddBackend(app, args);
  AddTopology(app, args);
}

void AddProfileEntryOptions(CLI::App* app, WatchArguments* args) {
  AddTimeLimits(app, args);
  AddLibraries(app, args);
  AddTopology(app, args);
}

void AddWatchOptions(CLI::App* app, WatchArguments* args) {
  app->footer(kExamples);
  args->socket = ControlSocket();
  app->set_version_flag("--version", "rocattach-watch " ROCATTACH_VERSION);
  app->option_defaults()->always_capture_default(false);
  AddSelection(app, args);
  AddOutput(app, args);
  AddRotation(app, args);
  AddSessionOptions(app, &args->session);
  AddMetrics(app, args);
  AddWorkloads(app, args);
  AddTuning(app, args);
  AddBudgets(app, args);
  app->add_option("command", args->command, "Command to run and profile")
      ->type_name("-- COMMAND…");
  app->positionals_at_end();
  ShortenHelp(app, {std::begin(kEveryday), std::end(kEveryday)});
  LastValueWins(app);
}

absl::Status InterpretWatchArguments(const CLI::App& app, int argc, char** argv,
                                     WatchArguments* args) {
  Interpret(app, argc, argv, args);
  RETURN_IF_ERROR(CheckAuto(app, args->watcher));
  RETURN_IF_ERROR(InterpretSelection(args));
  SplitOffDirectory(&args->watcher.output_directory, &args->watcher.output_file);
  RETURN_IF_ERROR(CheckOutput(args->watcher));
  RETURN_IF_ERROR(InterpretRotation(args));
  RETURN_IF_ERROR(InterpretMetrics(app, args));
  InterpretWorkloads(args);
  // A counter that is not found is a wrong argument, not a missing command.
  if (absl::Status session = PrepareSession(args); !session.ok()) {
    return absl::InvalidArgumentError(session.message());
  }
  for (const std::string& name : args->watcher.metrics_counters) {
    const absl::Status known = args->watcher.catalog->CheckKnown(name);
    if (known.ok()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--metrics-counters: ", known.message()));
  }
  RETURN_IF_ERROR(CheckConversion(*args));
  if (args->command.empty()) return absl::OkStatus();
  absl::Status found = FindProgram(args->command[0]).status();
  if (!found.ok()) RETURN_IF_ERROR(CheckMeaning(app, *args));
  return found;
}

}  // namespace rocattach
