#include "userspace/watch/discovery/mmap_wakeups.h"

#include <bpf/libbpf.h>
#include <errno.h>

#include "bpf/mapped.skel.h"
#include "userspace/base/errno_status.h"

namespace rocattach {
namespace {

class KernelWakeups : public MmapWakeups {
 public:
  ~KernelWakeups() override {
    ring_buffer__free(ring_);
    mapped_bpf__destroy(skeleton_);
  }

  absl::Status Attach() {
    skeleton_ = mapped_bpf__open();
    if (skeleton_ == nullptr) return ErrnoStatus(errno, "mapped_bpf__open() failed");
    if (const int rc = mapped_bpf__load(skeleton_); rc != 0) {
      return ErrnoStatus(-rc, "loading the program for perf_event_mmap() failed");
    }
    if (const int rc = mapped_bpf__attach(skeleton_); rc != 0) {
      return ErrnoStatus(-rc, "attaching to the end of perf_event_mmap() failed");
    }
    ring_ = ring_buffer__new(
        bpf_map__fd(skeleton_->maps.wakeups), [](void*, void*, size_t) { return 0; },
        nullptr, nullptr);
    if (ring_ == nullptr) return ErrnoStatus(errno, "ring_buffer__new() failed");
    return absl::OkStatus();
  }

  int fd() const override { return bpf_map__fd(skeleton_->maps.wakeups); }
  void Clear() override { (void)ring_buffer__consume(ring_); }

 private:
  mapped_bpf* skeleton_ = nullptr;
  ring_buffer* ring_ = nullptr;
};

}  // namespace

absl::StatusOr<std::unique_ptr<MmapWakeups>> MmapWakeups::Open() {
  auto wakeups = std::make_unique<KernelWakeups>();
  if (absl::Status status = wakeups->Attach(); !status.ok()) return status;
  return wakeups;
}

}  // namespace rocattach
