#include "userspace/control/sessions_handler.h"

#include <unistd.h>

#include <chrono>
#include <vector>

#include "absl/strings/str_cat.h"
#include "userspace/base/process.h"
#include "userspace/base/session_status.h"
#include "userspace/base/status_macros.h"
#include "userspace/base/version.h"
#include "userspace/control/run_names.h"
#include "userspace/control/service_wire.h"
#include "userspace/control/session_wire.h"
#include "userspace/session/session_runner.h"
#include "userspace/watch/late/running_process.h"

namespace rocattach {
namespace {

// Time after which a client that has gone is noticed while nothing is collected.
constexpr std::chrono::milliseconds kTick(10);

absl::Status RunEnded(const v1::SessionNumber& number) {
  return SessionError(SessionStatus::kSessionNotActive,
                      absl::StrCat("session ", number.session(), " has ended"));
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

absl::StatusOr<std::shared_ptr<SessionsHandler::ActiveRun>> SessionsHandler::NewRun() {
  absl::MutexLock lock(&mutex_);
  if (closed_) return ServiceIsEnding();
  if (runs_.size() >= kMostRuns) {
    return SessionError(SessionStatus::kError,
                        absl::StrCat("the service has ", kMostRuns,
                                     " active sessions of programs, and accepts no "
                                     "more"));
  }
  return *runs_.insert(std::make_shared<ActiveRun>()).first;
}

void SessionsHandler::Remove(const std::shared_ptr<ActiveRun>& run) {
  absl::MutexLock lock(&mutex_);
  runs_.erase(run);
}

std::shared_ptr<SessionsHandler::ActiveRun> SessionsHandler::Find(
    const v1::SessionNumber& number) {
  absl::MutexLock lock(&mutex_);
  for (const std::shared_ptr<ActiveRun>& run : runs_) {
    if (run->session == number.session()) return run;
  }
  return nullptr;
}

absl::StatusOr<std::shared_ptr<SessionsHandler::ActiveRun>> SessionsHandler::StartRun(
    const v1::SessionRequest& request) {
  ASSIGN_OR_RETURN(SessionRequest spec,
                   RequestFromProto(request, sessions_->catalog()));
  ASSIGN_OR_RETURN(std::shared_ptr<ActiveRun> run, NewRun());
  spec.names = std::make_shared<SessionTargetNames>();
  // Its queue is a part of the run, and keeps it alive.
  spec.consumer = std::make_shared<QueueWriter>(
      std::shared_ptr<RunQueue>(run, &run->queue), spec.names);
  spec.over = [run] { run->queue.Close(); };
  const auto session = sessions_->Start(std::move(spec));
  if (!session.ok()) {
    Remove(run);
    return session.status();
  }
  run->session = *session;
  return run;
}

absl::StatusOr<std::shared_ptr<SessionsHandler::ActiveRun>>
SessionsHandler::StartDevice(const v1::RunDeviceRequest& request) {
  ASSIGN_OR_RETURN(std::shared_ptr<ActiveRun> run, NewRun());
  auto device = sessions_->StartDevice(
      {request.counters().begin(), request.counters().end()}, request.gpu_key());
  if (!device.ok()) {
    Remove(run);
    return device.status();
  }
  absl::MutexLock lock(&run->device_mutex);
  run->device = std::move(device->run);
  run->session = device->number;
  return run;
}

absl::Status SessionsHandler::End(ActiveRun* run) {
  {
    absl::MutexLock lock(&run->device_mutex);
    if (run->device != nullptr) {
      run->queue.Close();
      return std::exchange(run->device, nullptr)->Stop();
    }
  }
  return sessions_->Stop(run->session);
}

void SessionsHandler::Close() {
  absl::MutexLock lock(&mutex_);
  closed_ = true;
  for (const std::shared_ptr<ActiveRun>& run : runs_) run->queue.Close();
}

grpc::Status SessionsHandler::Pump(
    grpc::ServerContext* context,
    const absl::StatusOr<std::shared_ptr<ActiveRun>>& started,
    grpc::ServerWriter<v1::RunEvent>* writer) {
  if (!started.ok()) return ToGrpc(started.status());
  ActiveRun& run = **started;
  v1::RunEvent first;
  first.set_started(run.session);
  bool reading = writer->Write(first);
  while (reading && !context->IsCancelled() && !run.queue.finished()) {
    const auto event = run.queue.Pop(kTick);
    if (event.has_value()) reading = writer->Write(*event);
  }
  bool is_ending;
  {
    absl::MutexLock lock(&mutex_);
    is_ending = closed_;
  }
  // If the client is gone, nothing else would end the session.
  if (is_ending || !run.queue.finished()) End(&run).IgnoreError();
  Remove(*started);
  if (!is_ending) return grpc::Status::OK;
  return {grpc::StatusCode::ABORTED, "the service has ended the session"};
}

grpc::Status SessionsHandler::Hello(grpc::ServerContext*, const v1::HelloRequest*,
                                    v1::HelloResponse* response) {
  response->set_version(ROCATTACH_VERSION);
  response->set_protocol(kSessionProtocol);
  return grpc::Status::OK;
}

grpc::Status SessionsHandler::CheckFilter(grpc::ServerContext*,
                                          const v1::Filter* filter,
                                          v1::CheckFilterResponse*) {
  return ToGrpc(sessions_->CheckFilter(FilterFromProto(*filter)));
}

grpc::Status SessionsHandler::FindProcess(grpc::ServerContext*,
                                          const v1::ProcessIdentity* request,
                                          v1::ProcessIdentity* response) {
  const auto target = sessions_->targets()->FindTarget(FromProto(*request).pid);
  if (!target.ok()) {
    return ToGrpc(
        SessionError(SessionStatus::kInvalidArguments, target.status().message()));
  }
  *response = ToProto(*target);
  return grpc::Status::OK;
}

grpc::Status SessionsHandler::Start(grpc::ServerContext*,
                                    const v1::SessionRequest* request,
                                    v1::StartResponse* response) {
  auto spec = RequestFromProto(*request, sessions_->catalog());
  if (!spec.ok()) return ToGrpc(spec.status());
  const absl::StatusOr<uint64_t> started = sessions_->Start(*std::move(spec));
  if (!started.ok()) return ToGrpc(started.status());
  response->set_session(*started);
  for (const SessionInfo& info : sessions_->List()) {
    if (info.number == *started) *response->mutable_status() = StatusToProto(info);
  }
  return grpc::Status::OK;
}

grpc::Status SessionsHandler::Run(grpc::ServerContext* context,
                                  const v1::SessionRequest* request,
                                  grpc::ServerWriter<v1::RunEvent>* writer) {
  return Pump(context, StartRun(*request), writer);
}

grpc::Status SessionsHandler::Stop(grpc::ServerContext*,
                                   const v1::SessionNumber* request,
                                   v1::StopResponse*) {
  const std::shared_ptr<ActiveRun> run = Find(*request);
  return ToGrpc(run != nullptr ? End(run.get()) : sessions_->Stop(request->session()));
}

grpc::Status SessionsHandler::Drain(grpc::ServerContext*,
                                    const v1::SessionNumber* request,
                                    v1::DrainResponse* response) {
  const std::shared_ptr<ActiveRun> run = Find(*request);
  if (run == nullptr) return ToGrpc(RunEnded(*request));
  const absl::Status drained = sessions_->Flush(request->session());
  response->set_total(run->queue.total());
  return ToGrpc(drained);
}

grpc::Status SessionsHandler::CheckDevice(grpc::ServerContext*,
                                          const v1::CheckDeviceRequest* request,
                                          v1::CheckDeviceResponse* response) {
  const std::vector<std::string> counters(request->counters().begin(),
                                          request->counters().end());
  const auto key = sessions_->CheckDevice(counters, request->gpu_index());
  if (!key.ok()) return ToGrpc(key.status());
  response->set_gpu_key(*key);
  return grpc::Status::OK;
}

grpc::Status SessionsHandler::RunDevice(grpc::ServerContext* context,
                                        const v1::RunDeviceRequest* request,
                                        grpc::ServerWriter<v1::RunEvent>* writer) {
  return Pump(context, StartDevice(*request), writer);
}

grpc::Status SessionsHandler::PollDevice(grpc::ServerContext*,
                                         const v1::SessionNumber* request,
                                         v1::DeviceValues* response) {
  const std::shared_ptr<ActiveRun> run = Find(*request);
  if (run == nullptr) return ToGrpc(RunEnded(*request));
  absl::MutexLock lock(&run->device_mutex);
  if (run->device == nullptr) return ToGrpc(RunEnded(*request));
  const auto values = run->device->Poll();
  if (!values.ok()) return ToGrpc(values.status());
  response->mutable_values()->Add(values->begin(), values->end());
  return grpc::Status::OK;
}

grpc::Status SessionsHandler::GetStatus(grpc::ServerContext*,
                                        const v1::GetStatusRequest*,
                                        v1::GetStatusResponse* response) {
  for (const SessionInfo& info : sessions_->List()) {
    *response->add_sessions() = StatusToProto(info);
  }
  for (ProcessId target : sessions_->targets()->Targets()) {
    const auto description = sessions_->targets()->Describe(target);
    if (!description.ok()) continue;  // it has just ended
    *response->add_processes() = AttachedToProto(target, *description);
  }
  response->set_version(ROCATTACH_VERSION);
  response->set_pid(static_cast<uint32_t>(getpid()));
  response->set_output(output_);
  return grpc::Status::OK;
}

grpc::Status SessionsHandler::GetHistory(grpc::ServerContext*,
                                         const v1::GetHistoryRequest* request,
                                         v1::GetHistoryResponse* response) {
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

}  // namespace rocattach
