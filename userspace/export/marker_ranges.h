// Converts ROCTx calls, as in recordings, to ranges as rocprofv3 has them: one record
// from the push to the pop, and marks that take no time.
#ifndef ROCATTACH_USERSPACE_EXPORT_MARKER_RANGES_H_
#define ROCATTACH_USERSPACE_EXPORT_MARKER_RANGES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "userspace/export/common/export_process.h"
#include "userspace/stream/session_records.h"

namespace rocattach {

// The markers of one process. A range becomes a record when it is popped; until then
// its push is kept, within limits: calls beyond these are written unchanged.
class MarkerRanges {
 public:
  static constexpr size_t kMaxOpen = size_t{1} << 16;        // ranges
  static constexpr size_t kMaxTextBytes = size_t{16} << 20;  // total of their messages

  // Appends the records to write for these calls. Calls of other domains are passed
  // through unchanged.
  void Add(const ExportProcess& process, absl::Span<const ApiCallRecord> calls,
           std::vector<ApiCallRecord>* out);
  // Appends the ranges that were not popped, as the calls that pushed them.
  void Finish(std::vector<ApiCallRecord>* out);

 private:
  struct Thread {
    std::vector<ApiCallRecord> open;  // outer ones first
    uint64_t unkept = 0;              // pushes inside these that were written at once
  };

  void Push(const ApiCallRecord& call, std::vector<ApiCallRecord>* out);
  void Pop(const ApiCallRecord& call, std::vector<ApiCallRecord>* out);

  absl::flat_hash_map<uint32_t, Thread> threads_;
  size_t open_ = 0, text_bytes_ = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_EXPORT_MARKER_RANGES_H_
