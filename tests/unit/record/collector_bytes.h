// Records and dictionary entries in the bytes that a collector writes.
#ifndef ROCATTACH_TESTS_UNIT_RECORD_COLLECTOR_BYTES_H_
#define ROCATTACH_TESTS_UNIT_RECORD_COLLECTOR_BYTES_H_

#include <string.h>

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "userspace/abi/records.h"
#include "userspace/record/drain/collector_memory.h"

namespace rocattach {

// An entry of the dictionary: its fixed part, then its text.
template <typename Entry>
std::vector<uint8_t> EntryBytes(Entry fixed, uint16_t kind, absl::string_view text) {
  fixed.entry.kind = kind;
  fixed.entry.text_bytes = static_cast<uint16_t>(text.size());
  std::vector<uint8_t> bytes((sizeof(Entry) + text.size() + 7) / 8 * 8);
  fixed.entry.bytes = static_cast<uint32_t>(bytes.size());
  memcpy(bytes.data(), &fixed, sizeof(Entry));
  memcpy(bytes.data() + sizeof(Entry), text.data(), text.size());
  return bytes;
}

template <typename Entry>
std::vector<uint8_t> EntryBytes(uint32_t id, uint16_t kind, absl::string_view text) {
  Entry fixed = {};
  fixed.entry.id = id;
  return EntryBytes(fixed, kind, text);
}

inline std::vector<uint8_t> AgentEntry(uint32_t id, absl::string_view name) {
  return EntryBytes<rocattach_agent_entry>(id, ROCATTACH_ENTRY_AGENT, name);
}
inline std::vector<uint8_t> QueueEntry(uint32_t id) {
  return EntryBytes<rocattach_queue_entry>(id, ROCATTACH_ENTRY_QUEUE, "");
}
inline std::vector<uint8_t> KernelEntry(uint32_t id, absl::string_view name) {
  return EntryBytes<rocattach_kernel_entry>(id, ROCATTACH_ENTRY_KERNEL, name);
}

template <typename Record>
RecordSlot SlotOf(const Record& record) {
  RecordSlot slot;
  static_assert(sizeof(record) == sizeof(slot.bytes));
  memcpy(slot.bytes, &record, sizeof(record));
  return slot;
}

}  // namespace rocattach

#endif  // ROCATTACH_TESTS_UNIT_RECORD_COLLECTOR_BYTES_H_
