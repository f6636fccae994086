#include "injector/process/maps_query.h"

#include <errno.h>
#include <limits.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "userspace/base/errno_status.h"
#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

// linux/fs.h since 6.11; not in the headers of older distributions.
struct ProcmapQuery {
  uint64_t size;
  uint64_t query_flags;
  uint64_t query_addr;
  uint64_t vma_start;
  uint64_t vma_end;
  uint64_t vma_flags;
  uint64_t vma_page_size;
  uint64_t vma_offset;
  uint64_t inode;
  uint32_t dev_major;
  uint32_t dev_minor;
  uint32_t vma_name_size;
  uint32_t build_id_size;
  uint64_t vma_name_addr;
  uint64_t build_id_addr;
};
static_assert(sizeof(ProcmapQuery) == 104, "the kernel's struct procmap_query");
constexpr unsigned long kProcmapQuery = _IOWR('f', 17, ProcmapQuery);

constexpr uint64_t kVmaReadable = 0x01;
constexpr uint64_t kVmaWritable = 0x02;
constexpr uint64_t kVmaExecutable = 0x04;
constexpr uint64_t kVmaShared = 0x08;
constexpr uint64_t kCoveringOrNext = 0x10;
constexpr uint64_t kFileBacked = 0x20;

Mapping FromQuery(const ProcmapQuery& query) {
  Mapping mapping;
  mapping.start = RemoteAddress(query.vma_start);
  mapping.end = RemoteAddress(query.vma_end);
  mapping.readable = (query.vma_flags & kVmaReadable) != 0;
  mapping.writable = (query.vma_flags & kVmaWritable) != 0;
  mapping.executable = (query.vma_flags & kVmaExecutable) != 0;
  mapping.is_private = (query.vma_flags & kVmaShared) == 0;
  mapping.offset = query.vma_offset;
  mapping.device_major = query.dev_major;
  mapping.device_minor = query.dev_minor;
  mapping.inode = query.inode;
  return mapping;
}

}  // namespace

absl::Status MapsQuery::Query(uint64_t address, uint64_t flags, uint64_t* end) {
  char name[PATH_MAX];
  ProcmapQuery query = {};
  query.size = sizeof(query);
  query.query_flags = flags;
  query.query_addr = address;
  query.vma_name_size = sizeof(name);
  query.vma_name_addr = reinterpret_cast<uint64_t>(name);
  if (ioctl(fd_, kProcmapQuery, &query) != 0) {
    if (errno == ENOTTY || errno == EINVAL) {
      return absl::UnimplementedError("the kernel has no PROCMAP_QUERY");
    }
    return ErrnoStatus(
        errno,
        absl::StrFormat("ioctl(maps=%d, PROCMAP_QUERY at %#x) failed", fd_, address));
  }
  if (query.vma_end <= address) return absl::InternalError("PROCMAP_QUERY went back");
  *end = query.vma_end;
  // The size counts the NUL; 0: no name.
  const size_t length = query.vma_name_size == 0 ? 0 : query.vma_name_size - 1;
  // As in the text of the file, so that both ways give equal mappings.
  const std::string path = absl::StrReplaceAll(
      absl::string_view(name, std::min(length, sizeof(name))), {{"\n", "\\012"}});
  name_of_.push_back({names_.size(), path.size()});
  names_ += path;
  mappings_.push_back(FromQuery(query));
  return absl::OkStatus();
}

absl::Status MapsQuery::AddAll(uint64_t flags) {
  for (uint64_t address = 0;;) {
    uint64_t end;
    absl::Status status = Query(address, flags | kCoveringOrNext, &end);
    if (absl::IsNotFound(status)) return absl::OkStatus();
    RETURN_IF_ERROR(status);
    if (mappings_.size() > kMaxMappings) {
      return absl::OutOfRangeError("too many mappings");
    }
    address = end;
  }
}

absl::Status MapsQuery::AddExecutableFiles() {
  return AddAll(kVmaExecutable | kFileBacked);
}

absl::Status MapsQuery::AddShared() {
  return AddAll(kVmaShared | kFileBacked);
}

absl::Status MapsQuery::AddAround(RemoteAddress address) {
  uint64_t end;
  return Query(address.value(), 0, &end);
}

Maps MapsQuery::Finish() {
  Maps maps;
  maps.whole_ = false;
  maps.text_ = std::make_unique<const std::string>(std::move(names_));
  std::vector<size_t> order(mappings_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [this](size_t a, size_t b) {
    return mappings_[a].start < mappings_[b].start;
  });
  for (size_t index : order) {
    Mapping mapping = mappings_[index];
    // Found by two queries, or moved between them.
    if (!maps.mappings_.empty() && mapping.start < maps.mappings_.back().end) continue;
    mapping.path = absl::string_view(*maps.text_)
                       .substr(name_of_[index].begin, name_of_[index].length);
    mapping.deleted = absl::ConsumeSuffix(&mapping.path, " (deleted)");
    maps.mappings_.push_back(mapping);
  }
  return maps;
}

}  // namespace rocattach
