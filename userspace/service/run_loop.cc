#include "userspace/service/run_loop.h"

#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <utility>

#include "userspace/base/clock.h"
#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

constexpr int kTickMsec = 500;
// Used while processes are awaited.
constexpr int kAwaitedTickMsec = 100;

}  // namespace

absl::Status RunLoop::StartCommand(const std::vector<std::string>& command,
                                   const DescriptorLimit& descriptors,
                                   ChildCommand::Output output) {
  ASSIGN_OR_RETURN(command_, ChildCommand::Start(command, descriptors, output));
  return absl::OkStatus();
}

RunEnd RunLoop::Wait(uint64_t duration_ns, const Events& events) {
  RunEnd end;
  const int child_fd = command_ != nullptr ? command_->pidfd() : -1;
  uint64_t deadline_ns = 0;
  for (;;) {
    const uint64_t now = BootNs();
    int timeout = events.awaits_processes != nullptr && events.awaits_processes()
                      ? kAwaitedTickMsec
                      : kTickMsec;
    if (duration_ns != 0 && deadline_ns == 0) {
      const uint64_t began_ns =
          events.duration_began == nullptr ? now : events.duration_began(now);
      if (began_ns != 0) deadline_ns = began_ns + duration_ns;
    }
    if (deadline_ns != 0) {
      if (now >= deadline_ns) {
        end.command_runs_on = command_ != nullptr;
        return end;
      }
      timeout = static_cast<int>(
          std::min<uint64_t>(kTickMsec, (deadline_ns - now) / 1'000'000 + 1));
    }
    const WakeEvent* changed = deadline_ns == 0 ? events.changed : nullptr;
    // poll() ignores an entry without a descriptor.
    pollfd fds[4] = {{stop_.fd(), POLLIN, 0},
                     {child_fd, POLLIN, 0},
                     {events.watched_fd, POLLIN, 0},
                     {changed != nullptr ? changed->fd() : -1, POLLIN, 0}};
    const int ready = poll(fds, 4, timeout);
    if (fds[3].revents != 0) changed->Clear();
    if (events.on_tick != nullptr) events.on_tick();
    ReapOrphans(command_.get());
    if (ready <= 0) continue;
    if (fds[2].revents != 0) events.on_watched();
    if (fds[0].revents != 0 && StopsNow(&end)) return end;
    if (child_fd >= 0 && fds[1].revents != 0) {
      end.command_status = command_->TryWait();
      command_.reset();
      return end;
    }
  }
}

void RunLoop::RequestStop(int forward_signal) {
  forward_signal_ = forward_signal;
  stop_.Signal();
}

bool RunLoop::StopsNow(RunEnd* end) {
  stop_.Clear();
  // The run ends with the command, so the command is asked to end, and waited for. A
  // second request, or one without a command, ends the run at once.
  const bool again = std::exchange(end->interrupted, true);
  if (command_ == nullptr || again) return true;
  if (int number = forward_signal_.load(); number != 0) kill(command_->pid(), number);
  return false;
}

}  // namespace rocattach
