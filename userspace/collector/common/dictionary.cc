#include "userspace/collector/common/dictionary.h"

#include <string.h>

namespace rocattach::collector {

bool Dictionary::Commit(uint64_t end) {
  const uint64_t bytes = memory_->geometry().dictionary_bytes;
  uint8_t* begin = memory_->base() + memory_->geometry().dictionary_offset;
  while (committed_ < end) {
    const uint64_t step =
        bytes - committed_ < kCommitBytes ? bytes - committed_ : kCommitBytes;
    if (!collector::Commit(begin + committed_, step)) return false;
    committed_ += step;
  }
  return true;
}

uint32_t Dictionary::AppendBytes(rocattach_entry_kind kind, rocattach_entry* fixed,
                                 uint32_t fixed_bytes, const void* text,
                                 uint32_t text_bytes) {
  if (text_bytes > kMaxText) text_bytes = kMaxText;
  uint32_t bytes = (fixed_bytes + text_bytes + 7) & ~7u;
  TinyLockHolder hold(lock_);
  rocattach_control* c = memory_->control();
  if (bytes > memory_->geometry().dictionary_bytes - used_ || !Commit(used_ + bytes)) {
    __atomic_fetch_add(&c->dictionary_dropped, 1u, __ATOMIC_RELAXED);
    return 0;
  }
  fixed->bytes = bytes;
  fixed->kind = static_cast<uint16_t>(kind);
  fixed->text_bytes = static_cast<uint16_t>(text_bytes);
  fixed->id = ++last_id_[kind];
  fixed->pad = 0;
  uint8_t* at = memory_->base() + memory_->geometry().dictionary_offset + used_;
  memcpy(at, fixed, fixed_bytes);
  if (text_bytes != 0) memcpy(at + fixed_bytes, text, text_bytes);
  used_ += bytes;
  StoreRelease(&c->dictionary_used, used_);
  return fixed->id;
}

}  // namespace rocattach::collector
