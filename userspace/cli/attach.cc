// rocattach attach: records processes that are already running.
#include <stdio.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "userspace/cli/options/help_groups.h"
#include "userspace/cli/options/watch_arguments.h"
#include "userspace/cli/recording_request.h"
#include "userspace/cli/subcommands.h"
#include "userspace/cli/tool_attach.h"
#include "userspace/listener/tool_library.h"
#include "userspace/watch/late/running_process.h"

namespace rocattach {
namespace {

constexpr char kAttachExamples[] =
    "Examples:\n"
    "  rocattach attach -p 1234                    record until Enter or Ctrl-C\n"
    "  rocattach attach -p 1234,1235 --attach-duration-msec 10000\n"
    "  rocattach attach -p 1234 --attach-children -o trace.rwa\n"
    "  rocattach attach -p 1234 --wait             it does not use a GPU yet\n"
    "  rocattach attach --cgroup system.slice/llm.service\n"
    "  rocattach attach -p 1234 -t librocprofiler-sdk-tool.so\n"
    "Then: rocattach report FILE, rocattach dump FILE --json\n"
    "\n"
    "The processes need no preparation, and continue unchanged when the recording "
    "ends.\n"
    "Only -t needs processes that were started with ROCP_TOOL_ATTACH=1; the tool gets\n"
    "the ROCPROF_ and ROCP_ variables of this command.\n"
    "Exit status: 0 every process was recorded, 1 one was not or something was lost, "
    "2\n"
    "usage error, 3 rocattach could not start, 4 every process was observed and one "
    "(of "
    "a\n"
    "tree: all) did nothing that could be recorded. 'rocattach doctor' shows what is "
    "missing.";

struct AttachArguments {
  WatchArguments watch;
  RecordingRequest run;
  std::vector<std::string> pids;
  std::string cgroup;
  std::string tool_libraries;
  uint32_t tool_timeout_msec = 0;
};

absl::StatusOr<std::vector<pid_t>> ParsePids(const AttachArguments& args) {
  std::vector<pid_t> pids;
  for (const std::string& text : args.pids) {
    pid_t pid = 0;
    if (!absl::SimpleAtoi(text, &pid) || pid <= 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", text, "' is not a process ID"));
    }
    pids.push_back(pid);
  }
  if (!args.cgroup.empty()) {
    auto members = ProcessesOfCgroup(args.cgroup);
    if (!members.ok()) return members.status();
    pids.insert(pids.end(), members->begin(), members->end());
  }
  if (pids.empty()) {
    return absl::InvalidArgumentError(
        args.cgroup.empty() ? "no process was given; use -p PID or --cgroup PATH"
                            : absl::StrCat(args.cgroup, " has no processes"));
  }
  return pids;
}

int PrintUsage(const absl::Status& status) {
  fprintf(stderr, "rocattach: %s\n", std::string(status.message()).c_str());
  return kExitUsage;
}

// Rejects all other options: they are for our own recording, which a tool replaces.
absl::Status CheckToolOptions(const CLI::App& app) {
  static const std::set<std::string> kUsed = {
      "--pid",  "--cgroup",       "--attach-children",      "--attach-tool-library",
      "--json", "--quiet",        "--attach-duration-msec", "--tool-timeout-msec",
      "--help", "--detach-on-eof"};
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = option->get_name();
    if (option->count() == 0 || kUsed.count(name) != 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(name,
                     " has no effect with --attach-tool-library: that tool has "
                     "its own options, in the ROCPROF_ variables"));
  }
  return absl::OkStatus();
}

int RunAttach(AttachArguments* args, const CLI::App& app) {
  WatchArguments& watch = args->watch;
  auto pids = ParsePids(*args);
  if (!pids.ok()) return PrintUsage(pids.status());
  ToolAttachOptions tools;
  tools.tools = ForeignTools(args->tool_libraries);
  if (!tools.tools.empty()) {
    if (absl::Status status = CheckToolOptions(app); !status.ok()) {
      return PrintUsage(status);
    }
    tools.children = args->run.children;
    tools.detach_on_eof = args->run.detach_on_eof;
    tools.json = watch.json;
    tools.quiet = watch.quiet;
    tools.duration_msec = static_cast<uint64_t>(watch.session.duration_msec);
    tools.timeout_msec = args->tool_timeout_msec;
    return RunToolAttach(tools, *pids);
  }
  args->run.pids = *std::move(pids);
  if (absl::Status status = InterpretAttach(app, "rocattach attach", &watch);
      !status.ok()) {
    return PrintUsage(status);
  }
  return RecordRunning(args->run, &watch);
}

}  // namespace

void RegisterAttach(CLI::App* app, std::function<int()>* run) {
  auto args = std::make_shared<AttachArguments>();
  CLI::App* command =
      app->add_subcommand("attach", "Record processes that are already running");
  command->footer(kAttachExamples);
  command->option_defaults()->always_capture_default(false);
  StartGroup(command, kWatchGroup);
  command
      ->add_option("-p,--pid,--attach", args->pids,
                   "Processes to attach to; repeatable (default: $ROCPROF_ATTACH_PID)")
      ->type_name("PID[,PID…]")
      ->delimiter(',')
      ->expected(1)
      ->take_all()
      ->envname("ROCPROF_ATTACH_PID");
  command
      ->add_option("--cgroup", args->cgroup,
                   "All processes of a control group and of those below it")
      ->type_name("PATH");
  command
      ->add_flag("--attach-children", args->run.children,
                 "Their descendants as well, and those that they start later (default: "
                 "$ROCPROF_ATTACH_CHILDREN, else no)")
      ->envname("ROCPROF_ATTACH_CHILDREN");
  AddAttachOptions(command, &args->run);
  command
      ->add_option("-t,--attach-tool-library", args->tool_libraries,
                   "Attach these tools of rocprofiler-sdk instead of recording, to "
                   "processes that were started with ROCP_TOOL_ATTACH=1 (default: "
                   "$ROCPROF_ATTACH_TOOL_LIBRARY, else none)")
      ->type_name("LIB[:LIB…]")
      ->envname("ROCPROF_ATTACH_TOOL_LIBRARY");
  command
      ->add_option("--tool-timeout-msec", args->tool_timeout_msec,
                   "How long such a tool may take to attach, and to detach (default: "
                   "30000, 100000)")
      ->type_name("MSEC")
      ->check(CLI::Range(1, 3'600'000));
  command->add_flag("--detach-on-eof", args->run.detach_on_eof,
                    "Detach at the end of standard input instead of on Enter: when the "
                    "program at its other side closes it, or dies");
  AddRecordingOptions(command, &args->watch);
  command->get_option("--attach-duration-msec")->envname("ROCPROF_ATTACH_DURATION");
  ShortenHelp(command, {"--pid", "--cgroup", "--attach-children", "--wait",
                        "--attach-tool-library", "--sys-trace", "--hip-trace",
                        "--hsa-trace", "--marker-trace", "--pmc", "--set", "--block",
                        "--attach-duration-msec", "--output-directory", "--output-file",
                        "--output-format", "--json", "--quiet"});
  command->callback([args, command, run] {
    *run = [args, command] { return RunAttach(args.get(), *command); };
  });
}

}  // namespace rocattach
