#include "userspace/watch/late/followed_processes.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>

#include "absl/strings/str_cat.h"
#include "bpf/watch_events.h"
#include "userspace/base/errno_status.h"

namespace rocattach {
namespace {

rocattach_followed_key FollowedKey(const ProcessId& process) {
  return {static_cast<uint32_t>(process.pid), 0, process.start_ticks};
}

}  // namespace

absl::Status FollowedProcesses::Add(const ProcessId& process, Kind kind) {
  const rocattach_followed_key key = FollowedKey(process);
  const uint8_t how =
      static_cast<uint8_t>((kind.itself ? ROCATTACH_FOLLOW_WINDOW : 0) |
                           (kind.children ? ROCATTACH_FOLLOW_CHILDREN : 0));
  if (bpf_map__update_elem(map_, &key, sizeof(key), &how, sizeof(how), BPF_ANY) != 0) {
    return ErrnoStatus(
        errno, absl::StrCat("bpf_map_update_elem(followed, ", process.pid, ") failed"));
  }
  return absl::OkStatus();
}

bool FollowedProcesses::Contains(const ProcessId& process) const {
  const rocattach_followed_key key = FollowedKey(process);
  uint8_t how = 0;
  return bpf_map__lookup_elem(map_, &key, sizeof(key), &how, sizeof(how), 0) == 0;
}

std::vector<ProcessId> FollowedProcesses::List() const {
  std::vector<ProcessId> processes;
  rocattach_followed_key key = {}, next = {};
  const void* previous = nullptr;
  while (bpf_map__get_next_key(map_, previous, &next, sizeof(next)) == 0) {
    key = next;
    previous = &key;
    processes.push_back({static_cast<pid_t>(key.pid), key.start_ticks});
  }
  return processes;
}

}  // namespace rocattach
