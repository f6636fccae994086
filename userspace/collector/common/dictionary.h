// Append-only dictionary of agents, queues, code objects and kernels.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_COMMON_DICTIONARY_H_
#define ROCATTACH_USERSPACE_COLLECTOR_COMMON_DICTIONARY_H_

#include <stdint.h>

#include "userspace/abi/atomics.h"
#include "userspace/collector/common/memory.h"

namespace rocattach::collector {

// Entries are committed by one release store of dictionary_used and never change.
class Dictionary {
 public:
  void Init(Memory* memory) {
    memory_ = memory;
    used_ = committed_ = 0;
    for (uint32_t& id : last_id_) id = 0;
  }

  // Appends an entry with a fixed part of type T and `text_bytes` of text. Returns its
  // id (per kind, from 1), or 0 if it did not fit, which is counted.
  template <typename T>
  uint32_t Append(rocattach_entry_kind kind, T* fixed, const void* text,
                  uint32_t text_bytes) {
    static_assert(sizeof(T) % 8 == 0, "entries are 8-byte aligned");
    return AppendBytes(kind, &fixed->entry, sizeof(T), text, text_bytes);
  }

  static constexpr uint32_t kMaxText = 0xffff;

 private:
  uint32_t AppendBytes(rocattach_entry_kind kind, rocattach_entry* fixed,
                       uint32_t fixed_bytes, const void* text, uint32_t text_bytes);

  // Makes sure that everything before `end` can be written. Called with the lock held.
  bool Commit(uint64_t end);

  Memory* memory_ = nullptr;
  TinyLock lock_;
  uint64_t used_ = 0, committed_ = 0;
  uint32_t last_id_[8] = {};
};

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_COMMON_DICTIONARY_H_
