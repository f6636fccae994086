// The numbers under which a Perfetto trace knows the things of one process: kernels,
// functions, queues, tracks. They stay the same for the whole file, but each must be
// announced again after every reset.
#ifndef ROCATTACH_USERSPACE_EXPORT_PFTRACE_PFTRACE_NAMES_H_
#define ROCATTACH_USERSPACE_EXPORT_PFTRACE_PFTRACE_NAMES_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace rocattach {

// Numbers that are given out in order, by key. A trace's readers keep 32 bits of them.
template <typename Key>
class PftraceNames {
 public:
  // Maximum keys: after that, all are forgotten, and get new numbers.
  static constexpr size_t kMaxKeys = 1 << 16;

  struct Name {
    uint32_t iid = 0;
    bool announce = false;  // for the first time since the reset
  };

  // `generation`: how many resets there were; `next`: the next number of the file.
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
