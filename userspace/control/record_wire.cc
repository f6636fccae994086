#include "userspace/control/record_wire.h"

#include <string.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "userspace/session/rocattach_sessions.h"

namespace rocattach {
namespace {

// What a record of this kind has at least; 0 for kinds that are not made.
size_t FixedBytes(uint32_t kind) {
  switch (kind) {
    case ROCATTACH_PROFILER_RECORD:
      return sizeof(rocattach_record_profiler_t);
    case ROCATTACH_TRACER_RECORD:
      return sizeof(rocattach_record_tracer_t);
    case ROCATTACH_COUNTERS_SAMPLER_RECORD:
      return sizeof(rocattach_record_counters_sampler_t);
    default:
      return 0;
  }
}

// How many values say that they follow. The fixed part must be there.
uint64_t CountersOf(const rocattach_record_header_t* record) {
  if (record->kind == ROCATTACH_PROFILER_RECORD) {
    return reinterpret_cast<const rocattach_record_profiler_t*>(record)->counters_count;
  }
  if (record->kind == ROCATTACH_COUNTERS_SAMPLER_RECORD) {
    return reinterpret_cast<const rocattach_record_counters_sampler_t*>(record)
        ->num_counters;
  }
  return 0;
}

// Bytes of the record at the front of `rest` bytes; 0: there is none.
size_t WholeRecord(const rocattach_record_header_t* record, size_t rest) {
  if (rest < sizeof(*record)) return 0;
  const size_t fixed = FixedBytes(record->kind);
  if (fixed == 0 || record->bytes < fixed || record->bytes > rest) return 0;
  const uint64_t bytes =
      fixed + CountersOf(record) * sizeof(rocattach_record_counter_t);
  return record->bytes == bytes ? record->bytes : 0;
}

}  // namespace

void RouteRecords(const v1::RunRecords& records, RecordRouter* router) {
  if (records.lost() > 0) router->CountLost(records.lost());
  const std::string& bytes = records.records();
  // Aligned, and not the message's.
  std::vector<uint64_t> words((bytes.size() + 7) / 8);
  if (!bytes.empty()) memcpy(words.data(), bytes.data(), bytes.size());
  const char* base = reinterpret_cast<const char*>(words.data());
  for (size_t offset = 0; offset < bytes.size();) {
    const auto* record =
        reinterpret_cast<const rocattach_record_header_t*>(base + offset);
    const size_t whole = WholeRecord(record, bytes.size() - offset);
    if (whole == 0) {
      router->CountLost(1);
      return;
    }
    router->Take(record);
    offset += whole;
  }
}

}  // namespace rocattach
