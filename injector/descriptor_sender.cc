#include "injector/descriptor_sender.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "injector/fault.h"
#include "userspace/base/control_message.h"
#include "userspace/base/file.h"

namespace rocattach {
namespace {

// Must not begin like the name of a collector's shared memory.
constexpr char kReportName[] = "librocattach-report";

AttachFailure NoSocket(absl::string_view call, int64_t result) {
  const int error = static_cast<int>(-result);
  const bool is_limit = error == EMFILE || error == ENFILE || error == ENOMEM;
  return {is_limit ? AttachReason::kResourceLimit : AttachReason::kCollectorMissing,
          error,
          absl::StrCat(
              call, " of a Unix socket failed in the process: ", strerrorname_np(error),
              is_limit ? "; it may open too few files (RLIMIT_NOFILE, ulimit "
                         "-n)"
                       : "; a seccomp filter or a security module forbids "
                         "it")};
}

AttachFailure NotSent(absl::string_view call, int error) {
  return FailureFromErrno(error, AttachReason::kNotPermitted,
                          absl::StrCat(call, ": ", strerrorname_np(error)));
}

StepResult RunToSocket(const DescriptorReceiver& receiver, uint64_t deadline_ns,
                       bool shares_cpu) {
  const uint64_t made = (receiver.stub + StubSocketMade()).value();
  const uint64_t bound = (receiver.stub + StubSocketBound()).value();
  for (;;) {
    SystemCallStop stop;
    RETURN_IF_FAILED(receiver.tracee->RunToSystemCall(deadline_ns, shares_cpu, &stop));
    // Other stops belong to earlier calls of the stub, or to a signal handler.
    if (stop.ip == bound && !stop.at_end) (void)FaultAt("bind-entry");
    if (!stop.at_end) continue;
    if (stop.ip == made && stop.result < 0) return NoSocket("socket", stop.result);
    if (stop.ip != bound) continue;
    (void)FaultAt("socket-bound");
    return stop.result < 0 ? NoSocket("bind", stop.result) : StepOk();
  }
}

// Moves the calling thread to another network namespace, to make a socket there: names
// of sockets belong to a namespace.
class NetworkVisit {
 public:
  StepResult Begin(pid_t tid) {
    struct stat own, theirs;
    const std::string path = absl::StrCat("/proc/", tid, "/ns/net");
    if (stat("/proc/thread-self/ns/net", &own) != 0 ||
        stat(path.c_str(), &theirs) != 0) {
      return NotSent(absl::StrCat("stat(", path, ")"), errno);
    }
    if (own.st_ino == theirs.st_ino) return StepOk();
    auto home = OpenFile("/proc/thread-self/ns/net", O_RDONLY);
    auto away = OpenFile(path, O_RDONLY);
    if (!home.ok() || !away.ok()) {
      return FailureFromStatus(home.ok() ? away.status() : home.status(),
                               AttachReason::kNotPermitted);
    }
    if (setns(away->get(), CLONE_NEWNET) != 0) {
      return NotSent(absl::StrCat("setns(", path, ")"), errno);
    }
    home_ = *std::move(home);
    return StepOk();
  }
  // False if the thread could not return.
  bool End() { return !home_.valid() || setns(home_.get(), CLONE_NEWNET) == 0; }

 private:
  UniqueFd home_;
};

StepResult MakeSocket(pid_t tid, UniqueFd* socket_fd) {
  NetworkVisit visit;
  RETURN_IF_FAILED(visit.Begin(tid));
  socket_fd->reset(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const int error = errno;
  if (!visit.End()) {
    // Nothing else that this thread does depends on its network namespace.
    return NotSent("setns to the service's own network namespace", errno);
  }
  return socket_fd->valid() ? StepOk() : NotSent("socket", error);
}

// The file has a fixed size, so that a target cannot use more of our memory.
StepResult MakeReport(UniqueFd* report) {
  report->reset(memfd_create(kReportName, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!report->valid() ||
      ftruncate(report->get(), static_cast<off_t>(StubErrorBytes())) != 0 ||
      fcntl(report->get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) !=
          0) {
    return NotSent("memfd_create", errno);
  }
  return StepOk();
}

StepResult Send(const StubSocket& to, int socket_fd, int descriptor, int report) {
  socklen_t address_bytes = 0;
  const sockaddr_un address = to.Address(&address_bytes);
  const int descriptors[2] = {descriptor, report};
  const int error = SendWithControl(socket_fd, address, address_bytes, BytesOf(to.key),
                                    SCM_RIGHTS, BytesOf(descriptors));
  return error == 0 ? StepOk() : NotSent("sendmsg", error);
}

}  // namespace

StepResult SendDescriptor(const DescriptorReceiver& receiver, int descriptor,
                          uint64_t deadline_ns, bool shares_cpu, UniqueFd* report) {
  RETURN_IF_FAILED(RunToSocket(receiver, deadline_ns, shares_cpu));
  UniqueFd socket_fd;
  RETURN_IF_FAILED(MakeSocket(receiver.tid, &socket_fd));
  RETURN_IF_FAILED(MakeReport(report));
  if (FaultAt("send")) return NotSent("sendmsg", EIO);
  RETURN_IF_FAILED(Send(receiver.socket, socket_fd.get(), descriptor, report->get()));
  (void)FaultAt("after-send");
  return StepOk();
}

std::string ReadLoadError(int report) {
  std::string text(StubErrorBytes(), '\0');
  const ssize_t bytes = pread(report, text.data(), text.size(), 0);
  text.resize(bytes > 0 ? strnlen(text.data(), static_cast<size_t>(bytes)) : 0);
  return text;
}

}  // namespace rocattach
