#include "userspace/collector/common/service_watch.h"

namespace rocattach::collector {
namespace {

constexpr uint64_t kServiceTimeoutNs = 5'000'000'000;

}  // namespace

void ServiceWatch::Check(Process* process, bool recording) {
  Process& p = *process;
  rocattach_control* control = p.memory.control();
  const uint32_t command = LoadAcquire(&control->command);
  if (LoadRelaxed(&p.self_stopped) != 0) {
    if (command != stopped_command_) {
      full_since_ = 0;
      if (LoadAcquire(&control->takeovers) != stopped_takeovers_) {
        StoreRelaxed(&p.forgotten_stop, LoadRelaxed(&p.self_stopped));
      }
      StoreRelease(&p.self_stopped, 0u);
    }
    return;
  }
  const uint32_t takeovers = LoadRelaxed(&control->takeovers);
  const uint64_t dropped = p.rings.Dropped();
  const uint64_t now = BootNs();
  const uint64_t heartbeat = LoadRelaxed(&control->service_heartbeat_ns);
  if (!recording || dropped == dropped_) {
    if (heartbeat > full_since_) full_since_ = 0;
  } else if (full_since_ == 0 || heartbeat > full_since_) {
    full_since_ = now;
  }
  dropped_ = dropped;
  if (recording && full_since_ != 0 && now > full_since_ + kServiceTimeoutNs) {
    stopped_command_ = command;
    stopped_takeovers_ = takeovers;
    StoreRelaxed(&p.self_stopped, next_stop_++);
  }
}

}  // namespace rocattach::collector
