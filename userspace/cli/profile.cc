// rocattach profile: counters in the manner of ROCm's compute profiler.
#include <stdio.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "userspace/base/status_macros.h"
#include "userspace/cli/common/command_run.h"
#include "userspace/cli/conversion.h"
#include "userspace/cli/options/help_groups.h"
#include "userspace/cli/options/machine_gpus.h"
#include "userspace/cli/options/watch_arguments.h"
#include "userspace/cli/recording_request.h"
#include "userspace/cli/subcommands.h"

namespace rocattach {
namespace {

constexpr char kProfileExamples[] =
    "Examples:\n"
    "  rocattach profile -n run1 -b 3.1.1 4.1.1 5.1.1 --attach-pid 1234\n"
    "                             measure until Enter or Ctrl-C\n"
    "  rocattach profile -n run1 --set launch_stats --attach-pid 1234 "
    "--attach-duration-msec 10000\n"
    "  rocattach profile -n run1 --set launch_stats --attach-pid 1234 --wait\n"
    "                             it does not use a GPU yet, so counters are possible\n"
    "  rocattach profile -n run1 -b 2 5.1 -- ./app\n"
    "Then: rocprof-compute analyze -p workloads/NAME/MODEL, or\n"
    "rocattach report workloads/NAME/MODEL/profile.rwa\n"
    "\n"
    "Any number of counters is measured in one attach: passes are multiplexed across "
    "the\n"
    "dispatches of each kernel. A process that started its HSA runtime before the "
    "attach is\n"
    "recorded, but cannot provide counters of dispatches, unless it was started with\n"
    "ROCP_TOOL_ATTACH=1; the exit status is 1 then.\n"
    "Exit status: the command's own, if it is not 0 (126 or 127 if it cannot be run); "
    "0 if\n"
    "counters were measured, 1 if not or if something was lost, 2 usage error, 3 "
    "rocattach\n"
    "could not start.";

struct ProfileArguments {
  WatchArguments watch;
  RecordingRequest run;
  std::string name;
  std::string path;
  pid_t pid = 0;
  bool no_roof = false;
};

void AddMeasured(CLI::App* app, ProfileArguments* args) {
  StartGroup(app, kCounterGroup);
  SessionArguments& session = args->watch.session;
  app->add_option("-b,--block", session.blocks,
                  "What to measure: sections and metrics of reports by number, such as "
                  "2, 5.1 or 5.1.1, or hardware "
                  "blocks by name; separated by blanks or commas (default: section 2)")
      ->type_name("ID…")
      ->take_all();
  app->add_option("--set", session.sets, "Named sets of counters to measure")
      ->type_name("NAME…")
      ->delimiter(',')
      ->take_all();
  app->add_flag("--no-roof", args->no_roof,
                "Accepted for compatibility: peak rates are never measured");
  app->add_option("--arch", session.architecture,
                  "GPU architecture in which sets and blocks are looked up, such as "
                  "gfx90a (default: that of the GPUs present)")
      ->type_name("NAME");
  app->add_option("--extra-counters", session.extra_counters,
                  "YAML file with more counters, metrics and sets; repeatable")
      ->type_name("FILE")
      ->expected(1)
      ->take_all();
}

void AddProcess(CLI::App* app, ProfileArguments* args) {
  StartGroup(app, kWatchGroup);
  CLI::Option* pid =
      app->add_option("--attach-pid", args->pid, "Running process to attach to")
          ->type_name("PID");
  app->add_option("--attach-duration-msec", args->watch.session.duration_msec,
                  "Detach after this time; 0: on Enter or Ctrl-C")
      ->check(CLI::Range(int64_t{0}, kMaxDurationMsec))
      ->type_name("MSEC")
      ->needs(pid);
  AddAttachOptions(app, &args->run);
  app->get_option("--wait")->needs(pid);
}

// The directory of the recording.
std::string OutputDirectory(const ProfileArguments& args) {
  if (!args.path.empty()) return args.path;
  std::string model = TopologyModel(args.watch.watcher.sdk_search.topology);
  if (model.empty()) model = args.watch.session.architecture;
  return absl::StrCat("workloads/", args.name, "/", model.empty() ? "unknown" : model);
}

absl::Status CheckArguments(const ProfileArguments& args) {
  if (args.name.empty()) {
    return absl::InvalidArgumentError(
        "the profile has no name; give it one with -n NAME");
  }
  if (args.name == "." || args.name == ".." ||
      args.name.find('/') != std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("-n ", args.name,
                     ": the name becomes a directory below workloads/ and must not "
                     "contain '/'; --path sets another directory"));
  }
  const bool has_command = !args.watch.command.empty();
  if (has_command == (args.pid != 0)) {
    return absl::InvalidArgumentError(
        has_command ? "--attach-pid and a command were given; give one of them"
                    : "nothing to profile: give --attach-pid PID, or a command behind "
                      "--");
  }
  return absl::OkStatus();
}

// Writes the files that rocprof-compute analyzes, beside the recording.
bool WriteWorkload(const ProfileArguments& args,
                   const std::vector<std::string>& files) {
  ConversionRequest request;
  request.paths = files;
  request.formats = {"compute-workload"};
  request.quiet = true;
  request.output.force = true;  // replaces files of an earlier profile
  request.output.workload_directory = args.watch.watcher.output_directory;
  request.output.workload_name = args.name;
  const bool written = Convert(request) == kExitOk;
  if (!written) {
    fprintf(stderr,
            "rocattach: %s is incomplete for rocprof-compute, see above; the recording "
            "is whole: rocattach convert %s -f compute-workload\n",
            args.watch.watcher.output_directory.c_str(),
            files.empty() ? "FILE" : files[0].c_str());
  } else {
    fprintf(stderr, "rocattach: analyze it with rocprof-compute analyze -p %s\n",
            args.watch.watcher.output_directory.c_str());
  }
  return written;
}

int RunProfile(ProfileArguments* args, const CLI::App& app) {
  auto fail = [](const absl::Status& status, int exit_status) {
    fprintf(stderr, "rocattach profile: %s\n", std::string(status.message()).c_str());
    return exit_status;
  };
  if (absl::Status status = CheckArguments(*args); !status.ok()) {
    return fail(status, kExitUsage);
  }
  WatchArguments& watch = args->watch;
  SessionArguments& session = watch.session;
  if (session.blocks.empty() && session.sets.empty()) session.blocks = {"2"};
  absl::Status status = InterpretAttach(app, "rocattach profile", &watch);
  if (!status.ok()) {
    return fail(status,
                absl::IsInvalidArgument(status) ? kExitUsage : CommandExit(status));
  }
  watch.watcher.output_directory = OutputDirectory(*args);
  watch.watcher.output_file = "profile";
  args->run.needs_counters = true;
  args->run.afterwards = [args](const std::vector<std::string>& files) {
    return WriteWorkload(*args, files);
  };
  if (!watch.command.empty()) return RecordCommand(args->run, &watch);
  args->run.pids = {args->pid};
  return RecordRunning(args->run, &watch);
}

}  // namespace

void RegisterProfile(CLI::App* app, std::function<int()>* run) {
  auto args = std::make_shared<ProfileArguments>();
  CLI::App* command = app->add_subcommand(
      "profile", "Measure counters of a running process or a command");
  command->footer(kProfileExamples);
  command->option_defaults()->always_capture_default(false);
  StartGroup(command, kOutputGroup);
  command
      ->add_option(
          "-n,--name", args->name,
          "Name of the profile: the recording and what rocprof-compute analyzes "
          "go to workloads/NAME/MODEL, where MODEL is the GPU's, such as "
          "MI300X_A1")
      ->type_name("NAME");
  command
      ->add_option("--path,--output-directory", args->path,
                   "Directory of the recording, instead of the one that --name gives")
      ->type_name("DIR");
  AddMeasured(command, args.get());
  AddProcess(command, args.get());
  AddProfileEntryOptions(command, &args->watch);
  StartGroup(command, kOutputGroup);
  command->add_flag("-V,--verbose", args->run.verbosity,
                    "Say what will be measured; -VV also how processes are entered, "
                    "-VVV also the name of each counter");
  command->add_option("command", args->watch.command, "Command to run and profile")
      ->type_name("-- COMMAND…");
  command->positionals_at_end();
  ShortenHelp(command, {"--attach-pid", "--attach-duration-msec", "--wait", "--block",
                        "--set", "--no-roof", "--name", "--path", "--verbose"});
  command->callback([args, command, run] {
    *run = [args, command] { return RunProfile(args.get(), *command); };
  });
}

}  // namespace rocattach
