// rocattach why: what was decided about a process, and what the user can do.
#include <stdio.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "userspace/base/clock.h"
#include "userspace/base/process.h"
#include "userspace/cli/stream_input.h"
#include "userspace/cli/subcommands.h"
#include "userspace/cli/why_text.h"
#include "userspace/control/service_channel.h"
#include "userspace/control/service_connection.h"
#include "userspace/report/text.h"
#include "userspace/stream/decoder.h"
#include "userspace/watch/discovery/known_libraries.h"
#include "userspace/watch/late/running_process.h"
#include "userspace/watch/late/runtime_start.h"

namespace rocattach {
namespace {

constexpr int kExitNotAttached = 1;
constexpr int kExitUnknown = 2;

struct WhyArguments {
  uint32_t pid = 0;
  std::string socket = ControlSocket();
  bool socket_named = false;
  std::vector<std::string> recordings;
  bool json = false;
};

v1::ClockSnapshot ClockNow() {
  const ClockSnapshot now = CaptureClockSnapshot();
  v1::ClockSnapshot clock;
  clock.set_boottime_ns(now.boottime_ns);
  clock.set_realtime_ns(now.realtime_ns);
  return clock;
}

// Collects the lives of one process ID from recordings.
class LifeReader : public StreamVisitor {
 public:
  explicit LifeReader(uint32_t pid) : pid_(pid) {}

  void OnRecording(const FrameContext&, const v1::StreamHeader* header) override {
    if (header != nullptr) clock_ = header->clock();
  }
  void OnProcess(const FrameContext& at, const v1::Process& process) override {
    if (process.pid() != pid_) return;
    v1::ProcessLife& life = lives_[{at.recording, at.stream}];
    *life.mutable_process() = process;
    life.mutable_process()->clear_arguments();
    if (process.has_workload()) *life.mutable_workload() = process.workload();
  }
  void OnWindow(const FrameContext& at, const v1::WindowEvent& window) override {
    v1::ProcessLife* life = Find(at);
    if (life == nullptr || window.state() < v1::WINDOW_STATE_ATTACHED) return;
    // Key frames repeat events.
    for (const v1::WindowEvent& known : life->verdicts()) {
      if (known.time_ns() == window.time_ns() && known.state() == window.state()) {
        return;
      }
    }
    if (life->verdicts_size() < kMostVerdicts) *life->add_verdicts() = window;
  }
  void OnProcessEnd(const FrameContext& at, const v1::ProcessEnd& end) override {
    if (v1::ProcessLife* life = Find(at)) *life->mutable_end() = end;
  }

  const v1::ClockSnapshot& clock() const { return clock_; }
  std::vector<v1::ProcessLife> TakeLives() {
    std::vector<v1::ProcessLife> lives;
    for (auto& [key, life] : lives_) lives.push_back(std::move(life));
    std::sort(lives.begin(), lives.end(),
              [](const v1::ProcessLife& a, const v1::ProcessLife& b) {
                return a.process().start_ticks() < b.process().start_ticks();
              });
    return lives;
  }

 private:
  static constexpr int kMostVerdicts = 64;  // a recording is not trusted

  v1::ProcessLife* Find(const FrameContext& at) {
    const auto found = lives_.find({at.recording, at.stream});
    return found == lives_.end() ? nullptr : &found->second;
  }

  const uint32_t pid_;
  v1::ClockSnapshot clock_;
  std::map<std::pair<uint32_t, uint32_t>, v1::ProcessLife> lives_;
};

// Prints the lives; the last one decides the exit status.
int PrintLives(const WhyArguments& arguments, const std::vector<v1::ProcessLife>& lives,
               const v1::ClockSnapshot& clock, const std::string& source) {
  if (arguments.json) {
    Json json = {{"pid", arguments.pid}, {"source", source}, {"lives", Json::array()}};
    for (const v1::ProcessLife& life : lives) json["lives"].push_back(LifeJson(life));
    if (!WriteStdout(DumpJson(json) + "\n")) return kExitUnreadable;
  } else {
    std::string text;
    for (const v1::ProcessLife& life : lives) text += LifeText(life, clock);
    if (!WriteStdout(text)) return kExitUnreadable;
  }
  if (lives.empty()) return kExitUnknown;
  return WasAttached(lives.back()) ? kExitOk : kExitNotAttached;
}

int Unknown(const WhyArguments& arguments, const std::string& source,
            const std::string& why) {
  fprintf(stderr, "rocattach why: %s\n", TerminalSafe(why).c_str());
  return arguments.json ? PrintLives(arguments, {}, {}, source) : kExitUnknown;
}

int ReadRecordings(const WhyArguments& arguments) {
  StopReadingOnSignals();
  LifeReader reader(arguments.pid);
  StreamDecoder decoder(&reader);
  const int status = ReadStreams(arguments.recordings, /*follow=*/false, &decoder);
  if (status != kExitOk) return status;
  const std::vector<v1::ProcessLife> lives = reader.TakeLives();
  if (!lives.empty()) {
    return PrintLives(arguments, lives, reader.clock(), "recording");
  }
  return Unknown(
      arguments, "recording",
      absl::StrCat("the recording has no process ", arguments.pid,
                   ": it opened no window while it was made, or its copy of the "
                   "HSA runtime had no probe",
                   decoder.stats().damaged() ? "; the recording is damaged" : ""));
}

// Describes a running process that no service knows; `not_attached` says what it
// lacks, or what can be done.
v1::ProcessLife Inspect(pid_t pid, const ProcessInfo& info) {
  v1::ProcessLife life;
  life.set_running(true);
  v1::Process* process = life.mutable_process();
  process->set_pid(static_cast<uint32_t>(pid));
  process->set_start_ticks(info.id.start_ticks);
  process->set_start_ns(info.id.start_ticks * ClockTickNs());
  process->set_comm(info.comm);
  process->set_executable(info.executable);
  process->set_uid(info.uid);
  process->set_cgroup(info.cgroup);
  KnownLibraries libraries({});
  const KnownLibraries::Mapped mapped = libraries.MappedBy(pid);
  if (!mapped.entries.empty()) {
    process->set_hsa_library(mapped.entries.front().copy->path);
  }
  absl::Status status = CheckUsesRuntime(pid);
  if (status.ok()) status = CheckIsRunning(pid);
  if (status.ok()) status = CheckRuntimeStarted(pid);
  if (!status.ok()) {
    life.set_not_attached(std::string(status.message()));
  } else if (!mapped.rejected.empty()) {
    life.set_not_attached(
        absl::StrCat("its copy of the runtime ", mapped.rejected.front().path,
                     " cannot be probed: ", mapped.rejected.front().reason));
  } else {
    life.set_not_attached(
        absl::StrCat("it uses the runtime and no service knows "
                     "it; 'rocattach attach -p ",
                     pid, "' records it from now on"));
  }
  return life;
}

// `why`: the reason why no service knows the process.
int InspectLive(const WhyArguments& arguments, const std::string& why) {
  const auto pid = static_cast<pid_t>(arguments.pid);
  const absl::Status status = CheckIsProcess(pid);
  const absl::StatusOr<ProcessInfo> info =
      status.ok() ? ReadProcessInfo(pid) : absl::StatusOr<ProcessInfo>(status);
  if (!info.ok()) {
    return Unknown(arguments, "inspection",
                   absl::StrCat(info.status().message(), "; ", why, "; 'rocattach why ",
                                pid, " -i FILE' reads a recording"));
  }
  if (!arguments.json)
    fprintf(stderr, "rocattach why: %s\n", TerminalSafe(why).c_str());
  return PrintLives(arguments, {Inspect(pid, *info)}, ClockNow(), "inspection");
}

int RunWhy(const WhyArguments& arguments) {
  if (!arguments.recordings.empty()) return ReadRecordings(arguments);
  ServiceConnection service(arguments.socket);
  v1::GetHistoryRequest request;
  request.set_pid(arguments.pid);
  const auto history = service.Call(&ServiceConnection::Stub::AsyncGetHistory, request);
  if (!history.ok()) {
    const std::string message(history.status().message());
    if (arguments.socket_named) {
      fprintf(stderr, "rocattach why: %s\n", TerminalSafe(message).c_str());
      return kExitUnreadable;
    }
    return InspectLive(arguments, message);
  }
  if (!history->lives().empty()) {
    return PrintLives(arguments, {history->lives().begin(), history->lives().end()},
                      ClockNow(), "service");
  }
  std::string why = "the service has not seen it open a window";
  if (history->forgotten() > 0) {
    absl::StrAppend(&why, ", or has forgotten it: it has seen ", history->seen(),
                    " processes, and forgotten ", history->forgotten());
  }
  return InspectLive(arguments, why);
}

}  // namespace

void RegisterWhy(CLI::App* app, std::function<int()>* run) {
  auto arguments = std::make_shared<WhyArguments>();
  CLI::App* command = app->add_subcommand(
      "why", "Show what was decided about a process, why, and what can be done");
  command
      ->add_option("PID", arguments->pid,
                   "The process ID, also of a process that has ended")
      ->required()
      ->check(CLI::Range(1, 1 << 22).description(""))
      ->type_name("");
  CLI::Option* socket =
      command
          ->add_option("--socket", arguments->socket,
                       "Control socket of rocattach-watch; the variable "
                       "ROCATTACH_SOCKET replaces the default")
          ->type_name("PATH")
          ->capture_default_str();
  command
      ->add_option("-i,--input", arguments->recordings,
                   "Ask this recording instead of the service; repeatable")
      ->type_name("FILE")
      ->expected(1)
      ->take_all()
      ->excludes(socket);
  command->add_flag("--json", arguments->json, "Print one JSON object");
  command->footer(
      "A running rocattach-watch is asked; without one, or if it has not seen the "
      "process,\n"
      "the process itself is inspected if it is running.\n"
      "\n"
      "Exit status: 0 it was attached to; 1 it was not; 2 nothing is known of it, or "
      "usage error;\n"
      "3 the service or the recording cannot be read. Of several processes with that "
      "number,\n"
      "the last one counts.");
  command->callback([arguments, socket, run] {
    arguments->socket_named = socket->count() > 0;
    *run = [arguments] { return RunWhy(*arguments); };
  });
}

}  // namespace rocattach
