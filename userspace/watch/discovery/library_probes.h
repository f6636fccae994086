// Probes on hsa_init, as seen by the code that finds library copies.
#ifndef ROCATTACH_USERSPACE_WATCH_DISCOVERY_LIBRARY_PROBES_H_
#define ROCATTACH_USERSPACE_WATCH_DISCOVERY_LIBRARY_PROBES_H_

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
  // and future processes. `cookie` is part of the events. A path that another user
  // could redirect to another file must be one from CheckedFile::ProbePath().
  virtual absl::Status AddLibrary(const std::string& path, uint64_t file_offset,
                                  uint64_t cookie) = 0;
  // Removes the probes that AddLibrary() has set with these cookies. Takes some 100 ms,
  // however many they are.
  virtual void RemoveLibraries(const std::vector<uint64_t>& cookies) = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_DISCOVERY_LIBRARY_PROBES_H_
