#include "userspace/record/drain/ring_views.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "absl/strings/numbers.h"
#include "userspace/base/file.h"
#include "userspace/record/drain/ring_pages.h"

// Linux 5.11; this header may be older.
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

namespace rocattach {
namespace {

// The kernel's default.
constexpr uint64_t kDefaultMappings = 65'530;
constexpr uint64_t kMappingsOfPage = 2;  // itself, and the address space behind it

UniqueFd OpenUserfaultfd() {
  // This mode covers accesses by the program itself, and needs no privilege.
  for (const int mode : {UFFD_USER_MODE_ONLY, 0}) {
    UniqueFd fd(
        static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | mode)));
    uffdio_api api = {};
    api.api = UFFD_API;
    api.features = UFFD_FEATURE_SIGBUS | UFFD_FEATURE_MISSING_SHMEM;
    if (fd.valid() && ioctl(fd.get(), UFFDIO_API, &api) == 0) return fd;
  }
  return UniqueFd();
}

}  // namespace

RingViews::RingViews(uint64_t most_bytes, uint64_t most_pages)
    : left_(most_bytes), pages_left_(most_pages), holes_(OpenUserfaultfd()) {}

uint64_t RingViews::MostPages() {
  uint64_t mappings = 0;
  const auto text = ReadFile("/proc/sys/vm/max_map_count", 64);
  if (!text.ok() || !absl::SimpleAtoi(*text, &mappings)) mappings = kDefaultMappings;
  return mappings / 2 / kMappingsOfPage;
}

void RingViews::Lend(RingPages* pages) {
  if (lent_to_ != nullptr && lent_to_ != pages) lent_to_->Leave();
  lent_to_ = pages;
}

bool RingViews::KeepHoles(void* at, uint64_t bytes) const {
  uffdio_register range = {};
  range.range.start = reinterpret_cast<uintptr_t>(at);
  range.range.len = bytes;
  range.mode = UFFDIO_REGISTER_MODE_MISSING;
  return ioctl(holes_.get(), UFFDIO_REGISTER, &range) == 0;
}

}  // namespace rocattach
