#include "userspace/watch/known_libraries.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace rocattach {
namespace {

// A process could map new copies without end, and each keeps a file open.
constexpr size_t kMostLater = 64;

}  // namespace

KnownLibraries::KnownLibraries(std::vector<LibraryCopy> scanned)
    : copies_(std::make_move_iterator(scanned.begin()),
              std::make_move_iterator(scanned.end())),
      scanned_(scanned.size()) {}

KnownLibraries::Entry KnownLibraries::Find(const Mapping& mapping) const {
  const uint64_t size = mapping.end - mapping.start;
  absl::MutexLock lock(&mutex_);
  for (size_t i = 0; i < copies_.size(); ++i) {
    const LibraryCopy& copy = copies_[i];
    // Not the device: that of a mapping differs from the file's on some file systems.
    if (copy.inode == mapping.inode && copy.hsa_init_offset >= mapping.offset &&
        copy.hsa_init_offset - mapping.offset < size) {
      return {&copy, i + 1};
    }
  }
  return {};
}

std::vector<KnownLibraries::Entry> KnownLibraries::MappedBy(pid_t pid) {
  LibraryScanOptions options;
  options.usual_places.clear();
  options.scan_mapped = false;
  options.processes = {pid};
  LibraryScan scan = ScanLibraries(options);
  std::vector<Entry> entries;
  absl::MutexLock lock(&mutex_);
  for (LibraryCopy& copy : scan.copies) {
    auto known =
        std::find_if(copies_.begin(), copies_.end(), [&copy](const LibraryCopy& other) {
          return other.device == copy.device && other.inode == copy.inode;
        });
    if (known == copies_.end()) {
      if (copies_.size() - scanned_ >= kMostLater) continue;
      copies_.push_back(std::move(copy));
      known = std::prev(copies_.end());
    }
    const auto index = static_cast<uint64_t>(std::distance(copies_.begin(), known));
    entries.push_back({&*known, index + 1});
  }
  return entries;
}

std::string KnownLibraries::PathOf(uint64_t cookie) const {
  absl::MutexLock lock(&mutex_);
  return cookie >= 1 && cookie <= copies_.size() ? copies_[cookie - 1].path : "";
}

}  // namespace rocattach
