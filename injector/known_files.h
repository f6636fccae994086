// Which of a process's files matter to an attach, learned once from a full look.
#ifndef ROCATTACH_INJECTOR_KNOWN_FILES_H_
#define ROCATTACH_INJECTOR_KNOWN_FILES_H_

#include <sys/types.h>

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "bpf/watch_events.h"
#include "injector/library_facts.h"
#include "injector/maps.h"
#include "injector/remote_address.h"

namespace rocattach {

// The kernel describes a held process by the numbers of its files (rocattach_layout).
// What those files are is found out from /proc, at the first process that has them:
// from then on an attach needs no look at /proc for its mappings. Thread-safe.
class KnownFiles {
 public:
  static constexpr size_t kMaxFiles = 4096;

  // What the kernel is to be told of a file.
  struct Judgement {
    rocattach_file_key file = {};
    rocattach_file_kind kind = ROCATTACH_FILE_UNKNOWN;
  };

  // The mappings that an attach at layout.ip looks at: C libraries, the library with
  // the window, the stack. Empty if anything in the layout calls for the full look: a
  // file that is not known, a collector, an emulator, too many files.
  std::optional<Maps> MapsOf(const rocattach_layout& layout) const;

  // Learns from a full look at process `pid`, whose mappings `maps` are. `facts` finds
  // what is in libraries. Returns what the kernel is to be told.
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

  mutable std::mutex mutex_;
  std::map<Key, std::shared_ptr<const File>> files_;
};

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_KNOWN_FILES_H_
