#include "injector/descriptor_sender.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "injector/fault.h"
#include "injector/stub.h"
#include "injector/stub_frame.h"

namespace rocattach {
namespace {

// linux/pidfd.h of Linux 6.9. Without it a process ID is needed.
constexpr unsigned kPidfdThread = O_EXCL;

AttachFailure NoSockets(int error) {
  const bool is_limit = error == EMFILE || error == ENFILE || error == ENOMEM;
  return {is_limit ? AttachReason::kResourceLimit : AttachReason::kCollectorMissing,
          error,
          absl::StrCat("socketpair failed in the process: ", strerrorname_np(error),
                       is_limit ? "; it may open too few files (RLIMIT_NOFILE, ulimit "
                                  "-n)"
                                : "; a seccomp filter forbids it")};
}

AttachFailure NotSent(absl::string_view call, int error) {
  return FailureFromErrno(error, AttachReason::kNotPermitted,
                          absl::StrCat(call, ": ", strerrorname_np(error)));
}

StepResult RunToSockets(const DescriptorReceiver& receiver, uint64_t deadline_ns,
                        bool shares_cpu) {
  const uint64_t made = (receiver.stub + StubSocketsMade()).value();
  for (;;) {
    SystemCallStop stop;
    RETURN_IF_FAILED(receiver.tracee->RunToSystemCall(deadline_ns, shares_cpu, &stop));
    // Others are the stub's earlier ones, or those of a signal handler.
    if (stop.ip != made) continue;
    if (!stop.at_end) {
      (void)FaultAt("sockets-entry");
      continue;
    }
    (void)FaultAt("sockets-made");
    if (stop.result < 0) return NoSockets(static_cast<int>(-stop.result));
    return StepOk();
  }
}

// The target may have put anything else there by now. A datagram of ours harms nobody
// in a socket of its own making, but must reach no other kind of socket.
bool IsOurs(int socket, pid_t pid) {
  int domain = 0, type = 0;
  ucred maker = {};
  socklen_t domain_bytes = sizeof(domain), type_bytes = sizeof(type);
  socklen_t maker_bytes = sizeof(maker);
  return getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &domain, &domain_bytes) == 0 &&
         getsockopt(socket, SOL_SOCKET, SO_TYPE, &type, &type_bytes) == 0 &&
         getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &maker, &maker_bytes) == 0 &&
         domain == AF_UNIX && type == SOCK_DGRAM && maker.pid == pid;
}

StepResult FetchSocket(const DescriptorReceiver& receiver, UniqueFd* socket) {
  int ends[2] = {-1, -1};
  absl::Status status = receiver.memory->Read(
      receiver.stack_pointer - StubSocketsBelow(), ends, sizeof(ends));
  if (!status.ok()) return FailureFromStatus(status, AttachReason::kMemoryAccess);
  // The thread may have a descriptor table of its own.
  UniqueFd thread(
      static_cast<int>(syscall(SYS_pidfd_open, receiver.tid, kPidfdThread)));
  if (!thread.valid()) {
    thread.reset(static_cast<int>(syscall(SYS_pidfd_open, receiver.pid, 0)));
  }
  if (!thread.valid()) return NotSent("pidfd_open", errno);
  socket->reset(static_cast<int>(syscall(SYS_pidfd_getfd, thread.get(), ends[0], 0)));
  if (!socket->valid()) return NotSent("pidfd_getfd", errno);
  if (IsOurs(socket->get(), receiver.pid)) return StepOk();
  socket->reset();
  return AttachFailure{
      AttachReason::kInternal, 0,
      absl::StrCat("descriptor ", ends[0], " of the process is not the stub's socket")};
}

StepResult Send(int socket, int descriptor) {
  char contents = 0;
  iovec vector = {&contents, sizeof(contents)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
  if (sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) != sizeof(contents)) {
    return NotSent("sendmsg", errno);
  }
  return StepOk();
}

}  // namespace

StepResult SendDescriptor(const DescriptorReceiver& receiver, int descriptor,
                          uint64_t deadline_ns, bool shares_cpu, UniqueFd* socket) {
  RETURN_IF_FAILED(RunToSockets(receiver, deadline_ns, shares_cpu));
  RETURN_IF_FAILED(FetchSocket(receiver, socket));
  if (FaultAt("send")) return NotSent("sendmsg", EIO);
  RETURN_IF_FAILED(Send(socket->get(), descriptor));
  (void)FaultAt("after-send");
  return StepOk();
}

std::string ReadLoadError(int socket) {
  std::string text(STUB_ERROR_BYTES, '\0');
  const ssize_t bytes = recv(socket, text.data(), text.size(), MSG_DONTWAIT);
  text.resize(bytes > 0 ? static_cast<size_t>(bytes) : 0);
  return text;
}

}  // namespace rocattach
