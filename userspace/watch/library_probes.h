// Probes on hsa_init, as whoever finds the library copies sees them.
#ifndef ROCATTACH_USERSPACE_WATCH_LIBRARY_PROBES_H_
#define ROCATTACH_USERSPACE_WATCH_LIBRARY_PROBES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace rocattach {

// Thread-safe.
class LibraryProbes {
 public:
  virtual ~LibraryProbes() = default;

  // Puts the probe on `file_offset` (hsa_init) of the file at `path`, for all present
  // and future processes. `cookie` comes back in the events. A path that another user
  // could turn to another file must be one of CheckedFile::ProbePath().
  virtual absl::Status AddLibrary(const std::string& path, uint64_t file_offset,
                                  uint64_t cookie) = 0;
  // Takes away what AddLibrary() put in place with these cookies. Takes some 100 ms,
  // however many they are.
  virtual void RemoveLibraries(const std::vector<uint64_t>& cookies) = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_LIBRARY_PROBES_H_
