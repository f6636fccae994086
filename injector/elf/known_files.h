// The files of a process that matter to an attach, learned once from /proc.
#ifndef ROCATTACH_INJECTOR_ELF_KNOWN_FILES_H_
#define ROCATTACH_INJECTOR_ELF_KNOWN_FILES_H_

#include <sys/types.h>

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "bpf/watch_events.h"
#include "injector/elf/library_facts.h"
#include "injector/process/maps.h"
#include "injector/stub/remote_address.h"

namespace rocattach {

// The kernel side describes the files of a held process by numbers (rocattach_layout).
// Which files these are is read from /proc for the first process that maps them; from
// then on an attach does not read the mappings from /proc. Thread-safe.
class KnownFiles {
 public:
  static constexpr size_t kMaxFiles = 4096;

  // A file and the kind that is recorded for it in the kernel.
  struct Judgement {
    rocattach_file_key file = {};
    rocattach_file_kind kind = ROCATTACH_FILE_UNKNOWN;
  };

  // The mappings that an attach at layout.ip needs: C libraries, the library with the
  // window, the stack. Empty if anything in the layout requires /proc: an unknown file,
  // a collector, an emulator, too many files.
  std::optional<Maps> MapsOf(const rocattach_layout& layout) const;

  // Learns from `maps`, all mappings of process `pid`. `facts` finds and caches the
  // facts of libraries. Returns what is to be recorded in the kernel.
  std::vector<Judgement> Learn(pid_t pid, const rocattach_layout& layout,
                               const Maps& maps, absl::string_view collector_path,
                               LibraryCache* facts);

 private:
  struct Key {
    uint64_t inode = 0;
    uint64_t version = 0;
    uint32_t device = 0;

    auto operator<=>(const Key&) const = default;
  };
  struct File {
    std::string path;
    std::shared_ptr<const LibraryFacts> facts;
  };
  static Key KeyOf(const rocattach_file_key& key) {
    return {key.inode, key.version, key.device};
  }

  mutable absl::Mutex mutex_;
  std::map<Key, std::shared_ptr<const File>> files_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_ELF_KNOWN_FILES_H_
