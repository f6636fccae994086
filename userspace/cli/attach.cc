// rocattach attach: records processes that are already running.
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "userspace/cli/attach_console.h"
#include "userspace/cli/enter_key.h"
#include "userspace/cli/input_end.h"
#include "userspace/cli/subcommands.h"
#include "userspace/cli/tool_attach.h"
#include "userspace/cli/watch_arguments.h"
#include "userspace/listener/tool_library.h"
#include "userspace/service/watcher.h"
#include "userspace/watch/running_process.h"

namespace rocattach {
namespace {

constexpr int kExitCannotStart = 3;

constexpr char kExamples[] =
    "Examples:\n"
    "  rocattach attach -p 1234                    record until Enter or Ctrl-C\n"
    "  rocattach attach -p 1234,1235 --attach-duration-msec 10000\n"
    "  rocattach attach -p 1234 --attach-children -o trace.rwa\n"
    "  rocattach attach --cgroup system.slice/llm.service\n"
    "  rocattach attach -p 1234 -t librocprofiler-sdk-tool.so\n"
    "Then: rocattach report FILE, rocattach dump FILE --json\n"
    "\n"
    "The processes need no preparation, and go on as before when the recording ends.\n"
    "Only -t needs processes that were started with ROCP_TOOL_ATTACH=1; the tool gets\n"
    "the ROCPROF_ and ROCP_ variables of this command.\n"
    "Exit status: 0 every process was recorded, 1 one was not or something was lost, "
    "2\n"
    "usage error, 3 rocattach could not start. 'rocattach doctor' shows what is "
    "missing.";

struct AttachArguments {
  WatchArguments watch;
  std::vector<std::string> pids;
  std::string cgroup;
  bool children = false;
  bool detach_on_eof = false;
  std::string tool_libraries;
  uint32_t tool_timeout_msec = 0;
};

Watcher* running_watcher = nullptr;
void OnSignal(int) {
  if (running_watcher != nullptr) running_watcher->RequestStop(0);
}

void StopOnSignals(Watcher* watcher) {
  running_watcher = watcher;
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  for (int number : {SIGINT, SIGTERM, SIGHUP}) sigaction(number, &action, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

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

int PrintError(const absl::Status& status, int exit_status) {
  fprintf(stderr, "rocattach: %s\n", std::string(status.message()).c_str());
  return exit_status;
}

// What else is given is for our own recording, and there is none with another tool.
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
  if (!pids.ok()) return PrintError(pids.status(), kExitUsage);
  ToolAttachOptions tools;
  tools.tools = ForeignTools(args->tool_libraries);
  if (!tools.tools.empty()) {
    if (absl::Status status = CheckToolOptions(app); !status.ok()) {
      return PrintError(status, kExitUsage);
    }
    tools.children = args->children;
    tools.detach_on_eof = args->detach_on_eof;
    tools.json = watch.json;
    tools.quiet = watch.quiet;
    tools.duration_msec = static_cast<uint32_t>(
        std::min<int64_t>(watch.session.duration_msec, UINT32_MAX));
    tools.timeout_msec = args->tool_timeout_msec;
    return RunToolAttach(tools, *pids);
  }
  watch.watcher.attach = true;
  // The whole run lasts that long, with a session or without.
  watch.watcher.duration_msec = static_cast<uint32_t>(
      std::min<int64_t>(std::exchange(watch.session.duration_msec, 0), UINT32_MAX));
  std::vector<char*> words;  // for the stream's header
  char name[] = "rocattach attach";
  words.push_back(name);
  if (absl::Status status = InterpretWatchArguments(app, 1, words.data(), &watch);
      !status.ok()) {
    return PrintError(status, kExitUsage);
  }
  watch.watcher.watch_new = false;

  const bool stream_on_stdout = watch.watcher.output_file == "-";
  AttachConsole console({.json = watch.json,
                         .quiet = watch.quiet,
                         .recording = watch.watcher.recording,
                         .out = watch.json && !stream_on_stdout ? stdout : stderr});
  std::set<pid_t> wanted;
  for (pid_t pid : *pids) {
    absl::Status status = CheckIsProcess(pid);
    // Its children may have.
    if (status.ok() && !args->children) status = CheckUsesRuntime(pid);
    if (!status.ok()) {
      console.Refuse(pid, status);
    } else {
      wanted.insert(pid);
    }
  }
  std::vector<pid_t>& running = watch.watcher.running;
  running.assign(wanted.begin(), wanted.end());
  if (running.empty()) return kExitLosses;
  if (args->children) running = WithDescendants(running);
  console.Expect(running);

  auto watcher = Watcher::Start(watch.watcher, &console);
  if (!watcher.ok()) {
    console.ReportFailure(watcher.status());
    return kExitCannotStart;
  }
  StopOnSignals(watcher->get());
  InputEnd input_end(args->detach_on_eof, [&] { (*watcher)->RequestStop(0); });
  EnterKey enter(/*wanted=*/!args->detach_on_eof);
  if (enter.watching() && !watch.quiet && !watch.json) {
    fprintf(stderr, "rocattach: press Enter or Ctrl-C to detach\n");
  }
  auto result = (*watcher)->Run({}, [&] {
    console.Tick((*watcher)->Totals());
    // Nothing is left to be recorded: every process has ended, or was refused.
    const bool over = console.decided() && !console.any_attached();
    if (over || enter.Pressed(0)) (*watcher)->RequestStop(0);
  });
  running_watcher = nullptr;
  if (!result.ok()) return PrintError(result.status(), kExitCannotStart);
  return console.Summarize(*result) ? kExitOk : kExitLosses;
}

}  // namespace

void RegisterAttach(CLI::App* app, std::function<int()>* run) {
  auto args = std::make_shared<AttachArguments>();
  CLI::App* command =
      app->add_subcommand("attach", "Record processes that are already running");
  command->footer(kExamples);
  command->option_defaults()->always_capture_default(false);
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
  command->add_flag("--attach-children", args->children,
                    "The descendants of these processes as well");
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
  command->add_flag("--detach-on-eof", args->detach_on_eof,
                    "Detach at the end of standard input instead of on Enter: when the "
                    "program at its other side closes it, or dies");
  AddRecordingOptions(command, &args->watch);
  command->callback([args, command, run] {
    *run = [args, command] { return RunAttach(args.get(), *command); };
  });
}

}  // namespace rocattach
