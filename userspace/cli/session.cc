// rocattach session: starts and stops sessions of a running rocattach-watch.
#include <stdio.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "userspace/base/human.h"
#include "userspace/base/session_status.h"
#include "userspace/base/status_macros.h"
#include "userspace/cli/options/help_groups.h"
#include "userspace/cli/options/machine_gpus.h"
#include "userspace/cli/options/session_arguments.h"
#include "userspace/cli/session_wait.h"
#include "userspace/cli/subcommands.h"
#include "userspace/control/service_channel.h"
#include "userspace/control/service_connection.h"
#include "userspace/control/session_wire.h"
#include "userspace/report/message_json.h"
#include "userspace/report/text.h"

namespace rocattach {
namespace {

using Stub = ServiceConnection::Stub;

constexpr int kExitRefused = 1;

constexpr char kExitHelp[] =
    "Exit status: 0 success; 1 the service refused, with its reason; 2 usage error, "
    "unknown\n"
    "counter, or counters that do not fit one pass with --single-pass; 3 no service\n"
    "answers.";

struct Arguments {
  std::string socket = ControlSocket();
  bool json = false;
  std::vector<uint32_t> pids;
  SessionArguments session;
  bool wait = false, no_wait = false;
  uint64_t number = 0;
};

// "pid 7", "pid 7 and 11 more processes".
std::string Counted(const std::vector<uint32_t>& pids) {
  std::string first = absl::StrCat("pid ", pids.front());
  if (pids.size() == 1) return first;
  return absl::StrCat(first, " and ", pids.size() - 1, " more ",
                      pids.size() == 2 ? "process" : "processes");
}

int Fail(const absl::Status& status) {
  fprintf(stderr, "rocattach session: %s\n", TerminalSafe(status.message()).c_str());
  return absl::IsUnavailable(status) ? kExitUnreadable : kExitRefused;
}

void PrintJson(const google::protobuf::Message& message) {
  printf("%s\n", DumpJson(MessageJson(message)).c_str());
}

std::string Pids(const google::protobuf::RepeatedField<uint32_t>& pids) {
  return pids.empty() ? "no process" : absl::StrCat("pid ", absl::StrJoin(pids, ", "));
}

// Prints what an ended session has collected, and where that is.
void PrintOver(const v1::SessionStatus& session, const std::string& output) {
  const bool nothing = session.collected().empty();
  printf("session %llu: ended; collected %s%s\n",
         static_cast<unsigned long long>(session.session()),
         nothing ? "nothing"
                 : TerminalSafe(absl::StrJoin(session.collected(), ", ")).c_str(),
         nothing ? "" : absl::StrCat(" in ", TerminalSafe(output)).c_str());
}

// The same after a stop; the service lists only recent sessions.
absl::Status ReportOver(ServiceConnection* service, bool json, uint64_t number) {
  ASSIGN_OR_RETURN(const v1::GetStatusResponse status,
                   service->Call(&Stub::AsyncGetStatus, {}));
  Json line = {{"session", number}};
  for (const v1::SessionStatus& session : status.sessions()) {
    if (session.session() != number) continue;
    if (!json) {
      PrintOver(session, status.output());
      return absl::OkStatus();
    }
    line["collected"] = std::vector<std::string>(session.collected().begin(),
                                                 session.collected().end());
    line["output"] = status.output();
  }
  if (json) {
    printf("%s\n", DumpJson(line).c_str());
  } else {
    printf("session %llu: ended\n", static_cast<unsigned long long>(number));
  }
  return absl::OkStatus();
}

void Print(const v1::SessionStatus& session, const std::string& output) {
  if (session.over()) {
    PrintOver(session, output);
    return;
  }
  const char* state = session.active()                ? "collecting"
                      : session.waiting_for().empty() ? "between periods"
                                                      : "waiting";
  printf("session %llu: %s; %s\n", static_cast<unsigned long long>(session.session()),
         state, Pids(session.pids()).c_str());
  if (!session.waiting_for().empty()) {
    printf("  cannot collect now: %s\n", TerminalSafe(session.waiting_for()).c_str());
  }
  if (session.collects_size() > 0) {
    printf("  collects: %s\n",
           TerminalSafe(absl::StrJoin(session.collects(), ", ")).c_str());
  }
  if (session.counters_size() > 0) {
    printf("  counters: %s\n",
           TerminalSafe(absl::StrJoin(session.counters(), " ")).c_str());
  }
  // A line for each reason, however many processes there are.
  std::map<std::string, std::vector<uint32_t>> refused;
  for (const v1::RefusedProcess& process : session.refused()) {
    refused[TerminalSafe(process.reason())].push_back(process.pid());
  }
  for (const auto& [reason, pids] : refused) {
    printf("  refused: %s: %s\n", Counted(pids).c_str(), reason.c_str());
  }
}

v1::SessionRequest Request(const std::vector<uint32_t>& pids,
                           const SessionSpec& session) {
  v1::SessionRequest request = RequestToProto(session.filters, /*targets=*/{});
  for (uint32_t pid : pids) request.add_processes()->set_pid(pid);
  for (const CollectionPeriod& period : session.periods) {
    v1::Period* out = request.add_periods();
    out->set_delay_ns(period.delay_ns);
    out->set_duration_ns(period.duration_ns);
    out->set_repeat(period.repeat);
  }
  request.set_duration_ns(session.duration_ns);
  for (const CounterText& file : session.counter_files) {
    v1::CounterFile* out = request.add_counter_files();
    out->set_name(file.name);
    out->set_text(file.text);
  }
  return request;
}

// Architectures of the GPUs of attached processes, or of the machine if there are none.
absl::StatusOr<std::vector<std::string>> AttachedArchitectures(
    const Arguments& arguments) {
  ServiceConnection service(arguments.socket);
  ASSIGN_OR_RETURN(const v1::GetStatusResponse status,
                   service.Call(&Stub::AsyncGetStatus, {}));
  std::set<std::string> names;
  for (const v1::AttachedProcess& process : status.processes()) {
    const auto& pids = arguments.pids;
    if (!pids.empty() &&
        std::find(pids.begin(), pids.end(), process.pid()) == pids.end()) {
      continue;
    }
    for (const std::string& gpu : process.gpus()) {
      names.insert(gpu.substr(0, gpu.find(':')));
    }
  }
  if (names.empty()) return TopologyArchitectures(kKfdTopology);
  return std::vector<std::string>(names.begin(), names.end());
}

absl::StatusOr<SessionSpec> ReadSpec(const Arguments& arguments) {
  ASSIGN_OR_RETURN(CounterCatalog catalog, CounterCatalog::Builtin());
  ASSIGN_OR_RETURN(SessionSpec session,
                   InterpretSession(
                       arguments.session,
                       [&] { return AttachedArchitectures(arguments); }, &catalog));
  for (const std::string& key : session.ignored) {
    fprintf(stderr, "rocattach session: %s: %s is ignored\n",
            TerminalSafe(arguments.session.input).c_str(), TerminalSafe(key).c_str());
  }
  if (!session.filters.empty()) return session;
  return absl::InvalidArgumentError(
      "nothing to collect: specify --pmc, --set, --block, --kernel-trace, "
      "--hip-trace or -i");
}

int RunStart(const Arguments& arguments) {
  // Check names before the service is contacted.
  const auto session = ReadSpec(arguments);
  if (!session.ok()) {
    Fail(session.status());
    return absl::IsUnavailable(session.status()) ? kExitUnreadable : kExitUsage;
  }
  ServiceConnection service(arguments.socket);
  const absl::Status greeted = service.Hello();
  if (!greeted.ok()) return Fail(greeted);
  const bool terminal = isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0;
  const bool wait =
      arguments.wait || (terminal && !arguments.json && !arguments.no_wait);
  SessionWait waiting(&service, wait);
  const auto response =
      service.Call(&Stub::AsyncStart, Request(arguments.pids, *session));
  if (!response.ok()) return Fail(response.status());
  if (arguments.json) {
    PrintJson(*response);
  } else {
    Print(response->status(), "");
  }
  if (!wait) return kExitOk;
  if (!arguments.json && waiting.watching_keys()) {
    printf("press Enter or Ctrl-C to stop\n");
  }
  fflush(stdout);
  const absl::Status ended = waiting.UntilEnd(response->session());
  if (!ended.ok()) return Fail(ended);
  const absl::Status reported =
      ReportOver(&service, arguments.json, response->session());
  return reported.ok() ? kExitOk : Fail(reported);
}

int RunStop(const Arguments& arguments) {
  ServiceConnection service(arguments.socket);
  v1::SessionNumber number;
  number.set_session(arguments.number);
  const absl::Status status = service.Call(&Stub::AsyncStop, number).status();
  if (!status.ok()) return Fail(status);
  const absl::Status reported = ReportOver(&service, arguments.json, arguments.number);
  return reported.ok() ? kExitOk : Fail(reported);
}

int RunStatus(const Arguments& arguments) {
  ServiceConnection service(arguments.socket);
  const auto response = service.Call(&Stub::AsyncGetStatus, {});
  if (!response.ok()) return Fail(response.status());
  if (arguments.json) {
    PrintJson(*response);
    return kExitOk;
  }
  printf("rocattach-watch %s (pid %u) records to %s\n",
         TerminalSafe(response->version()).c_str(), response->pid(),
         TerminalSafe(response->output()).c_str());
  for (const v1::AttachedProcess& process : response->processes()) {
    const char* what = process.can_count()    ? "can be measured"
                       : process.can_sample() ? "only whole GPUs can be measured: "
                                              : "cannot be measured: ";
    printf("process %u: %s, %s%s\n", process.pid(),
           TerminalSafe(absl::StrJoin(process.gpus(), ", ")).c_str(), what,
           process.can_count() ? "" : TerminalSafe(process.reason()).c_str());
  }
  for (const v1::SessionStatus& session : response->sessions()) {
    Print(session, response->output());
  }
  return kExitOk;
}

void AddCommon(CLI::App* command, const std::shared_ptr<Arguments>& arguments) {
  command
      ->add_option("--socket", arguments->socket,
                   "Control socket of rocattach-watch; the variable ROCATTACH_SOCKET "
                   "replaces the default")
      ->type_name("PATH")
      ->capture_default_str();
  command->add_flag("--json", arguments->json, "Print one JSON object");
}

}  // namespace

void RegisterSession(CLI::App* app, std::function<int()>* run) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* session = app->add_subcommand(
      "session", "Start, stop and list sessions of a running rocattach-watch");
  session->require_subcommand(1);
  session->footer(
      "Run 'rocattach session COMMAND --help' for more about a command. To measure "
      "counters\n"
      "of processes that already run, start the service with 'rocattach-watch --auto "
      "--backend sdk'.");
  CLI::App* start = session->add_subcommand("start", "Start a session");
  start->footer(absl::StrCat(
      "Examples:\n"
      "  rocattach session start --pmc SQ_WAVES GRBM_COUNT\n"
      "                             every attached process, until Enter or Ctrl-C\n"
      "  rocattach session start -p 4711 --hip-trace --attach-duration-msec 500\n"
      "  rocattach session start --set mem_thruput --kernel-include-regex gemm "
      "--no-wait\n"
      "  rocattach session start --pmc SQ_WAVES --collection-period 5:1:0\n"
      "                             collect for 1 s after every 5 s, until stopped\n\n",
      kExitHelp));
  StartGroup(start, kWatchGroup);
  start
      ->add_option("-p,--pid", arguments->pids,
                   "Only this attached process (default: all, including later ones); "
                   "repeatable")
      ->type_name("PID")
      ->check(CLI::Range(1, 1 << 22).description(""))
      ->expected(1)
      ->take_all();
  AddSessionOptions(start, &arguments->session);
  CLI::Option* wait = start->add_flag(
      "--wait", arguments->wait,
      "Wait until the session ends; Enter or Ctrl-C stops it (default on a "
      "terminal without --json)");
  start
      ->add_flag("--no-wait", arguments->no_wait,
                 "Return as soon as the session has started")
      ->excludes(wait);
  StartGroup(start, kOutputGroup);
  AddCommon(start, arguments);
  ShortenHelp(start, {"--pid", "--sys-trace", "--kernel-trace", "--hip-trace",
                      "--hsa-trace", "--marker-trace", "--kernel-include-regex",
                      "--pmc", "--set", "--block", "--input", "--attach-duration-msec",
                      "--collection-period", "--wait", "--no-wait", "--json"});
  start->callback(
      [run, arguments] { *run = [arguments] { return RunStart(*arguments); }; });
  CLI::App* stop = session->add_subcommand("stop", "Stop a session");
  stop->footer(kExitHelp);
  stop->add_option("session", arguments->number, "Session number")
      ->required()
      ->check(CLI::Range(int64_t{1}, INT64_MAX).description(""));
  AddCommon(stop, arguments);
  stop->callback(
      [run, arguments] { *run = [arguments] { return RunStop(*arguments); }; });
  CLI::App* status =
      session->add_subcommand("status", "List sessions and attached processes");
  status->footer(kExitHelp);
  AddCommon(status, arguments);
  status->callback(
      [run, arguments] { *run = [arguments] { return RunStatus(*arguments); }; });
}

}  // namespace rocattach
