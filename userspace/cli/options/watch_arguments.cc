#include "userspace/cli/options/watch_arguments.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "userspace/attribution/kube_names.h"
#include "userspace/attribution/kubelet_client.h"
#include "userspace/base/output_formats.h"
#include "userspace/base/status_macros.h"
#include "userspace/base/version.h"
#include "userspace/cli/options/help_groups.h"
#include "userspace/cli/options/machine_gpus.h"
#include "userspace/cli/options/process_selection.h"
#include "userspace/cli/options/usage_error.h"
#include "userspace/record/output_path.h"

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

// What --help shows; the rest is for --help-all.
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

void AddSelection(CLI::App* app, WatchArguments* args) {
  StartGroup(app, kWatchGroup);
  app->add_flag(
      "--auto", args->watcher.attach,
      "Hold and attach to new GPU processes (otherwise they are only reported)");
  app->add_flag("--dry-run", args->watcher.dry_run,
                "With --auto: report what would be done, without doing it");
  app->add_flag("--attach-running", args->watcher.all_running,
                "Also attach to processes that use the GPU already; implies --auto");
  app->add_option("-p,--pid,--process", args->processes,
                  "With --auto: only this process, which runs already; repeatable")
      ->type_name("PID")
      ->expected(1)
      ->take_all();
  app->add_option("-n,--name", args->watcher.policy.allow,
                  "Only processes whose name, executable path or script matches this "
                  "glob; repeatable")
      ->type_name("NAME|GLOB")
      ->expected(1)
      ->take_all();
  app->add_option("--uid", args->user, "Only processes of this user")
      ->type_name("UID|NAME");
  app->add_option(
         "--cgroup", args->cgroup,
         "Only processes of this control group (cgroup v2) and those below it: "
         "a directory, or a path as in /proc/PID/cgroup")
      ->type_name("PATH")
      ->envname("ROCATTACH_CGROUP");
  app->add_option("--deny", args->watcher.policy.deny,
                  "Never processes that match this glob; wins over --name; repeatable")
      ->type_name("NAME|GLOB")
      ->expected(1)
      ->take_all();
  app->add_flag(
      "--crash-breaker,!--no-crash-breaker", args->watcher.crash_breaker,
      "With --auto: after a process that crashed within five seconds of its "
      "attach, do not attach to its executable for ten minutes (default: on)");
}

void AddRotation(CLI::App* app, WatchArguments* args) {
  StartGroup(app, kOutputGroup);
  RotationOptions& rotation = args->watcher.rotation;
  app->add_option("--rotate-size", rotation.bytes,
                  "Begin another file when one has this size, such as 256M; each is a "
                  "complete recording, NAME.NNNNNN.rwa")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/false))
      ->type_name("SIZE");
  app->add_option("--rotate-age", args->rotate_age,
                  "Begin another file when one is this old, such as 90s, 30m, 6h, 1d")
      ->type_name("DURATION");
  app->add_option("--keep-files", rotation.keep_files,
                  "Completed recordings that are kept in the directory, by all runs "
                  "that used --rotate-* or --keep-*; the oldest are deleted")
      ->type_name("N");
  app->add_option("--keep-size", rotation.keep_bytes,
                  "The same by the size of all, such as 10G")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/false))
      ->type_name("SIZE");
}

void AddOutput(CLI::App* app, WatchArguments* args) {
  StartGroup(app, kOutputGroup);
  app->add_option("-d,--output-directory", args->watcher.output_directory,
                  "Directory of output files; created if missing")
      ->type_name("DIR");
  app->add_option("-o,--output-file", args->watcher.output_file,
                  "Name of the output, '-' for standard output; keys as in rocprofv3: "
                  "%hostname% %pid% %tag% %argN% %job% %rank% %launch_date% "
                  "%launch_time% %env{X}% … With %pid% each process gets its own file")
      ->type_name("NAME");
  app->add_option(
         "-f,--output-format", args->formats,
         absl::StrCat("Convert each process's records when it has ended, as "
                      "'rocattach convert' does; formats, separated by commas: ",
                      absl::StrJoin(kOutputFormats, ", ")))
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("FORMAT")
      ->check(CLI::IsMember(std::vector<std::string>(std::begin(kOutputFormats),
                                                     std::end(kOutputFormats)))
                  .description(""));
  app->add_flag("--json", args->json,
                "Report events and the summary as JSON lines on standard output "
                "(standard error when a command runs or the stream goes there)");
  app->add_flag("-q,--quiet", args->quiet, "Report problems only");
}

void AddTimeLimits(CLI::App* app, WatchArguments* args) {
  StartGroup(app, kLimitGroup);
  app->add_option(
         "--hold-timeout-msec", args->watcher.hold_timeout_msec,
         "Longest time that a thread is held so that the process can be entered")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  app->add_option(
         "--session-wait-msec", args->watcher.session_wait_msec,
         "Longest time that a new process waits in its first hsa_init for its session, "
         "so that its first dispatch is included")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
}

void AddLibraries(CLI::App* app, WatchArguments* args) {
  StartGroup(app, kWatchGroup);
  app->add_option("--library", args->watcher.extra_libraries,
                  "Additional HSA runtime library, or a directory that contains one; "
                  "repeatable")
      ->type_name("PATH")
      ->expected(1)
      ->take_all();
  app->add_option(
         "--collector", args->watcher.collector_path,
         "Collector library to inject (default: the one installed with this program)")
      ->type_name("FILE");
}

void AddTopology(CLI::App* app, WatchArguments* args) {
  StartGroup(app, kCounterGroup);
  app->add_option("--kfd-topology", args->watcher.sdk_search.topology,
                  "KFD topology directory as processes see it, for simulated GPUs")
      ->type_name("DIR")
      ->capture_default_str();
}

// How a process is entered and captured.
void AddEntryOptions(CLI::App* app, WatchArguments* args) {
  AddTimeLimits(app, args);
  StartGroup(app, kRecordGroup);
  app->add_option("--capture", args->capture,
                  "How dispatches are captured: auto, doorbell or intercept")
      ->check(CLI::IsMember({"auto", "doorbell", "intercept"}))
      ->capture_default_str();
  app->add_option(
         "--ring-slots", args->watcher.ring_slots,
         "Records that each thread's ring holds until they are read: a power of two")
      ->check(CLI::Validator(
          [](const std::string& text) {
            uint32_t slots = 0;
            const bool good = absl::SimpleAtoi(text, &slots) && slots >= 64 &&
                              slots <= 32768 && (slots & (slots - 1)) == 0;
            return good ? std::string() : "not a power of two from 64 to 32768";
          },
          ""))
      ->group(kLimitGroup)
      ->capture_default_str();
  app->add_flag("--no-recording", args->no_recording,
                "Attach, but leave the collectors idle");
  AddLibraries(app, args);
}

void AddLogFormat(CLI::App* app, WatchArguments* args) {
  app->add_option("--log-format", args->log_format,
                  "Messages on standard error: text, or json, one object a line with "
                  "time, level, event and message")
      ->transform(
          CLI::Transformer(std::map<std::string, LogFormat>{{"text", LogFormat::kText},
                                                            {"json", LogFormat::kJson}})
              .description(""))
      ->type_name("FORMAT")
      ->group(kOutputGroup)
      ->default_str("text");
}

void AddBackend(CLI::App* app, WatchArguments* args) {
  StartGroup(app, kSessionGroup);
  app->add_option("--backend", args->backend,
                  "Collector backend: auto uses rocprofiler-sdk if the first session "
                  "needs it; sdk uses it wherever it is available, so that later "
                  "sessions can measure counters; hsa never uses it")
      ->check(CLI::IsMember({"auto", "sdk", "hsa"}))
      ->capture_default_str();
}

void AddLoadBudget(CLI::App* app, WatchArguments* args) {
  StartGroup(app, kLimitGroup);
  LoadBudget& budget = args->watcher.load_budget;
  app->add_option("--cpu-budget", budget.cpu_percent,
                  "Processor time that the service may use, in percent of one "
                  "processor; beyond it a part of the dispatches is recorded, and at "
                  "last they are only counted (default: no limit)")
      ->type_name("PERCENT")
      ->check(CLI::Range(0.1, 100'000.0));
  app->add_option("--disk-budget", budget.disk_bytes_per_second,
                  "The same for what is written to recordings, in bytes per second, "
                  "such as 10M (default: no limit)")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/false))
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 50).description(""))
      ->type_name("BYTES");
}

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
         "Control socket for 'rocattach session' (default: $ROCATTACH_SOCKET if that "
         "is set); with a command, created only if one of the two is given")
      ->type_name("PATH")
      ->capture_default_str();
  AddBackend(app, args);
  AddTopology(app, args);
}

void AddMetrics(CLI::App* app, WatchArguments* args) {
  StartGroup(app, kOutputGroup);
  app->add_option("--metrics-listen", args->metrics_listen,
                  "With --auto: serve metrics for Prometheus at this address, and "
                  "/healthz and /readyz; a port alone is one of 127.0.0.1")
      ->type_name("ADDR:PORT");
  CLI::Option* otlp =
      app->add_option("--otlp-endpoint", args->otlp_endpoint,
                      "With --auto: push metrics to this OpenTelemetry collector "
                      "(OTLP over HTTP; /v1/metrics is added). OTEL_EXPORTER_OTLP_* "
                      "set headers, timeout and certificates")
          ->type_name("URL");
  app->add_option("--otlp-interval", args->otlp_interval_seconds,
                  "Seconds between two pushes (default: 60, or "
                  "$OTEL_METRIC_EXPORT_INTERVAL)")
      ->type_name("SECONDS")
      ->needs(otlp)
      ->check(CLI::Range(0.1, 86400.0));
  CLI::Option* profiles =
      app->add_option("--profile-push", args->profile_push,
                      "With --auto: push profiles of kernels to a server, parca=URL or "
                      "pyroscope=URL. ROCATTACH_PROFILE_PUSH_HEADERS sets headers")
          ->type_name("TARGET")
          ->needs(app->get_option("--auto"));
  app->add_option("--profile-push-interval", args->profile_push_seconds,
                  "Seconds between two profiles")
      ->type_name("SECONDS")
      ->needs(profiles)
      ->check(CLI::Range(0.1, 86400.0))
      ->capture_default_str();
  app->add_option("--metrics-kernels", args->watcher.metrics.named_kernels,
                  "Kernels of each process with metrics of their own, the busiest; the "
                  "rest is 'other'. 0: none")
      ->check(CLI::Range(0, 100))
      ->capture_default_str();
  CLI::Option* counters =
      app->add_option(
             "--metrics-counters", args->watcher.metrics_counters,
             "Hardware counters of whole GPUs as metrics, separated by commas: "
             "counted for one second out of ten, and not while a session or "
             "another profiler needs the GPU's counters")
          ->delimiter(',')
          ->allow_extra_args(false)
          ->type_name("COUNTER");
  app->add_option("--metrics-counters-interval", args->metrics_counters_seconds,
                  "Seconds from one of these measurements to the next")
      ->type_name("SECONDS")
      ->needs(counters)
      ->check(CLI::Range(2.0, 86400.0))
      ->capture_default_str();
  app->add_option("--metrics-series", args->watcher.metrics.most_series,
                  "Series of processes and kernels that are served; further ones are "
                  "counted")
      ->check(CLI::Range(100, 1'000'000))
      ->capture_default_str();
}

// Where names of pods and jobs come from.
void AddWorkloads(CLI::App* app, WatchArguments* args) {
  StartGroup(app, kOutputGroup);
  WorkloadSources& sources = args->watcher.workload_sources;
  app->add_option("--node-name", sources.node,
                  "What this machine is called in its cluster (default: $NODE_NAME, or "
                  "the host's name where there is a kubelet)")
      ->type_name("NAME")
      ->check([](const std::string& name) {
        return IsKubeName(name) ? "" : "is no name of a node in Kubernetes";
      });
  app->add_option("--pod-logs", sources.pod_logs,
                  "Directory with the kubelet's directories pods and containers, whose "
                  "names tell the names of pods")
      ->type_name("DIR")
      ->capture_default_str();
  app->add_option("--pod-resources", args->pod_resources,
                  absl::StrCat("Socket of the kubelet's pod-resources API (default: ",
                               KubeletClient::kDefaultSocket, ", if it is there)"))
      ->type_name("SOCKET");
  app->add_option("--slurm-mapping", sources.slurm_mapping,
                  "Directory in which Slurm's prolog writes which jobs have which GPU: "
                  "one file for each GPU")
      ->type_name("DIR");
}

// What the processes of one user may cost; see docs/security.md.
void AddBudgets(CLI::App* app, WatchArguments* args) {
  StartGroup(app, kLimitGroup);
  BudgetLimits& budget = args->watcher.budget;
  const auto add = [app](const char* name, uint32_t* limit, uint32_t most,
                         const char* help) {
    app->add_option(name, *limit, help)
        ->check(CLI::Range(uint32_t{0}, most))
        ->capture_default_str();
  };
  add("--windows-per-second", &budget.windows_per_second, 1'000'000,
      "First hsa_init calls per second by one user's processes; further ones are "
      "refused. 0, here and below: no limit");
  add("--processes-per-user", &budget.processes_per_user, 32'768,
      "Concurrent GPU processes of one user; further ones are refused");
  add("--max-processes", &budget.processes, 32'768,
      "Processes attached at the same time; further ones are refused");
  add("--max-libraries", &budget.libraries, 65'536,
      "Copies of the HSA runtime that are probed");
  add("--max-libraries-per-user", &budget.libraries_per_user, 65'536,
      "Copies of the HSA runtime that are probed among the files of one non-root user");
  add("--lines-per-second", &budget.lines_per_second, 1'000'000,
      "Lines printed about one user's processes; the rest are counted");
}

// Whether the option exists and was given.
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

// Options that mean nothing where processes are only reported.
absl::Status CheckAuto(const CLI::App& app, const WatcherOptions& watcher) {
  if (watcher.attach) return absl::OkStatus();
  for (const char* option :
       {"--dry-run", "--crash-breaker", "--metrics-listen", "--otlp-endpoint"}) {
    if (!IsGiven(app, option)) continue;
    return absl::InvalidArgumentError(absl::StrCat(option, " requires --auto"));
  }
  return absl::OkStatus();
}

absl::Status CheckOutput(const WatcherOptions& watcher) {
  if (watcher.output_file != "-" || isatty(STDOUT_FILENO) == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "-o - writes a binary recording to standard output, which is a terminal: pipe it "
      "into 'rocattach report -', or name a file with -o NAME");
}

// Each file repeats what is known of all processes.
constexpr uint64_t kLeastFileBytes = 64 << 10;

absl::Status InterpretRotation(WatchArguments* args) {
  RotationOptions& rotation = args->watcher.rotation;
  if (!args->rotate_age.empty()) {
    absl::Duration age;
    std::string text = args->rotate_age;
    // absl has no days.
    uint64_t days = 0;
    if (absl::EndsWith(text, "d") &&
        absl::SimpleAtoi(absl::StripSuffix(text, "d"), &days)) {
      text = absl::StrCat(days * 24, "h");
    }
    if (!absl::ParseDuration(text, &age) || age < absl::Seconds(1) ||
        age > absl::Hours(24 * 366)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--rotate-age ", args->rotate_age,
          " is not a time from one second to a year, such as 90s, 30m, 6h or 1d"));
    }
    rotation.age_ns = static_cast<uint64_t>(absl::ToInt64Nanoseconds(age));
  }
  if (rotation.bytes != 0 && rotation.bytes < kLeastFileBytes) {
    return absl::InvalidArgumentError("--rotate-size must be 64K at least");
  }
  if (!rotation.indexes()) return absl::OkStatus();
  if (args->watcher.output_file == "-") {
    return absl::InvalidArgumentError(
        "--rotate-* and --keep-* are for files, not for -o -");
  }
  if (rotation.splits() && !args->formats.empty()) {
    return absl::InvalidArgumentError(
        "-f converts whole recordings; with --rotate-size or --rotate-age run "
        "'rocattach convert' on completed files");
  }
  return absl::OkStatus();
}

// What is not recorded in a file cannot be converted.
absl::Status CheckConversion(const WatchArguments& args) {
  if (args.formats.empty()) return absl::OkStatus();
  const WatcherOptions& watcher = args.watcher;
  const char* why = watcher.output_file == "-" ? "-o -: give a file"
                    : args.no_recording && watcher.session.filters.empty()
                        ? "--no-recording"
                    : watcher.dry_run ? "--dry-run"
                    : !watcher.attach ? nullptr
                                      : "";
  if (why == nullptr) {
    return absl::InvalidArgumentError("-f converts what is recorded; add --auto");
  }
  if (*why == '\0') return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("-f converts recordings, and there is none with ", why));
}

std::string EnvironmentVariable(const char* name) {
  const char* value = getenv(name);
  return value == nullptr ? "" : value;
}

uint64_t ToMsec(double seconds) {
  return static_cast<uint64_t>(std::llround(seconds * 1000));
}

absl::Status InterpretProfilePush(WatchArguments* args) {
  if (args->profile_push.empty()) return absl::OkStatus();
  auto settings = MakeProfilePushSettings(
      args->profile_push, ToMsec(args->profile_push_seconds), EnvironmentVariable);
  if (!settings.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--profile-push: ", settings.status().message()));
  }
  args->watcher.profile_push = *std::move(settings);
  return absl::OkStatus();
}

absl::Status InterpretPush(WatchArguments* args) {
  if (args->otlp_endpoint.empty()) return absl::OkStatus();
  auto settings = MakeOtlpSettings(
      args->otlp_endpoint, ToMsec(args->otlp_interval_seconds), EnvironmentVariable);
  if (!settings.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--otlp-endpoint: ", settings.status().message()));
  }
  args->watcher.otlp = *std::move(settings);
  return absl::OkStatus();
}

absl::Status InterpretMetrics(const CLI::App& app, WatchArguments* args) {
  if (args->metrics_listen.empty() && args->otlp_endpoint.empty() &&
      args->profile_push.empty()) {
    for (const char* option :
         {"--metrics-counters", "--metrics-kernels", "--metrics-series"}) {
      // rocattach's commands do not have them.
      const CLI::Option* known = app.get_option_no_throw(option);
      if (known == nullptr || known->count() == 0) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          option, " needs --metrics-listen, --otlp-endpoint or --profile-push"));
    }
  }
  RETURN_IF_ERROR(InterpretPush(args));
  RETURN_IF_ERROR(InterpretProfilePush(args));
  if (args->metrics_listen.empty()) return absl::OkStatus();
  auto address = ParseListenAddress(args->metrics_listen);
  if (!address.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--metrics-listen: ", address.status().message()));
  }
  args->watcher.metrics_listen = *address;
  return absl::OkStatus();
}

void InterpretWorkloads(WatchArguments* args) {
  if (!args->pod_resources.empty()) {
    args->watcher.workload_sources.pod_resources = args->pod_resources;
    args->watcher.workload_sources.pod_resources_optional = false;
  }
  // Its neighbour has the files of processes.
  const absl::string_view topology = args->watcher.sdk_search.topology;
  if (absl::string_view kfd = topology; absl::ConsumeSuffix(&kfd, "/topology")) {
    args->watcher.gpu_roots.kfd = std::string(kfd);
  }
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
  TakeDirectory(&args->watcher.output_directory, &args->watcher.output_file);
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
