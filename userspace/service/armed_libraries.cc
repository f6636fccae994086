#include "userspace/service/armed_libraries.h"

#include <cstdint>

#include "injector/function_offset.h"
#include "injector/probe_instruction.h"
#include "userspace/base/status_macros.h"

namespace rocattach {

// 1. The scan has opened the file and found hsa_init in it.
// 2. The probe goes to what was opened.
// 3. A file that has changed meanwhile is scanned again: a rename is harmless. If it
//    was written, the probe may be at any instruction and is removed.
// 4. The watch reports what is written after it was set.
absl::Status ArmedLibraries::ArmOne(const LibraryCopy& copy, uint64_t cookie,
                                    LibraryProbes* probes) {
  tried_.insert(cookie);
  watch_.Add(cookie, copy.file);
  RETURN_IF_ERROR(
      probes->AddLibrary(copy.file.ProbePath(), copy.hsa_init_offset, cookie));
  absl::Status unchanged = copy.file.CheckUnchanged();
  if (unchanged.ok()) return absl::OkStatus();
  const int fd = copy.file.fd();
  auto offset = FindFunctionFileOffset(fd, "hsa_init");
  if (offset.ok() && *offset == copy.hsa_init_offset &&
      CheckProbeInstruction(fd, *offset).ok()) {
    return absl::OkStatus();
  }
  probes->RemoveLibrary(cookie);
  return unchanged;
}

void ArmedLibraries::ArmMappedBy(pid_t pid, LibraryProbes* probes) {
  for (const KnownLibraries::Entry& entry : known_.MappedBy(pid)) {
    if (tried_.count(entry.cookie) == 0 &&
        ArmOne(*entry.copy, entry.cookie, probes).ok()) {
      armed_.insert(entry.cookie);
    }
  }
}

absl::Status ArmedLibraries::Arm(LibraryProbes* probes) {
  absl::Status first_error;
  for (size_t i = 0; i < scan_.copies.size(); ++i) {
    const uint64_t cookie = i + 1;
    absl::Status status = ArmOne(scan_.copies[i], cookie, probes);
    if (status.ok()) {
      armed_.insert(cookie);
      continue;
    }
    scan_.rejected.push_back({scan_.copies[i].path, std::string(status.message())});
    first_error.Update(status);
  }
  // A copy that cannot be probed does not affect the others; no copy at all is an
  // error.
  return armed_.empty() ? first_error : absl::OkStatus();
}

void ArmedLibraries::DisarmWritten(
    LibraryProbes* probes,
    const std::function<void(const std::string& path)>& on_disarmed) {
  for (uint64_t cookie : watch_.Written()) {
    // One that was rejected is watched as well.
    if (armed_.erase(cookie) == 0) continue;
    probes->RemoveLibrary(cookie);
    on_disarmed(known_.PathOf(cookie));
  }
}

}  // namespace rocattach
