#include "injector/library_locks.h"

#include <cstdint>
#include <vector>

#include "injector/symbol_lookup.h"

namespace rocattach {
namespace {

// glibc's malloc/arena.c: an arena other than the first one, which is in the library's
// data, follows the head of a heap. Heaps are aligned to their size, 64 MiB, or, with
// huge pages, to four of those.
constexpr uint64_t kHeapAlignment = 8 << 20;
// The head of a heap, 32 or 48 bytes, and the arena's lock, which is its first member.
constexpr uint64_t kArenaLocks = 64;

}  // namespace

bool IsLibraryLock(const Maps& maps, RemoteAddress address) {
  if (address.value() % kHeapAlignment < kArenaLocks) return true;
  const Mapping* mapping = maps.Find(address);
  if (mapping == nullptr) return false;
  // Variables without a value are in memory of no file, right behind the library's data.
  const Mapping* const first = maps.mappings().data();
  while (mapping->path.empty() && mapping > first &&
         mapping[-1].end == mapping->start) {
    --mapping;
  }
  return mapping->is_file() && IsLoaderOrGlibc(mapping->basename());
}

}  // namespace rocattach
