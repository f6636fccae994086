#include "userspace/watch/known_libraries.h"

#include <utility>

namespace rocattach {
namespace {

// Events that name a removed copy may still be on their way.
constexpr size_t kMostRemoved = 1024;

}  // namespace

KnownLibraries::KnownLibraries(std::vector<LibraryCopy> scanned,
                               const LibraryLimits& later)
    : limits_(later), scanned_(scanned.size()) {
  for (LibraryCopy& copy : scanned) {
    copies_[++last_] = std::make_shared<const LibraryCopy>(std::move(copy));
  }
}

KnownLibraries::Entry KnownLibraries::Find(const Mapping& mapping) const {
  const uint64_t size = mapping.end - mapping.start;
  absl::MutexLock lock(&mutex_);
  for (const auto& [cookie, copy] : copies_) {
    // Not the device: that of a mapping differs from the file's on some file systems.
    if (copy->inode == mapping.inode && copy->hsa_init_offset >= mapping.offset &&
        copy->hsa_init_offset - mapping.offset < size) {
      return {copy, cookie};
    }
  }
  return {};
}

bool KnownLibraries::HasRoom(uid_t owner) const {
  uint32_t later = 0, of_owner = 0;
  for (auto it = copies_.upper_bound(scanned_); it != copies_.end(); ++it) {
    ++later;
    of_owner += it->second->file.owner() == owner ? 1 : 0;
  }
  if (limits_.most != 0 && later >= limits_.most) return false;
  return owner == 0 || limits_.most_per_user == 0 || of_owner < limits_.most_per_user;
}

KnownLibraries::Mapped KnownLibraries::MappedBy(pid_t pid) {
  LibraryScanOptions options;
  options.usual_places.clear();
  options.scan_mapped = false;
  options.processes = {pid};
  LibraryScan scan = ScanLibraries(options);
  Mapped mapped;
  mapped.rejected = std::move(scan.rejected);
  absl::MutexLock lock(&mutex_);
  for (LibraryCopy& found : scan.copies) {
    Entry entry;
    for (const auto& [cookie, copy] : copies_) {
      if (copy->device == found.device && copy->inode == found.inode) {
        entry = {copy, cookie};
      }
    }
    if (entry.copy == nullptr) {
      if (!HasRoom(found.file.owner())) {
        ++mapped.without_room;
        continue;
      }
      entry = {std::make_shared<const LibraryCopy>(std::move(found)), ++last_};
      copies_[entry.cookie] = entry.copy;
    }
    mapped.entries.push_back(std::move(entry));
  }
  return mapped;
}

std::vector<KnownLibraries::Entry> KnownLibraries::Later() const {
  std::vector<Entry> later;
  absl::MutexLock lock(&mutex_);
  for (auto it = copies_.upper_bound(scanned_); it != copies_.end(); ++it) {
    later.push_back({it->second, it->first});
  }
  return later;
}

void KnownLibraries::Remove(uint64_t cookie) {
  absl::MutexLock lock(&mutex_);
  auto found = copies_.find(cookie);
  if (found == copies_.end()) return;
  removed_[cookie] = found->second->path;
  if (removed_.size() > kMostRemoved) removed_.erase(removed_.begin());
  copies_.erase(found);
}

std::string KnownLibraries::PathOf(uint64_t cookie) const {
  absl::MutexLock lock(&mutex_);
  if (auto found = copies_.find(cookie); found != copies_.end()) {
    return found->second->path;
  }
  auto removed = removed_.find(cookie);
  return removed != removed_.end() ? removed->second : "";
}

}  // namespace rocattach
