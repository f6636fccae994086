#include "userspace/control/service_connection.h"

#include <grpc/support/time.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "userspace/base/clock.h"
#include "userspace/base/status_macros.h"
#include "userspace/control/service_channel.h"
#include "userspace/control/session_wire.h"

namespace rocattach {
namespace {

// For a service that answers meanwhile: a stop waits for its session's data.
constexpr absl::Duration kLongestCall = absl::Seconds(60);
// Time for which a call waits before the service is asked whether it is there, and time
// limit for its answer.
constexpr absl::Duration kPatience = absl::Seconds(1);
constexpr absl::Duration kAnswerPatience = absl::Seconds(4);
// The same for a service that has recently not answered.
constexpr absl::Duration kShortPatience = absl::Milliseconds(100);
constexpr absl::Duration kShortAnswerPatience = absl::Milliseconds(300);
constexpr absl::Duration kSilence = absl::Seconds(10);

// The monotonic clock: a step of the time of day changes no deadline.
gpr_timespec After(absl::Duration duration) {
  return gpr_time_add(
      gpr_now(GPR_CLOCK_MONOTONIC),
      gpr_time_from_millis(absl::ToInt64Milliseconds(duration), GPR_TIMESPAN));
}

// Descriptors that children of fork() must not keep.
struct Descriptor {
  int fd = -1;
  dev_t device = 0;
  ino_t inode = 0;

  bool IsSame() const {
    struct stat now;
    return fstat(fd, &now) == 0 && now.st_dev == device && now.st_ino == inode;
  }
};

// Global, since handlers of fork() have no argument. Not absl::Mutex: if a child finds
// the mutex locked, it must be able to initialise it again.
struct Closes {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  std::vector<Descriptor> descriptors;  // guarded by mutex
};
Closes& TheCloses() {
  static Closes* closes = new Closes;  // never destroyed: exiting programs may fork
  return *closes;
}

// The list must not be changing while fork() copies it.
void BeforeFork() {
  pthread_mutex_lock(&TheCloses().mutex);
}
void AfterForkInParent() {
  pthread_mutex_unlock(&TheCloses().mutex);
}
void AfterForkInChild() {
  Closes& closes = TheCloses();
  pthread_mutex_init(&closes.mutex, nullptr);
  for (const Descriptor& descriptor : closes.descriptors) {
    if (descriptor.IsSame()) close(descriptor.fd);
  }
  closes.descriptors.clear();  // its own children have nothing to close
}

// Makes children of fork() close their copy of `fd` before fork() returns in them: as
// long as a child has the socket, the other end of the connection would not notice that
// this process has ended. Does not own the descriptor; if it has been closed, and its
// number belongs to another file by now, that file is left alone.
void CloseInChildren(int fd) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, [] {
    TheCloses();
    pthread_atfork(BeforeFork, AfterForkInParent, AfterForkInChild);
  });
  struct stat info;
  if (fstat(fd, &info) != 0) return;
  Closes& closes = TheCloses();
  pthread_mutex_lock(&closes.mutex);
  std::erase_if(closes.descriptors,
                [](const Descriptor& descriptor) { return !descriptor.IsSame(); });
  closes.descriptors.push_back({fd, info.st_dev, info.st_ino});
  pthread_mutex_unlock(&closes.mutex);
}

}  // namespace

void ServiceConnection::SetDeadline(grpc::ClientContext* context) {
  context->set_deadline(After(kLongestCall));
}

bool ServiceConnection::Broke(const grpc::Status& status) {
  // gRPC returns one of these codes if the service's death has closed a connection; the
  // service itself returns neither without details.
  return status.error_details().empty() &&
         (status.error_code() == grpc::StatusCode::UNAVAILABLE ||
          status.error_code() == grpc::StatusCode::UNKNOWN);
}

bool ServiceConnection::silent() const {
  return BootNs() < silent_until_ns_;
}

absl::Duration ServiceConnection::Patience() const {
  return silent() ? kShortPatience : kPatience;
}

void ServiceConnection::SetAnswered(bool answered) {
  silent_until_ns_ =
      answered ? 0
               : BootNs() + static_cast<uint64_t>(absl::ToInt64Nanoseconds(kSilence));
}

grpc::Status ServiceConnection::NoAnswer() const {
  return ToGrpc(absl::UnavailableError(
      absl::StrCat("rocattach-watch at ", socket_,
                   " does not answer: it is stopped, frozen or hangs; continue it "
                   "(kill -CONT) or restart it")));
}

bool ServiceConnection::Answers(Stub* stub) {
  grpc::ClientContext context;
  context.set_deadline(After(silent() ? kShortAnswerPatience : kAnswerPatience));
  v1::HelloResponse response;
  const grpc::Status status = stub->Hello(&context, {}, &response);
  const bool answered = status.error_code() != grpc::StatusCode::DEADLINE_EXCEEDED;
  SetAnswered(answered);
  return answered;
}

bool ServiceConnection::Await(Stub* stub, grpc::CompletionQueue* queue,
                              grpc::ClientContext* context) {
  void* tag = nullptr;
  bool ok = false;
  while (queue->AsyncNext(&tag, &ok, After(Patience())) !=
         grpc::CompletionQueue::GOT_EVENT) {
    if (Answers(stub)) continue;
    context->TryCancel();
    (void)queue->Next(&tag, &ok);
    return false;
  }
  SetAnswered(true);
  return true;
}

absl::StatusOr<std::shared_ptr<ServiceConnection::Stub>> ServiceConnection::Connect() {
  ASSIGN_OR_RETURN(UniqueFd socket, ConnectToSocket(socket_));
  CloseInChildren(socket.get());
  std::shared_ptr<Stub> stub = v1::Sessions::NewStub(ChannelOver(std::move(socket)));
  grpc::ClientContext context;
  context.set_deadline(After(silent() ? kShortAnswerPatience : kAnswerPatience));
  v1::HelloResponse response;
  const grpc::Status status = stub->Hello(&context, {}, &response);
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    SetAnswered(false);
    return FromGrpc(NoAnswer());
  }
  SetAnswered(true);
  RETURN_IF_ERROR(FromGrpc(status));
  if (response.protocol() != kSessionProtocol) {
    return absl::UnimplementedError(
        absl::StrCat("rocattach-watch ", response.version(), " at ", socket_,
                     " has another protocol than this program; use the same version of "
                     "both"));
  }
  return stub;
}

absl::StatusOr<std::shared_ptr<ServiceConnection::Stub>> ServiceConnection::Get(
    bool* is_new) {
  absl::MutexLock lock(&mutex_);
  *is_new = stub_ == nullptr;
  if (stub_ == nullptr) {
    ASSIGN_OR_RETURN(stub_, Connect());
  }
  return stub_;
}

void ServiceConnection::Drop(const std::shared_ptr<Stub>& stub) {
  absl::MutexLock lock(&mutex_);
  if (stub_ == stub) stub_ = nullptr;
}

absl::Status ServiceConnection::Ask(
    const std::function<grpc::Status(const std::shared_ptr<Stub>&)>& call) {
  for (;;) {
    bool is_new = false;
    ASSIGN_OR_RETURN(const std::shared_ptr<Stub> stub, Get(&is_new));
    const grpc::Status status = call(stub);
    if (!reopens_ || !Broke(status)) return FromGrpc(status);
    Drop(stub);
    if (is_new) return FromGrpc(status);
  }
}

}  // namespace rocattach
