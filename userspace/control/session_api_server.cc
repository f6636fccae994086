#include "userspace/control/session_api_server.h"

#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "userspace/base/clock.h"
#include "userspace/base/session_status.h"
#include "userspace/base/version.h"
#include "userspace/control/run_names.h"
#include "userspace/control/session_wire.h"
#include "userspace/session/session_runner.h"

namespace rocattach {
namespace {

// Time after which a client that has gone is noticed while nothing is collected.
constexpr std::chrono::milliseconds kTick(10);

// The status for a client. A service that is ending has closed its sessions: to a
// client, NOT_INITIALIZED would mean its own library.
grpc::Status Answer(const absl::Status& status) {
  if (!status.ok() && SessionStatusOf(status) == SessionStatus::kNotInitialized) {
    return ToGrpc(SessionError(SessionStatus::kError, kServiceEnding));
  }
  return ToGrpc(status);
}

absl::Status RunEnded(uint64_t run) {
  return SessionError(SessionStatus::kSessionNotActive,
                      absl::StrCat("run ", run, " has ended"));
}

// Writes the records of a session to the queue of its run, after the names that they
// need.
class QueueWriter : public RecordConsumer {
 public:
  QueueWriter(std::shared_ptr<RunQueue> queue,
              std::shared_ptr<const SessionTargetNames> known)
      : queue_(std::move(queue)), known_(std::move(known)) {}

  void Consume(const RecordHeader* begin, const RecordHeader* end) override {
    for (v1::RunNames& names : sent_.For(begin, end, known_.get())) {
      queue_->PushNames(std::move(names));
    }
    queue_->PushRecords(begin, end);
  }
  void TargetEnded(ProcessId target) override {
    sent_.Ended(target.pid);
    queue_->PushEnded(target);
  }

 private:
  const std::shared_ptr<RunQueue> queue_;
  const std::shared_ptr<const SessionTargetNames> known_;
  RunNames sent_;  // names that the client has
};

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
  return RunEnded(number.run());
}

absl::Status SessionApiServer::End(ActiveRun* run) {
  if (!run->is_device) return sessions_->Stop(run->session);
  run->queue.Close();
  absl::MutexLock lock(&run->device_mutex);
  if (run->device == nullptr) return RunEnded(run->number);
  return std::exchange(run->device, nullptr)->Stop();
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
  first.mutable_started()->set_session(run->session);
  bool reading = writer->Write(first);
  while (reading && !context->IsCancelled() && !run->queue.finished()) {
    const auto event = run->queue.Pop(kTick);
    if (event.has_value()) reading = writer->Write(*event);
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
  return Answer(sessions_->CheckFilter(FilterFromProto(*filter)));
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
  spec.names = std::make_shared<SessionTargetNames>();
  // Its queue is a part of the run, and keeps it alive.
  spec.consumer = std::make_shared<QueueWriter>(
      std::shared_ptr<RunQueue>(*run, &(*run)->queue), spec.names);
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
  const auto key = sessions_->CheckDevice(counters, request->gpu_index());
  if (!key.ok()) return Answer(key.status());
  response->set_gpu_key(*key);
  return grpc::Status::OK;
}

grpc::Status SessionApiServer::RunDevice(grpc::ServerContext* context,
                                         const v1::RunDeviceRequest* request,
                                         grpc::ServerWriter<v1::RunEvent>* writer) {
  auto run = NewRun();
  if (!run.ok()) return Answer(run.status());
  auto device = sessions_->StartDevice(
      {request->counters().begin(), request->counters().end()}, request->gpu_key());
  if (!device.ok()) {
    absl::MutexLock lock(&mutex_);
    runs_.erase((*run)->number);
    return Answer(device.status());
  }
  (*run)->session = device->number;
  (*run)->is_device = true;
  {
    absl::MutexLock lock(&(*run)->device_mutex);
    (*run)->device = std::move(device->run);
  }
  return Pump(context, run->get(), writer);
}

grpc::Status SessionApiServer::PollDevice(grpc::ServerContext*,
                                          const v1::RunNumber* request,
                                          v1::DeviceValues* response) {
  const auto run = Find(*request);
  if (!run.ok()) return Answer(run.status());
  absl::MutexLock lock(&(*run)->device_mutex);
  if ((*run)->device == nullptr) return Answer(RunEnded(request->run()));
  const auto values = (*run)->device->Poll();
  if (!values.ok()) return Answer(values.status());
  response->mutable_values()->Add(values->begin(), values->end());
  return grpc::Status::OK;
}

}  // namespace rocattach
