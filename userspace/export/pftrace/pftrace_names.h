// The numbers by which a Perfetto trace refers to kernels, functions, queues and tracks
// of one process. They stay the same for the whole file, but each must be announced
// again after every reset.
#ifndef ROCATTACH_USERSPACE_EXPORT_PFTRACE_PFTRACE_NAMES_H_
#define ROCATTACH_USERSPACE_EXPORT_PFTRACE_PFTRACE_NAMES_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace rocattach {

// Assigns numbers to keys in order. Readers of a trace keep 32 bits of them.
template <typename Key>
class PftraceNames {
 public:
  // Maximum number of keys: after that, all are forgotten, and get new numbers.
  static constexpr size_t kMaxKeys = 1 << 16;

  struct Name {
    uint32_t iid = 0;
    bool announce = false;  // true at the first use since the reset
  };

  // `generation`: number of resets so far; `next`: the next number of the file.
  Name Get(const Key& key, uint32_t generation, uint32_t* next) {
    if (entries_.size() >= kMaxKeys && !entries_.contains(key)) entries_.clear();
    auto [entry, added] = entries_.try_emplace(key);
    if (added) entry->second.iid = (*next)++;
    const bool announce = added || entry->second.generation != generation;
    entry->second.generation = generation;
    return {entry->second.iid, announce};
  }

 private:
  struct Entry {
    uint32_t iid = 0;
    uint32_t generation = 0;
  };
  absl::flat_hash_map<Key, Entry> entries_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_EXPORT_PFTRACE_PFTRACE_NAMES_H_
