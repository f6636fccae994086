// API calls and markers in a Perfetto trace: slices on the tracks of their threads.
#ifndef ROCATTACH_USERSPACE_EXPORT_PFTRACE_PFTRACE_CALLS_H_
#define ROCATTACH_USERSPACE_EXPORT_PFTRACE_PFTRACE_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "userspace/export/common/export_process.h"
#include "userspace/export/pftrace/pftrace_packets.h"
#include "userspace/export/pftrace/pftrace_process.h"
#include "userspace/stream/session_records.h"

namespace rocattach {

class PftraceCalls {
 public:
  // Writes a batch, with links from calls to the operations that they submitted.
  void Write(absl::Span<const ApiCallRecord> records, const ExportProcess& process,
             PftraceProcess* names, PftracePackets* packets);

 private:
  using Matches = std::vector<std::pair<size_t, uint64_t>>;

  // A slice that has begun.
  struct Open {
    uint64_t end_ns;
    uint64_t track;
  };

  void WriteMarker(const ApiCallRecord& call, absl::string_view function);
  // Writes the calls of todo_ that nest, and leaves the others in todo_.
  void WriteLane(uint32_t lane, const Matches& matches);
  void WriteBegin(const ApiCallRecord& call, uint64_t track,
                  absl::Span<const uint64_t> submitted);
  // Ends the slices that end at `time_ns` or before.
  void CloseUntil(uint64_t time_ns);

  PftraceProcess* names_ = nullptr;
  PftracePackets* packets_ = nullptr;
  // State of the current batch; kept so that a batch allocates little.
  std::vector<const ApiCallRecord*> calls_, markers_;
  std::vector<size_t> todo_, left_;  // indices of calls_
  std::vector<Open> open_;
  std::vector<uint64_t> submitted_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_EXPORT_PFTRACE_PFTRACE_CALLS_H_
