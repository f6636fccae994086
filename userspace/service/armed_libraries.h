// The copies of the HSA runtime that are probed.
#ifndef ROCATTACH_USERSPACE_SERVICE_ARMED_LIBRARIES_H_
#define ROCATTACH_USERSPACE_SERVICE_ARMED_LIBRARIES_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "userspace/watch/known_libraries.h"
#include "userspace/watch/library_probes.h"
#include "userspace/watch/library_scanner.h"
#include "userspace/watch/library_watch.h"

namespace rocattach {

// Probes must be on the first instruction of hsa_init and nowhere else, so files that
// are written to lose their probe. The probe of copy I has the cookie I + 1.
class ArmedLibraries {
 public:
  explicit ArmedLibraries(LibraryScan scan)
      : scan_(std::move(scan)), known_(scan_.copies) {}

  // Copies that were found, and those that were rejected, including by Arm().
  const LibraryScan& scan() const { return scan_; }
  // Sets the probes. Copies that cannot be probed are rejected; it is an error only if
  // there is no other.
  absl::Status Arm(LibraryProbes* probes);
  // Sets the probes of copies that this process has mapped and that were not there at
  // the start. Errors cost that copy's window only.
  void ArmMappedBy(pid_t pid, LibraryProbes* probes);
  // These copies and later ones.
  KnownLibraries* known() { return &known_; }
  // Readable when a copy has been written to.
  int fd() const { return watch_.fd(); }
  // Removes the probes from copies that have been written to, and reports them.
  void DisarmWritten(LibraryProbes* probes,
                     const std::function<void(const std::string& path)>& on_disarmed);

 private:
  absl::Status ArmOne(const LibraryCopy& copy, uint64_t cookie, LibraryProbes* probes);

  LibraryScan scan_;
  KnownLibraries known_;
  std::set<uint64_t> armed_;  // cookies of copies that have a probe
  std::set<uint64_t> tried_;  // of those, and of those that resist
  LibraryWatch watch_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SERVICE_ARMED_LIBRARIES_H_
