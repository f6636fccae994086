// The facts about one library file that an attach needs, found once and cached.
#ifndef ROCATTACH_INJECTOR_ELF_LIBRARY_FACTS_H_
#define ROCATTACH_INJECTOR_ELF_LIBRARY_FACTS_H_

#include <sys/stat.h>
#include <sys/types.h>

#include <array>
#include <atomic>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "injector/elf/elf_image.h"
#include "injector/process/maps.h"

namespace rocattach {

// The functions that the stub calls.
enum class LibcFunction : size_t {
  kDlopen,
  kDlsym,
  kDlerror,
  kErrnoLocation,
  // Not needed where libpthread is not loaded (glibc before 2.34): one thread only.
  kMutexTrylock,
  kMutexUnlock,
  kCount
};
inline constexpr size_t kRequiredLibcFunctions = 4;
absl::string_view LibcFunctionName(LibcFunction function);

struct LibraryFacts {
  std::vector<ElfSegment> segments;
  // Linked addresses, 0 where the library has no such function.
  std::array<uint64_t, static_cast<size_t>(LibcFunction::kCount)> functions = {};
  // The first bytes of their code.
  static constexpr size_t kCodeBytes = 16;
  using Code = std::array<char, kCodeBytes>;
  std::array<Code, static_cast<size_t>(LibcFunction::kCount)> code = {};

  // The rest is filled in for a C library only; 0 or empty where it was not found.
  // Linked addresses of the slots that hold the addresses of ld.so's `_rtld_global` and
  // of the malloc that the program uses.
  uint64_t loader_state_slot = 0;
  uint64_t malloc_slot = 0;
  // Offset in `_rtld_global` at which the loader's locks were found, 0: not yet.
  mutable std::atomic<uint32_t> loader_locks_offset = 0;
  // Linked addresses of the code to which signal handlers return.
  std::vector<uint64_t> signal_returns;

  uint64_t function(LibcFunction which) const {
    return functions[static_cast<size_t>(which)];
  }
};

// Identifies a file and one version of its contents: a file that was changed in place,
// or one that reuses the inode of a deleted one, has other facts.
struct LibraryKey {
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t bytes = 0;
  int64_t modified_ns = 0;
  int64_t changed_ns = 0;

  static LibraryKey FromStat(const struct stat& info);
  auto operator<=>(const LibraryKey&) const = default;
};

// Caches facts across attaches. Thread-safe; keep one for the lifetime of the service.
// Holds at most kMaxEntries and is cleared when full.
class LibraryCache {
 public:
  static constexpr size_t kMaxEntries = 1024;

  std::shared_ptr<const LibraryFacts> Find(const LibraryKey& key) const;
  void Store(const LibraryKey& key, std::shared_ptr<const LibraryFacts> facts);
  size_t size() const;

 private:
  mutable absl::Mutex mutex_;
  std::map<LibraryKey, std::shared_ptr<const LibraryFacts>> entries_
      ABSL_GUARDED_BY(mutex_);
};

// Facts of the file behind `mapping`, from the cache if present. `cache` may be null.
absl::StatusOr<std::shared_ptr<const LibraryFacts>> LoadLibraryFacts(
    pid_t pid, const Mapping& mapping, LibraryCache* cache);

// The load bias: the number to add to the library's linked addresses, from any
// executable mapping of it. INVALID_ARGUMENT if no executable segment explains the
// mapping.
absl::StatusOr<uint64_t> LoadBias(const LibraryFacts& facts, const Mapping& mapping);

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_ELF_LIBRARY_FACTS_H_
