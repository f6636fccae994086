// The copies of the HSA runtime that are probed.
#ifndef ROCATTACH_USERSPACE_SERVICE_PROBED_LIBRARIES_H_
#define ROCATTACH_USERSPACE_SERVICE_PROBED_LIBRARIES_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "userspace/watch/discovery/known_libraries.h"
#include "userspace/watch/discovery/library_probes.h"
#include "userspace/watch/discovery/library_scanner.h"
#include "userspace/watch/discovery/library_watch.h"

namespace rocattach {

// Probes must be on the first instruction of hsa_init and nowhere else, so a file that
// is written to loses its probe. The probe of the copy with index I in the scan has the
// cookie I + 1.
class ProbedLibraries {
 public:
  explicit ProbedLibraries(LibraryScan scan,
                           const LibraryLimits& later = LibraryLimits())
      : scan_(std::move(scan)), known_(scan_.copies, later) {}

  // Called after each probe is set, on the thread that set it, with the copy's file and
  // a process that has mapped it (0: none is known). Set before any other call.
  using AfterProbe = std::function<void(const CheckedFile& file, pid_t mapped_by)>;
  void set_after_probe(AfterProbe after_probe) {
    after_probe_ = std::move(after_probe);
  }

  // The copies that were found, and those that were rejected, also by SetProbes().
  const LibraryScan& scan() const { return scan_; }
  // Sets the probes. Copies that cannot be probed are rejected; that is an error only
  // if none can be probed. Before any other call.
  absl::Status SetProbes(LibraryProbes* probes) ABSL_LOCKS_EXCLUDED(mutex_);
  // The copies of the scan that have a probe.
  std::vector<KnownLibraries::Entry> ProbedAtStart() const ABSL_LOCKS_EXCLUDED(mutex_);

  // State of the copies that a process has mapped.
  struct Mapped {
    std::vector<uint64_t> probed;           // cookies of those that have a probe now
    std::vector<RejectedLibrary> rejected;  // cannot be probed
    uint32_t without_room = 0;              // beyond the limits
  };
  // Probes copies that this process has mapped and that were not there at the start.
  // The probes are in place when it returns. Any thread; reads the files, which can
  // take long on a network file system.
  Mapped ProbeMappedBy(pid_t pid, LibraryProbes* probes) ABSL_LOCKS_EXCLUDED(mutex_);
  // Removes later copies that no process uses any more, and whose files are deleted;
  // with `all`, also copies whose files exist, since such a copy is found again when it
  // is mapped. `keep_unmapped` receives the candidates and removes from them those that
  // a process has mapped; nothing that is mapped after that call loses its probe.
  // Returns the cookies.
  std::vector<uint64_t> RemoveUnused(
      bool all, LibraryProbes* probes,
      const std::function<void(std::vector<KnownLibraries::Entry>*)>& keep_unmapped)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Number of probes.
  size_t probed() const ABSL_LOCKS_EXCLUDED(mutex_);

  // The copies of the scan and later ones.
  KnownLibraries* known() { return &known_; }
  // Readable when a copy has been written to.
  int fd() const { return watch_.fd(); }
  // Removes the probes from copies that have been written to, and reports them.
  // Returns their cookies.
  std::vector<uint64_t> RemoveWritten(
      LibraryProbes* probes,
      const std::function<void(const std::string& path)>& on_removed)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  enum class State {
    kProbing,   // another thread is putting the probe in place
    kProbed,    // has its probe
    kRetiring,  // likewise, but loses it unless the copy is requested
    kResists,   // cannot be probed, or has been written to
  };

  absl::Status ProbeOne(const LibraryCopy& copy, uint64_t cookie, pid_t mapped_by,
                        LibraryProbes* probes) ABSL_LOCKS_EXCLUDED(mutex_);
  // Probes a copy once, whichever thread comes first; true if it has its probe.
  bool ProbeLater(const KnownLibraries::Entry& entry, pid_t mapped_by,
                  LibraryProbes* probes) ABSL_LOCKS_EXCLUDED(mutex_);

  LibraryScan scan_;
  KnownLibraries known_;
  AfterProbe after_probe_;
  mutable absl::Mutex mutex_;
  std::map<uint64_t, State> states_ ABSL_GUARDED_BY(mutex_);  // by cookie
  LibraryWatch watch_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SERVICE_PROBED_LIBRARIES_H_
