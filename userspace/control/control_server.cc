#include "userspace/control/control_server.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/server_posix.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schemas/control.grpc.pb.h"
#include "userspace/base/human.h"
#include "userspace/base/process.h"
#include "userspace/base/session_status.h"
#include "userspace/base/status_macros.h"
#include "userspace/base/version.h"
#include "userspace/control/session_api_server.h"
#include "userspace/control/session_wire.h"
#include "userspace/control/socket_listener.h"
#include "userspace/watch/discovery/sdk_version.h"
#include "userspace/watch/late/running_process.h"

namespace rocattach {
namespace {

// Time that calls still have when the service ends.
constexpr auto kLastCalls = std::chrono::seconds(3);
constexpr int kMaxMessageBytes = 8 << 20;  // may include counter files
// Maximum number of simultaneous calls over one connection: a program's runs, and other
// requests. More wait in the client.
constexpr int kMostCalls = static_cast<int>(SessionApiServer::kMostRuns) + 64;

// The codes of absl and gRPC have the same numbers.
grpc::Status ControlStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  if (SessionStatusOf(status) == SessionStatus::kNotInitialized) {
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, kServiceEnding);
  }
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()),
                      WireMessage(status.message()));
}

// The service's counters and those in the request; null if it has none.
absl::StatusOr<std::shared_ptr<const CounterCatalog>> CatalogOf(
    const v1::StartSessionRequest& request, const CounterCatalog& known) {
  if (request.counter_files().empty()) return nullptr;
  auto catalog = std::make_shared<CounterCatalog>(known);
  for (const v1::CounterFile& file : request.counter_files()) {
    RETURN_IF_ERROR(catalog->Add(file.text(), file.name()));
  }
  return catalog;
}

// "counters of 100 dispatches", "5 API calls" …
std::vector<std::string> CollectedWords(const CollectedCounts& counts) {
  std::vector<std::string> words;
  const auto add = [&](const char* before, uint64_t count, const char* what) {
    if (count == 0) return;
    words.push_back(absl::StrCat(before, HumanCount(count), " ", what));
  };
  add("counters of ", counts.counted, "dispatches");
  add("", counts.dispatches, "dispatches");
  add("", counts.samples, "samples of GPUs");
  add("", counts.api_calls, "API calls and markers");
  add("", counts.copies, "memory copies");
  add("", counts.memory, "allocations and releases of memory");
  return words;
}

void Fill(const SessionInfo& info, v1::SessionStatus* out) {
  out->set_session(info.number);
  out->set_active(info.active);
  out->set_over(info.over);
  out->set_begin_ns(info.begin_ns);
  out->set_end_ns(info.end_ns);
  out->set_waiting_for(info.waiting_for);
  for (const std::string& what : info.collects) out->add_collects(what);
  for (std::string& what : CollectedWords(info.collected)) {
    out->add_collected(std::move(what));
  }
  for (const std::string& name : info.counters) out->add_counters(name);
  for (pid_t pid : info.running) out->add_pids(static_cast<uint32_t>(pid));
  for (const auto& [pid, reason] : info.refused) {
    v1::RefusedProcess* refused = out->add_refused();
    refused->set_pid(static_cast<uint32_t>(pid));
    refused->set_reason(reason);
  }
}

class Service : public v1::Control::Service {
 public:
  Service(SessionService* sessions, std::string output, const ProcessHistory* history)
      : sessions_(sessions), output_(std::move(output)), history_(history) {}

  grpc::Status StartSession(grpc::ServerContext*,
                            const v1::StartSessionRequest* request,
                            v1::StartSessionResponse* response) override {
    SessionRequest spec;
    for (uint32_t pid : request->pids()) {
      spec.targets.push_back({.pid = static_cast<pid_t>(pid)});
    }
    const auto catalog = CatalogOf(*request, sessions_->catalog());
    if (!catalog.ok()) return ControlStatus(catalog.status());
    for (const v1::Filter& filter : request->filters()) {
      spec.filters.push_back(FilterFromProto(filter));
      spec.filters.back().catalog = *catalog;
    }
    spec.duration_ns = request->duration_ns();
    for (const v1::Period& period : request->periods()) {
      spec.periods.push_back(
          {period.delay_ns(), period.duration_ns(), period.repeat()});
    }
    const absl::StatusOr<uint64_t> started = sessions_->Start(std::move(spec));
    if (!started.ok()) return ControlStatus(started.status());
    response->set_session(*started);
    for (const SessionInfo& info : sessions_->List()) {
      if (info.number == *started) Fill(info, response->mutable_status());
    }
    return grpc::Status::OK;
  }

  grpc::Status StopSession(grpc::ServerContext*, const v1::StopSessionRequest* request,
                           v1::StopSessionResponse*) override {
    return ControlStatus(sessions_->Stop(request->session()));
  }

  grpc::Status GetStatus(grpc::ServerContext*, const v1::GetStatusRequest*,
                         v1::GetStatusResponse* response) override {
    for (const SessionInfo& info : sessions_->List()) {
      Fill(info, response->add_sessions());
    }
    for (ProcessId target : sessions_->targets()->Targets()) {
      const auto description = sessions_->targets()->Describe(target);
      if (!description.ok()) continue;  // it has just ended
      v1::AttachedProcess* process = response->add_processes();
      process->set_pid(static_cast<uint32_t>(target.pid));
      for (const TargetGpu& gpu : description->gpus) {
        process->add_gpus(gpu.architecture);
      }
      process->set_can_count(
          (description->record_kinds & ROCATTACH_PLAN_RECORD_COUNTERS) != 0);
      process->set_can_sample(
          (description->record_kinds & ROCATTACH_PLAN_RECORD_SAMPLES) != 0);
      if (process->can_count()) continue;
      process->set_reason(description->missing_reason);
      const bool has_sdk = (description->record_kinds & ROCATTACH_PLAN_RECORD_API) != 0;
      if (has_sdk || !process->can_sample()) continue;
      // Samples need the SDK to be added, which not every version allows.
      const absl::Status addable = CheckSdkOfProcessCanBeAdded(target.pid);
      process->set_can_sample(addable.ok());
      if (!addable.ok()) process->set_reason(std::string(addable.message()));
    }
    response->set_version(ROCATTACH_VERSION);
    response->set_pid(static_cast<uint32_t>(getpid()));
    response->set_output(output_);
    return grpc::Status::OK;
  }

  grpc::Status GetHistory(grpc::ServerContext*, const v1::GetHistoryRequest* request,
                          v1::GetHistoryResponse* response) override {
    if (history_ == nullptr) return grpc::Status::OK;
    const auto pid = static_cast<pid_t>(request->pid());
    *response = history_->Find(pid);
    const auto ticks = ReadStartTicks(pid);
    if (!ticks.ok() || !CheckIsProcess(pid).ok()) return grpc::Status::OK;
    for (v1::ProcessLife& life : *response->mutable_lives()) {
      life.set_running(life.process().start_ticks() == *ticks);
    }
    return grpc::Status::OK;
  }

 private:
  SessionService* sessions_;
  const std::string output_;
  const ProcessHistory* const history_;
};

}  // namespace

struct ControlServer::Parts {
  std::unique_ptr<grpc::Service> service;
  std::unique_ptr<SessionApiServer> session_api;
  std::unique_ptr<grpc::Server> server;
  std::unique_ptr<SocketListener> listener;
};

absl::StatusOr<std::unique_ptr<ControlServer>> ControlServer::Start(
    const std::string& path, SessionService* sessions, std::string output,
    const ProcessHistory* history) {
  auto parts = std::make_unique<Parts>();
  parts->service = std::make_unique<Service>(sessions, std::move(output), history);
  grpc::ServerBuilder builder;
  builder.RegisterService(parts->service.get());
  parts->session_api = std::make_unique<SessionApiServer>(sessions);
  builder.RegisterService(parts->session_api.get());
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMostCalls);
  // Few clients call at a time; a program's running session has its own thread.
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::MIN_POLLERS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::MAX_POLLERS, 2);
  parts->server = builder.BuildAndStart();
  if (parts->server == nullptr)
    return absl::InternalError("the gRPC server did not start");
  // gRPC never sees a connection with an untrusted peer.
  auto listener =
      SocketListener::Listen(path, [server = parts->server.get()](UniqueFd peer) {
        grpc::AddInsecureChannelFromFd(server, peer.release());
      });
  if (!listener.ok()) return listener.status();
  parts->listener = *std::move(listener);
  return std::unique_ptr<ControlServer>(new ControlServer(std::move(parts)));
}

ControlServer::ControlServer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

ControlServer::~ControlServer() {
  parts_->listener.reset();
  parts_->session_api->Close();
  parts_->server->Shutdown(std::chrono::system_clock::now() + kLastCalls);
}

}  // namespace rocattach
