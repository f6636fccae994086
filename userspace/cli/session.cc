// rocattach session: starts and stops sessions of a running rocattach-watch.
#include <stdio.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "userspace/base/human.h"
#include "userspace/cli/session_arguments.h"
#include "userspace/cli/subcommands.h"
#include "userspace/control/control_client.h"
#include "userspace/report/line_writer.h"
#include "userspace/report/text.h"

namespace rocattach {
namespace {

constexpr int kExitRefused = 1;

struct Arguments {
  std::string socket = kDefaultControlSocket;
  bool json = false;
  std::vector<uint32_t> pids;
  SessionArguments session;
  uint64_t number = 0;
};

int Fail(const absl::Status& status) {
  fprintf(stderr, "rocattach session: %s\n",
          TerminalSafe(std::string(status.message())).c_str());
  if (absl::IsUnavailable(status)) return kExitUnreadable;
  return absl::IsInvalidArgument(status) ? kExitUsage : kExitRefused;
}

void PrintJson(const google::protobuf::Message& message) {
  std::string out;
  LineWriter(LineWriter::Style::kJson, &out).Object(message);
  printf("%s\n", out.c_str());
}

std::string Pids(const google::protobuf::RepeatedField<uint32_t>& pids) {
  return pids.empty() ? "no process" : absl::StrCat("pid ", absl::StrJoin(pids, ", "));
}

void Print(const v1::SessionStatus& session) {
  printf("session %llu: %s; %s\n", static_cast<unsigned long long>(session.session()),
         session.over()     ? "over"
         : session.active() ? "collecting"
                            : "between periods",
         Pids(session.pids()).c_str());
  if (session.counters_size() > 0) {
    printf("  counters: %s\n",
           TerminalSafe(absl::StrJoin(session.counters(), " ")).c_str());
  }
  for (const v1::RefusedProcess& refused : session.refused()) {
    printf("  refused: pid %u: %s\n", refused.pid(),
           TerminalSafe(refused.reason()).c_str());
  }
}

absl::StatusOr<v1::StartSessionRequest> Request(const Arguments& arguments) {
  auto catalog = LoadCatalog(arguments.session.extra_counters);
  if (!catalog.ok()) return catalog.status();
  auto wish = InterpretSession(arguments.session, &*catalog);
  if (!wish.ok()) return wish.status();
  if (wish->filters.empty()) {
    return absl::InvalidArgumentError(
        "nothing to collect: say what with --pmc, --set, --block, --hip-trace or -i");
  }
  v1::StartSessionRequest request;
  for (uint32_t pid : arguments.pids) request.add_pids(pid);
  for (const FilterSpec& filter : wish->filters) {
    for (const auto& group : filter.counters) {
      v1::CounterGroup* out = request.add_counters();
      for (const std::string& name : group) out->add_names(name);
    }
    if (filter.kind == FilterKind::kCounters) {
      request.set_single_pass(filter.single_pass);
      request.set_keep_groups(filter.keep_groups);
      request.set_rotation_iterations(filter.rotation_iterations);
      for (const std::string& expression : filter.selection.kernel_include) {
        request.add_kernel_include(expression);
      }
      for (const std::string& expression : filter.selection.kernel_exclude) {
        request.add_kernel_exclude(expression);
      }
      for (const NumberRange& range : filter.selection.iterations) {
        v1::IterationRange* out = request.add_iterations();
        out->set_first(range.first);
        out->set_last(range.last);
      }
    }
    for (int domain : filter.api_domains) {
      if (domain == ROCATTACH_ACTIVITY_DOMAIN_HSA_API) request.set_hsa_trace(true);
      if (domain == ROCATTACH_ACTIVITY_DOMAIN_HIP_API) request.set_hip_trace(true);
      if (domain == ROCATTACH_ACTIVITY_DOMAIN_ROCTX) request.set_marker_trace(true);
    }
  }
  for (const CollectionPeriod& period : wish->periods) {
    v1::Period* out = request.add_periods();
    out->set_delay_ns(period.delay_ns);
    out->set_duration_ns(period.duration_ns);
    out->set_repeat(period.repeat);
  }
  request.set_duration_ns(wish->duration_ns);
  return request;
}

int RunStart(const Arguments& arguments) {
  // Names are checked before anybody is asked.
  const auto request = Request(arguments);
  if (!request.ok()) {
    Fail(request.status());
    return kExitUsage;
  }
  auto client = ControlClient::Connect(arguments.socket);
  if (!client.ok()) return Fail(client.status());
  const auto response = (*client)->StartSession(*request);
  if (!response.ok()) return Fail(response.status());
  if (arguments.json) {
    PrintJson(*response);
  } else {
    Print(response->status());
  }
  return kExitOk;
}

int RunStop(const Arguments& arguments) {
  auto client = ControlClient::Connect(arguments.socket);
  if (!client.ok()) return Fail(client.status());
  const absl::Status status = (*client)->StopSession(arguments.number);
  if (!status.ok()) return Fail(status);
  if (arguments.json) {
    printf("{\"session\":%llu}\n", static_cast<unsigned long long>(arguments.number));
  } else {
    printf("session %llu: over\n", static_cast<unsigned long long>(arguments.number));
  }
  return kExitOk;
}

int RunStatus(const Arguments& arguments) {
  auto client = ControlClient::Connect(arguments.socket);
  if (!client.ok()) return Fail(client.status());
  const auto response = (*client)->GetStatus();
  if (!response.ok()) return Fail(response.status());
  if (arguments.json) {
    PrintJson(*response);
    return kExitOk;
  }
  printf("rocattach-watch %s (pid %u) records to %s\n",
         TerminalSafe(response->version()).c_str(), response->pid(),
         TerminalSafe(response->output()).c_str());
  for (const v1::AttachedProcess& process : response->processes()) {
    printf("process %u: %s%s%s\n", process.pid(),
           TerminalSafe(absl::StrJoin(process.gpus(), ", ")).c_str(),
           process.can_count() ? ", can be measured" : ", cannot be measured: ",
           process.can_count() ? "" : TerminalSafe(process.reason()).c_str());
  }
  for (const v1::SessionStatus& session : response->sessions()) Print(session);
  return kExitOk;
}

void AddCommon(CLI::App* command, const std::shared_ptr<Arguments>& arguments) {
  command->add_option("--socket", arguments->socket, "Where rocattach-watch answers")
      ->type_name("PATH")
      ->capture_default_str();
  command->add_flag("--json", arguments->json, "Answer as one JSON object");
}

}  // namespace

void RegisterSession(CLI::App* app, std::function<int()>* run) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* session = app->add_subcommand(
      "session", "Start, stop and list sessions of a running rocattach-watch");
  session->require_subcommand(1);
  CLI::App* start = session->add_subcommand("start", "Start a session");
  start
      ->add_option("-p,--pid", arguments->pids,
                   "Only this attached process (else all, and those to come); "
                   "repeatable")
      ->type_name("PID")
      ->expected(1)
      ->take_all();
  AddSessionOptions(start, &arguments->session);
  AddCommon(start, arguments);
  start->callback(
      [run, arguments] { *run = [arguments] { return RunStart(*arguments); }; });
  CLI::App* stop = session->add_subcommand("stop", "Stop a session");
  stop->add_option("session", arguments->number, "Its number")->required();
  AddCommon(stop, arguments);
  stop->callback(
      [run, arguments] { *run = [arguments] { return RunStop(*arguments); }; });
  CLI::App* status =
      session->add_subcommand("status", "List sessions and attached processes");
  AddCommon(status, arguments);
  status->callback(
      [run, arguments] { *run = [arguments] { return RunStatus(*arguments); }; });
}

}  // namespace rocattach
