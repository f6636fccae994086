#include "injector/stub/code_cave.h"

#include <algorithm>
#include <array>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "injector/elf/symbol_lookup.h"
#include "injector/stub/remote_address.h"

namespace rocattach {
namespace {

constexpr uint64_t kCaveAlignment = 16;
// A target can map any number of files; checking all would hold it for too long.
constexpr size_t kMaxCandidates = 24;

// Smaller is better.
int Preference(const Mapping& mapping, RemoteAddress window) {
  absl::string_view name = mapping.basename();
  if (mapping.Contains(window)) return 0;
  if (IsLibcName(name)) return 1;
  if (absl::StartsWith(name, "ld-linux-x86-64.so") || absl::StartsWith(name, "ld-2.")) {
    return 2;
  }
  if (absl::StartsWith(name, "libstdc++.so")) return 3;
  if (absl::StartsWith(name, "libhsakmt.so")) return 4;
  return 5;
}

std::vector<const Mapping*> Candidates(const Maps& maps, RemoteAddress window) {
  std::vector<const Mapping*> candidates;
  for (const Mapping& mapping : maps.mappings()) {
    if (mapping.executable && mapping.readable && !mapping.writable &&
        mapping.is_private && mapping.is_file()) {
      candidates.push_back(&mapping);
    }
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [window](const Mapping* a, const Mapping* b) {
                     return Preference(*a, window) < Preference(*b, window);
                   });
  if (candidates.size() > kMaxCandidates) candidates.resize(kMaxCandidates);
  return candidates;
}

// Checks the tails of one library's executable segments that lie in `mapping`.
bool FindInMapping(const LibraryFacts& facts, uint64_t bias, const Mapping& mapping,
                   const TargetMemory& memory, size_t bytes,
                   absl::FunctionRef<bool(absl::string_view)> may_replace,
                   CodeCave* cave) {
  for (const ElfSegment& segment : facts.segments) {
    if (!segment.executable) continue;
    RemoteAddress tail(bias + segment.vaddr + segment.memsz);
    RemoteAddress end((tail.value() + kPageBytes - 1) & ~(kPageBytes - 1));
    if (end <= tail || tail < mapping.start || end > mapping.end) continue;
    // Only as much of the page's end as is needed: the target is waiting.
    const size_t size = (bytes + kCaveAlignment - 1) & ~(kCaveAlignment - 1);
    char buffer[kPageBytes];
    if (end - tail < size || !memory.Read(end - size, buffer, size).ok()) continue;
    const absl::string_view room(buffer, size);
    if (FreeBytesBegin(room) != 0 && !may_replace(room)) continue;
    *cave = {end - size, size, std::string(room)};
    return true;
  }
  return false;
}

}  // namespace

size_t FreeBytesBegin(absl::string_view tail) {
  size_t used = tail.size();
  while (used > 0 && tail[used - 1] == '\0') --used;
  // The end of the tail is the end of a page, so whole units count from there.
  size_t free_bytes = (tail.size() - used) & ~(kCaveAlignment - 1);
  return tail.size() - free_bytes;
}

StepResult FindCodeCave(pid_t pid, const Maps& maps, const TargetMemory& memory,
                        LibraryCache* cache, RemoteAddress window, size_t bytes,
                        CodeCave* cave,
                        absl::FunctionRef<bool(absl::string_view)> may_replace) {
  std::vector<const Mapping*> candidates = Candidates(maps, window);
  for (const Mapping* mapping : candidates) {
    auto facts = LoadLibraryFacts(pid, *mapping, cache);
    if (!facts.ok()) continue;
    auto bias = LoadBias(**facts, *mapping);
    if (!bias.ok()) continue;
    if (FindInMapping(**facts, *bias, *mapping, memory, bytes, may_replace, cave)) {
      return StepOk();
    }
  }
  return AttachFailure{AttachReason::kNoCave, 0,
                       absl::StrCat("none of ", candidates.size(), " libraries has ",
                                    bytes, " free bytes after its code")};
}

}  // namespace rocattach
