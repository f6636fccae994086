// A call at which a thread is stopped without a probe: the kernel sends the signal
// because of urgent data, and the signal looks the same to a tracer.
#ifndef ROCATTACH_TESTS_INTEGRATION_INJECTOR_URGENT_CALL_H_
#define ROCATTACH_TESTS_INTEGRATION_INJECTOR_URGENT_CALL_H_

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <optional>

#include "injector/call_entry.h"
#include "userspace/base/unique_fd.h"

namespace rocattach {

class UrgentCall : public ProbedCall {
 public:
  explicit UrgentCall(const SeenCall& call) : seen_(call) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    socklen_t bytes = sizeof(address);
    const UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sender_.reset(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (bind(listener.get(), generic, bytes) != 0 || listen(listener.get(), 1) != 0 ||
        getsockname(listener.get(), generic, &bytes) != 0 ||
        connect(sender_.get(), generic, bytes) != 0) {
      return;
    }
    receiver_.reset(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    f_owner_ex owner = {F_OWNER_TID, call.tid};
    usable_ = fcntl(receiver_.get(), F_SETOWN_EX, &owner) == 0;
  }

  bool usable() const { return usable_; }
  // From now on the thread makes no calls.
  void EndCalls() { silent_ = true; }
  int armed() const { return armed_; }
  // Sends the signal; when a test calls this, as an unrelated sender would.
  void SendSignal() { (void)send(sender_.get(), "!", 1, MSG_OOB); }

  std::optional<SeenCall> Seen() override { return seen_; }
  bool IsAwaited() override { return true; }
  void Arm() override {
    ++armed_;
    if (silent_) return;
    stopping_ = true;
    SendSignal();
  }
  bool IsStopping() override { return stopping_; }
  bool Disarm() override { return !stopping_; }

 private:
  const SeenCall seen_;
  UniqueFd sender_, receiver_;
  bool usable_ = false;
  bool silent_ = false;
  bool stopping_ = false;
  int armed_ = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_TESTS_INTEGRATION_INJECTOR_URGENT_CALL_H_
