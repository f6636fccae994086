#include "userspace/watch/discovery/known_libraries.h"

#include <sys/sysmacros.h>

#include <utility>

namespace rocattach {
namespace {

// Removed copies that are remembered: events that name them may still be on the way.
constexpr size_t kMostRemoved = 1024;
// Maximum number of devices of one file.
constexpr size_t kMostDevices = 16;

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
  const dev_t device = makedev(mapping.device_major, mapping.device_minor);
  absl::MutexLock lock(&mutex_);
  for (const auto& [cookie, copy] : copies_) {
    // Inode numbers alone are the same in many containers: their file systems all begin
    // to count at the same number.
    if (copy->inode == mapping.inode && copy->hsa_init_offset >= mapping.offset &&
        copy->hsa_init_offset - mapping.offset < size &&
        IsMappedAs({copy, cookie}, device)) {
      return {copy, cookie};
    }
  }
  return {};
}

bool KnownLibraries::IsMappedAs(const Entry& entry, dev_t device) const {
  if (entry.copy->device == device) return true;
  if (entry.copy->mapped_device != 0 && entry.copy->mapped_device == device)
    return true;
  const auto seen = mapped_devices_.find(entry.cookie);
  return seen != mapped_devices_.end() && seen->second.count(device) > 0;
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
    } else if (found.mapped_device != 0 && !IsMappedAs(entry, found.mapped_device)) {
      // The copy was found by its path before any process had mapped it.
      std::set<dev_t>& devices = mapped_devices_[entry.cookie];
      if (devices.size() < kMostDevices) devices.insert(found.mapped_device);
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
  mapped_devices_.erase(cookie);
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
