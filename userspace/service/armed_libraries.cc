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
absl::Status ArmedLibraries::ArmOne(size_t index, LibraryProbes* probes) {
  const LibraryCopy& copy = scan_.copies[index];
  const uint64_t cookie = index + 1;
  watch_.Add(index, copy.file);
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

absl::Status ArmedLibraries::Arm(LibraryProbes* probes) {
  absl::Status first_error;
  for (size_t i = 0; i < scan_.copies.size(); ++i) {
    absl::Status status = ArmOne(i, probes);
    if (status.ok()) {
      armed_.insert(i);
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
  for (size_t index : watch_.Written()) {
    // One that was rejected is watched as well.
    if (armed_.erase(index) == 0) continue;
    probes->RemoveLibrary(index + 1);
    on_disarmed(scan_.copies[index].path);
  }
}

}  // namespace rocattach
