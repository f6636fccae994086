#include "userspace/control/session_api_server.h"

#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "userspace/base/clock.h"
#include "userspace/base/session_status.h"
#include "userspace/base/version.h"
#include "userspace/control/session_wire.h"
#include "userspace/session/engine_state.h"

namespace rocattach {
namespace {

// Maximum time for which a record waits in the service to be sent with others.
constexpr std::chrono::milliseconds kTick(10);

// The status for a client. A service that is ending has closed its sessions: to a
// client, NOT_INITIALIZED would mean its own library.
grpc::Status Answer(const absl::Status& status) {
  if (!status.ok() && SessionStatusOf(status) == SessionStatus::kNotInitialized) {
    return ToGrpc(SessionError(SessionStatus::kError, kServiceEnding));
  }
  return ToGrpc(status);
}

}  // namespace

absl::StatusOr<std::shared_ptr<SessionApiServer::ActiveRun>>
SessionApiServer::NewRun() {
  absl::MutexLock lock(&mutex_);
  if (closed_) return absl::UnavailableError(kServiceEnding);
  if (runs_.size() >= kMostRuns) {
    return SessionError(SessionStatus::kError,
                        absl::StrCat("the service has ", kMostRuns,
                                     " active sessions of programs, and accepts no "
                                     "more"));
  }
  auto run = std::make_shared<ActiveRun>();
  run->number = ++last_run_;
  runs_[run->number] = run;
  return run;
}

absl::StatusOr<std::shared_ptr<SessionApiServer::ActiveRun>> SessionApiServer::Find(
    const v1::RunNumber& number) {
  absl::MutexLock lock(&mutex_);
  auto found = runs_.find(number.run());
  if (found != runs_.end()) return found->second;
  return SessionError(SessionStatus::kSessionNotActive,
                      absl::StrCat("run ", number.run(), " has ended"));
}

absl::Status SessionApiServer::End(ActiveRun* run) {
  if (run->device == SessionId()) return sessions_->Stop(run->session);
  SessionEngine& engine = sessions_->engine();
  absl::Status stopped = engine.devices().Stop(run->device);
  engine.devices().Destroy(run->device).IgnoreError();  // it may be gone already
  run->queue.Close();
  return stopped;
}

void SessionApiServer::Close() {
  std::map<uint64_t, std::shared_ptr<ActiveRun>> runs;
  {
    absl::MutexLock lock(&mutex_);
    closed_ = true;
    runs = runs_;
  }
  for (const auto& [number, run] : runs) run->queue.Close();
}

grpc::Status SessionApiServer::Pump(grpc::ServerContext* context, ActiveRun* run,
                                    grpc::ServerWriter<v1::RunEvent>* writer) {
  v1::RunEvent first;
  first.mutable_started()->set_run(run->number);
  first.mutable_started()->set_session(
      run->device == SessionId() ? run->session : Number(run->device));
  bool reading = writer->Write(first);
  auto ticked = std::chrono::steady_clock::now();
  while (reading && !context->IsCancelled() && !run->queue.finished()) {
    const auto event = run->queue.Pop(kTick);
    if (event.has_value()) reading = writer->Write(*event);
    if (const auto now = std::chrono::steady_clock::now(); now - ticked >= kTick) {
      ticked = now;
      sessions_->engine().buffers().Tick(BootNs());
    }
  }
  // If the client is gone, nothing else would end the run.
  if (!run->asked) End(run).IgnoreError();
  absl::MutexLock lock(&mutex_);
  runs_.erase(run->number);
  if (run->asked) return grpc::Status::OK;
  return {grpc::StatusCode::ABORTED, "the service has ended the session"};
}

grpc::Status SessionApiServer::Hello(grpc::ServerContext*, const v1::HelloRequest*,
                                     v1::HelloResponse* response) {
  response->set_version(ROCATTACH_VERSION);
  response->set_record_layout(kRecordFormat);
  return grpc::Status::OK;
}

grpc::Status SessionApiServer::CheckFilter(grpc::ServerContext*,
                                           const v1::Filter* filter,
                                           v1::CheckFilterResponse*) {
  return Answer(sessions_->engine().filters().Check(FilterFromProto(*filter)));
}

grpc::Status SessionApiServer::FindProcess(grpc::ServerContext*,
                                           const v1::FindProcessRequest* request,
                                           v1::TargetProcess* response) {
  const auto target =
      sessions_->targets()->FindTarget(static_cast<pid_t>(request->pid()));
  if (!target.ok()) {
    return Answer(
        SessionError(SessionStatus::kInvalidArguments, target.status().message()));
  }
  *response = ToProto(*target);
  return grpc::Status::OK;
}

grpc::Status SessionApiServer::Run(grpc::ServerContext* context,
                                   const v1::RunRequest* request,
                                   grpc::ServerWriter<v1::RunEvent>* writer) {
  auto run = NewRun();
  if (!run.ok()) return Answer(run.status());
  SessionRequest spec;
  for (const v1::Filter& filter : request->filters()) {
    spec.filters.push_back(FilterFromProto(filter));
  }
  for (const v1::TargetProcess& process : request->processes()) {
    spec.targets.push_back(FromProto(process));
  }
  spec.records = [run = *run, engine = &sessions_->engine()](
                     const RecordHeader* begin, const RecordHeader* end,
                     SessionId session, BufferId) {
    const auto known = engine->TargetNamesOf(session);
    for (v1::RunNames& names : run->names.For(begin, end, known.get())) {
      run->queue.PushNames(std::move(names));
    }
    run->queue.PushRecords(begin, end);
  };
  spec.process_ended = [run = *run](ProcessId target) {
    run->names.Ended(target.pid);
    run->queue.PushEnded(target);
  };
  spec.over = [run = *run] { run->queue.Close(); };
  const auto session = sessions_->Start(std::move(spec));
  if (!session.ok()) {
    absl::MutexLock lock(&mutex_);
    runs_.erase((*run)->number);
    return Answer(session.status());
  }
  (*run)->session = *session;
  return Pump(context, run->get(), writer);
}

grpc::Status SessionApiServer::StopRun(grpc::ServerContext*,
                                       const v1::RunNumber* request,
                                       v1::StopRunResponse*) {
  const auto run = Find(*request);
  if (!run.ok()) return Answer(run.status());
  (*run)->asked = true;
  return Answer(End(run->get()));
}

grpc::Status SessionApiServer::DrainRun(grpc::ServerContext*,
                                        const v1::RunNumber* request,
                                        v1::DrainRunResponse* response) {
  const auto run = Find(*request);
  if (!run.ok()) return Answer(run.status());
  const absl::Status drained = sessions_->Flush((*run)->session);
  response->set_total((*run)->queue.total());
  return Answer(drained);
}

grpc::Status SessionApiServer::CheckDevice(grpc::ServerContext*,
                                           const v1::CheckDeviceRequest* request,
                                           v1::CheckDeviceResponse* response) {
  const std::vector<std::string> counters(request->counters().begin(),
                                          request->counters().end());
  const auto key = sessions_->engine().devices().Check(counters, request->gpu_index());
  if (!key.ok()) return Answer(key.status());
  response->set_gpu_key(*key);
  return grpc::Status::OK;
}

grpc::Status SessionApiServer::RunDevice(grpc::ServerContext* context,
                                         const v1::RunDeviceRequest* request,
                                         grpc::ServerWriter<v1::RunEvent>* writer) {
  auto run = NewRun();
  if (!run.ok()) return Answer(run.status());
  SessionEngine& engine = sessions_->engine();
  (*run)->device = engine.devices().Add(
      {request->counters().begin(), request->counters().end()}, request->gpu_key());
  sessions_->Yield();
  const absl::Status started = engine.devices().Start((*run)->device);
  if (!started.ok()) {
    engine.devices().Destroy((*run)->device).IgnoreError();
    absl::MutexLock lock(&mutex_);
    runs_.erase((*run)->number);
    return Answer(started);
  }
  return Pump(context, run->get(), writer);
}

grpc::Status SessionApiServer::PollDevice(grpc::ServerContext*,
                                          const v1::RunNumber* request,
                                          v1::DeviceValues* response) {
  const auto run = Find(*request);
  if (!run.ok()) return Answer(run.status());
  const auto values = sessions_->engine().devices().Poll((*run)->device);
  if (!values.ok()) return Answer(values.status());
  response->mutable_values()->Add(values->begin(), values->end());
  return grpc::Status::OK;
}

}  // namespace rocattach
