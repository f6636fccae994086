// The records that a session puts into its buffers: of different sizes, one after the
// other, each 8-byte aligned.
#ifndef ROCATTACH_USERSPACE_SESSION_SESSION_RECORD_H_
#define ROCATTACH_USERSPACE_SESSION_SESSION_RECORD_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace rocattach {

// The control protocol and the C API (rocattach_sessions.h) use the same numbers and
// the same layout, so that a buffer is delivered unchanged.
enum class SessionRecordKind : uint32_t {
  kDispatch = 0,
  kTrace = 1,
  // 2 to 4 are kinds of ROCProfiler that this program does not produce.
  kSample = 5,
};

struct RecordHeader {
  SessionRecordKind kind;
  uint32_t bytes;  // of the whole record; the next one follows
  uint64_t id;     // counts the records of a buffer, from 1
};

// CLOCK_BOOTTIME; 0: not known.
struct RecordTimes {
  uint64_t begin_ns, end_ns;
};

// Absent values are not in a record; a value of 0 was measured.
struct RecordValue {
  uint32_t counter;  // index into the names that the filter was created with
  uint32_t pad;
  double value;  // summed over the instances of a hardware counter
};

// The number of a GPU that is not known, or of the host.
inline constexpr uint32_t kNoGpu = UINT32_MAX;

// Bits of DispatchRecord.selected_by.
inline constexpr uint32_t kSelectedByTimestamps = 1;
inline constexpr uint32_t kSelectedByCounters = 2;

// A kernel dispatch; RecordValue[values] follow.
struct DispatchRecord {
  RecordHeader header;
  int32_t pid;
  uint32_t tid;
  uint32_t gpu_id;  // its number among the process's GPUs, from 0
  uint32_t queue_id;
  uint32_t kernel_id;  // 0: not known
  uint32_t pass;       // the pass of its values, from 0
  uint64_t correlation_id;
  RecordTimes times;
  uint32_t grid_size[3];  // work-items
  uint32_t workgroup_size[3];
  uint32_t lds_bytes;
  uint32_t scratch_bytes;
  uint32_t selected_by;  // by these filters of the session: kSelectedBy*
  uint32_t values;
};

// The domains of an API trace, with ROCProfiler's numbers.
enum class TraceDomain : int32_t {
  kHsaApi = 0,
  kMemoryCopies = 1,
  kHipOperations = 2,  // cannot be traced
  kHipApi = 3,
  kKfdApi = 4,        // cannot be traced
  kExtensionApi = 5,  // cannot be traced
  kMarkers = 6,
  // Not from ROCProfiler.
  kRcclApi = 32,
  kMemoryAllocations = 33,
  kScratchMemory = 34,
};

// True for those that the C API lacks: a trace record has no room for their memory.
constexpr bool IsInRecordingsOnly(TraceDomain domain) {
  return domain == TraceDomain::kMemoryAllocations ||
         domain == TraceDomain::kScratchMemory;
}

// An API call, or a memory copy. The text of a marker follows, with a final 0, filled
// up to a multiple of 8 bytes.
struct TraceRecord {
  RecordHeader header;
  int32_t pid;
  uint32_t tid;
  TraceDomain domain;
  uint32_t operation_id;  // the function; for copies the direction: 1 host to host,
                          // 2 host to device, 3 device to host, 4 device to device
  uint64_t correlation_id;
  RecordTimes times;
  uint32_t source_gpu_id, target_gpu_id;  // for copies
  uint64_t bytes;                         // for copies
  const char* text;                       // set for a program when it gets the record
  uint32_t text_bytes;                    // with the final 0; 0: none
  uint32_t pad;
};

// Counters of a whole GPU over an interval; RecordValue[values] follow.
struct SampleRecord {
  RecordHeader header;
  int32_t pid;  // the process through which the GPU was sampled
  uint32_t gpu_id;
  uint32_t pass;
  uint32_t values;
  RecordTimes times;
};

// They are copied as bytes.
static_assert(std::is_trivial_v<DispatchRecord> && std::is_trivial_v<TraceRecord> &&
              std::is_trivial_v<SampleRecord> && std::is_trivial_v<RecordValue>);

// Every record begins with its header, so that one pointer type serves all kinds.
template <typename Record>
const Record& RecordAs(const RecordHeader* header) {
  return *reinterpret_cast<const Record*>(header);
}

// The text that follows the record; nullptr: none.
inline const char* TextOf(const TraceRecord& record) {
  return record.text_bytes == 0 ? nullptr : reinterpret_cast<const char*>(&record + 1);
}
// The size of a trace record with a text of that many bytes.
constexpr size_t TraceBytes(size_t text_bytes) {
  return sizeof(TraceRecord) + (text_bytes + 7) / 8 * 8;
}

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SESSION_SESSION_RECORD_H_
