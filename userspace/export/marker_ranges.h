// ROCTx ranges as rocprofv3 has them: one record from the push to the pop, and marks
// that take no time. Recordings have the calls.
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

// The markers of one process. A range is a record when it has been popped; so far its
// push is kept, within limits: what exceeds them is written as the call that it is.
class MarkerRanges {
 public:
  static constexpr size_t kMaxOpen = size_t{1} << 16;        // ranges
  static constexpr size_t kMaxTextBytes = size_t{16} << 20;  // of their messages

  // Appends what is to be written of these calls. Those of other domains are as they
  // were.
  void Add(const ExportProcess& process, absl::Span<const ApiCallRecord> calls,
           std::vector<ApiCallRecord>* out);
  // Appends the ranges that were not popped, as the calls that they are.
  void Finish(std::vector<ApiCallRecord>* out);

 private:
  struct Thread {
    std::vector<ApiCallRecord> open;  // outer ones first
    uint64_t unkept = 0;              // inside of these, and written already
  };

  void Push(const ApiCallRecord& call, std::vector<ApiCallRecord>* out);
  void Pop(const ApiCallRecord& call, std::vector<ApiCallRecord>* out);

  absl::flat_hash_map<uint32_t, Thread> threads_;
  size_t open_ = 0, text_bytes_ = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_EXPORT_MARKER_RANGES_H_
