#include "userspace/service/probed_libraries.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <memory>

#include "injector/elf/function_offset.h"
#include "injector/elf/probe_instruction.h"
#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

bool IsDeleted(const LibraryCopy& copy) {
  struct stat info;
  return fstat(copy.file.fd(), &info) == 0 && info.st_nlink == 0;
}

}  // namespace

// 1. The scan has opened the file and found hsa_init in it.
// 2. The probe is set on the opened file.
// 3. A file that has changed meanwhile is scanned again: a rename is harmless. If it
//    was written to, the probe may be at any instruction and is removed.
// 4. The watch, which was added before all that, reports later writes.
absl::Status ProbedLibraries::ProbeOne(const LibraryCopy& copy, uint64_t cookie,
                                       pid_t mapped_by, LibraryProbes* probes) {
  watch_.Add(cookie, copy.file);
  RETURN_IF_ERROR(
      probes->AddLibrary(copy.file.ProbePath(), copy.hsa_init_offset, cookie));
  if (after_probe_ != nullptr) after_probe_(copy.file, mapped_by);
  absl::Status unchanged = copy.file.CheckUnchanged();
  if (unchanged.ok()) return absl::OkStatus();
  const int fd = copy.file.fd();
  auto offset = FindFunctionFileOffset(fd, "hsa_init");
  if (offset.ok() && *offset == copy.hsa_init_offset &&
      CheckProbeInstruction(fd, *offset).ok()) {
    return absl::OkStatus();
  }
  probes->RemoveLibraries({cookie});
  return unchanged;
}

bool ProbedLibraries::ProbeLater(const KnownLibraries::Entry& entry, pid_t mapped_by,
                                 LibraryProbes* probes) {
  {
    absl::MutexLock lock(&mutex_);
    auto [found, is_new] = states_.try_emplace(entry.cookie, State::kProbing);
    if (!is_new) {
      auto is_settled = [this,
                         cookie = entry.cookie]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
        auto state = states_.find(cookie);
        return state == states_.end() || state->second != State::kProbing;
      };
      mutex_.Await(absl::Condition(&is_settled));
      found = states_.find(entry.cookie);
      if (found == states_.end()) return false;
      if (found->second == State::kRetiring) found->second = State::kProbed;
      return found->second == State::kProbed;
    }
  }
  const bool probed = ProbeOne(*entry.copy, entry.cookie, mapped_by, probes).ok();
  absl::MutexLock lock(&mutex_);
  states_[entry.cookie] = probed ? State::kProbed : State::kResists;
  return probed;
}

ProbedLibraries::Mapped ProbedLibraries::ProbeMappedBy(pid_t pid,
                                                       LibraryProbes* probes) {
  KnownLibraries::Mapped found = known_.MappedBy(pid);
  Mapped mapped;
  mapped.rejected = std::move(found.rejected);
  mapped.without_room = found.without_room;
  for (const KnownLibraries::Entry& entry : found.entries) {
    if (ProbeLater(entry, pid, probes)) {
      mapped.probed.push_back(entry.cookie);
    } else {
      mapped.rejected.push_back({entry.copy->path, "its probe could not be placed"});
    }
  }
  return mapped;
}

// A copy that is requested between the first and the last step keeps its probe: it is
// not retiring any more. If it is requested later, it counts as a new copy.
std::vector<uint64_t> ProbedLibraries::RemoveUnused(
    bool all, LibraryProbes* probes,
    const std::function<void(std::vector<KnownLibraries::Entry>*)>& keep_unmapped) {
  std::vector<KnownLibraries::Entry> candidates = known_.Later();
  std::erase_if(candidates, [all](const KnownLibraries::Entry& entry) {
    return !all && !IsDeleted(*entry.copy);
  });
  if (candidates.empty()) return {};
  std::vector<uint64_t> retiring;
  {
    absl::MutexLock lock(&mutex_);
    for (const KnownLibraries::Entry& entry : candidates) {
      auto state = states_.find(entry.cookie);
      if (state == states_.end() || state->second == State::kProbing) continue;
      if (state->second == State::kProbed) state->second = State::kRetiring;
      retiring.push_back(entry.cookie);
    }
  }
  keep_unmapped(&candidates);
  std::vector<uint64_t> removed;
  {
    absl::MutexLock lock(&mutex_);
    for (uint64_t cookie : retiring) {
      const bool unmapped = std::any_of(
          candidates.begin(), candidates.end(),
          [cookie](const KnownLibraries::Entry& e) { return e.cookie == cookie; });
      State& state = states_[cookie];
      if (!unmapped && state == State::kRetiring) state = State::kProbed;
      if (!unmapped || state == State::kProbed) continue;
      known_.Remove(cookie);
      states_.erase(cookie);
      removed.push_back(cookie);
    }
  }
  for (uint64_t cookie : removed) watch_.Remove(cookie);
  if (!removed.empty()) probes->RemoveLibraries(removed);
  return removed;
}

std::vector<KnownLibraries::Entry> ProbedLibraries::ProbedAtStart() const {
  std::vector<KnownLibraries::Entry> probed;
  absl::MutexLock lock(&mutex_);
  for (size_t i = 0; i < scan_.copies.size(); ++i) {
    auto state = states_.find(i + 1);
    if (state == states_.end() || state->second != State::kProbed) continue;
    probed.push_back({std::make_shared<const LibraryCopy>(scan_.copies[i]), i + 1});
  }
  return probed;
}

size_t ProbedLibraries::probed() const {
  absl::MutexLock lock(&mutex_);
  return static_cast<size_t>(
      std::count_if(states_.begin(), states_.end(), [](const auto& entry) {
        return entry.second == State::kProbed || entry.second == State::kRetiring;
      }));
}

absl::Status ProbedLibraries::SetProbes(LibraryProbes* probes) {
  absl::Status first_error;
  for (size_t i = 0; i < scan_.copies.size(); ++i) {
    const uint64_t cookie = i + 1;
    absl::Status status = ProbeOne(scan_.copies[i], cookie, /*mapped_by=*/0, probes);
    {
      absl::MutexLock lock(&mutex_);
      states_[cookie] = status.ok() ? State::kProbed : State::kResists;
    }
    if (status.ok()) continue;
    scan_.rejected.push_back({scan_.copies[i].path, std::string(status.message())});
    first_error.Update(status);
  }
  // A copy that cannot be probed does not affect the others; no copy at all is an
  // error.
  return probed() > 0 ? absl::OkStatus() : first_error;
}

std::vector<uint64_t> ProbedLibraries::RemoveWritten(
    LibraryProbes* probes,
    const std::function<void(const std::string& path)>& on_removed) {
  std::vector<uint64_t> removed;
  for (uint64_t cookie : watch_.Written()) {
    {
      absl::MutexLock lock(&mutex_);
      auto found = states_.find(cookie);
      // Rejected copies are watched as well.
      if (found == states_.end() || found->second == State::kResists) continue;
      found->second = State::kResists;
    }
    removed.push_back(cookie);
    on_removed(known_.PathOf(cookie));
  }
  if (!removed.empty()) probes->RemoveLibraries(removed);
  return removed;
}

}  // namespace rocattach
