// Shared memory for tests of the collector's parts.
#ifndef ROCATTACH_TESTS_UNIT_COLLECTOR_TEST_MEMORY_H_
#define ROCATTACH_TESTS_UNIT_COLLECTOR_TEST_MEMORY_H_

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <vector>

#include "userspace/collector/common/memory.h"

namespace rocattach::collector {

inline rocattach_collector_config SmallConfig() {
  rocattach_collector_config config = {};
  config.size = sizeof(config);
  config.version = ROCATTACH_SHM_VERSION;
  config.recording_flags = ROCATTACH_RECORDING_DISPATCHES | ROCATTACH_RECORDING_COPIES;
  config.recording = 1;
  config.ring_count = 4;
  config.ring_slots = 64;
  config.inflight_count = 128;
  config.dictionary_bytes = 65536;
  config.window_id = 77;
  strcpy(config.collector_path, "/nowhere/librocattach-collector.so");
  return config;
}

// Makes the memory's pages unavailable from `offset` on: an access to them is a SIGBUS,
// as when the machine or a control group has no memory left.
inline void MakeUncommittable(const Memory& memory, uint64_t offset) {
  const int file = memfd_create("short", 0);
  (void)mmap(memory.base() + offset, memory.geometry().total_bytes - offset,
             PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0);
  close(file);
}

// The records that a ring holds from position `first` on, as T.
template <typename T>
std::vector<T> RecordsIn(const Memory& memory, uint32_t ring, uint64_t first = 0) {
  std::vector<T> records;
  const rocattach_ring* header = memory.ring(ring);
  const auto* slots =
      reinterpret_cast<const uint8_t*>(header) + ROCATTACH_RING_HEADER_BYTES;
  for (uint64_t i = first; i < header->head; ++i) {
    T record;
    memcpy(&record, slots + (i % memory.geometry().ring_slots) * ROCATTACH_SLOT_BYTES,
           sizeof(record));
    records.push_back(record);
  }
  return records;
}

// All dispatch records of all rings.
inline std::vector<rocattach_dispatch> AllDispatches(const Memory& memory) {
  std::vector<rocattach_dispatch> all;
  for (uint32_t i = 0; i < memory.geometry().ring_count; ++i) {
    for (const auto& record : RecordsIn<rocattach_dispatch>(memory, i)) {
      if (record.kind == ROCATTACH_RECORD_DISPATCH) all.push_back(record);
    }
  }
  return all;
}

}  // namespace rocattach::collector

#endif  // ROCATTACH_TESTS_UNIT_COLLECTOR_TEST_MEMORY_H_
