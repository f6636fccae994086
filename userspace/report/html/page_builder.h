// Collects from streams what a page shows: the report, the timeline, and the time of
// each kernel in each queue.
#ifndef ROCATTACH_USERSPACE_REPORT_HTML_PAGE_BUILDER_H_
#define ROCATTACH_USERSPACE_REPORT_HTML_PAGE_BUILDER_H_

#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "userspace/report/html/timeline.h"
#include "userspace/report/report.h"

namespace rocattach {

// Identifies a process by its recording and its stream.
using ProcessPlace = std::pair<uint32_t, uint32_t>;

// The time of one kernel in one queue.
struct QueueKernel {
  uint32_t process = 0;  // index in PageData.processes
  uint32_t queue = 0;
  uint32_t item = 0;  // index in PageData.items
  uint64_t ns = 0;
  uint64_t count = 0;
};

// The data of a page besides the report; all of it is bounded.
struct PageData {
  Timeline timeline;
  std::vector<ProcessPlace> processes;
  // Kernels of the timeline: the index of the process, and its kernel's id.
  std::vector<std::pair<uint32_t, uint32_t>> items;
  std::vector<QueueKernel> queue_kernels;
  // Time of kernels for which queue_kernels had no room.
  uint64_t without_room_ns = 0;
};

class PageBuilder : public ReportBuilder {
 public:
  // Call it after Finish().
  PageData FinishData();

  void OnRecording(const FrameContext& at, const v1::StreamHeader* header) override;
  void OnDispatches(const FrameContext& at,
                    absl::Span<const rocattach_dispatch> records) override;
  void OnCopies(const FrameContext& at,
                absl::Span<const rocattach_copy> records) override;

 private:
  uint32_t ProcessOf(const FrameContext& at);
  uint32_t ItemOf(uint32_t process, uint32_t kernel_id);
  // Time on the wall clock, so that recordings of several machines share one axis.
  int64_t WallTime(uint64_t ns);

  PageData data_;
  absl::flat_hash_map<ProcessPlace, uint32_t> process_of_;
  absl::flat_hash_map<std::pair<uint32_t, uint32_t>, uint32_t> item_of_;
  using QueueKernelKey = std::tuple<uint32_t, uint32_t, uint32_t>;
  absl::flat_hash_map<QueueKernelKey, std::pair<uint64_t, uint64_t>> queue_kernels_;
  // The current recording's clock offset; without a header, set by the first operation.
  bool offset_known_ = false;
  int64_t offset_ns_ = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_REPORT_HTML_PAGE_BUILDER_H_
