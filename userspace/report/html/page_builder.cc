#include "userspace/report/html/page_builder.h"

namespace rocattach {
namespace {

// Some 50 bytes each.
constexpr size_t kMaxItems = 1 << 20;
constexpr size_t kMaxQueueKernels = 1 << 20;
constexpr size_t kMaxProcesses = 128 << 10;
constexpr uint32_t kNoProcess = UINT32_MAX;

// Larger times cannot come from a clock that starts at boot: almost 150 years.
constexpr uint64_t kMaxTime = uint64_t{1} << 62;

template <typename Record>
bool HasTimes(const Record& record) {
  return (record.flags &
          (ROCATTACH_DISPATCH_UNTIMED | ROCATTACH_DISPATCH_UNFINISHED)) == 0 &&
         record.start_ns != 0 && record.start_ns < kMaxTime &&
         record.end_ns < kMaxTime && record.end_ns >= record.start_ns;
}

}  // namespace

void PageBuilder::OnRecording(const FrameContext& at, const v1::StreamHeader* header) {
  ReportBuilder::OnRecording(at, header);
  offset_known_ = header != nullptr && header->clock().realtime_ns() < kMaxTime &&
                  header->clock().boottime_ns() < header->clock().realtime_ns();
  offset_ns_ = offset_known_ ? static_cast<int64_t>(header->clock().realtime_ns() -
                                                    header->clock().boottime_ns())
                             : 0;
}

uint32_t PageBuilder::ProcessOf(const FrameContext& at) {
  const ProcessPlace place(at.recording, at.stream);
  const auto known = process_of_.find(place);
  if (known != process_of_.end()) return known->second;
  if (data_.processes.size() == kMaxProcesses) return kNoProcess;
  const uint32_t process = static_cast<uint32_t>(data_.processes.size());
  data_.processes.push_back(place);
  process_of_[place] = process;
  return process;
}

uint32_t PageBuilder::ItemOf(uint32_t process, uint32_t kernel_id) {
  const auto known = item_of_.find({process, kernel_id});
  if (known != item_of_.end()) return known->second;
  if (data_.items.size() == kMaxItems) return Timeline::kNoItem;
  const uint32_t item = static_cast<uint32_t>(data_.items.size());
  data_.items.emplace_back(process, kernel_id);
  item_of_[{process, kernel_id}] = item;
  return item;
}

int64_t PageBuilder::WallTime(uint64_t ns) {
  const int64_t time = static_cast<int64_t>(ns);
  if (!offset_known_) {
    // The recording's clock is not known: let it begin where the timeline begins.
    offset_known_ = true;
    offset_ns_ = data_.timeline.empty() ? 0 : data_.timeline.first_ns() - time;
  }
  return time + offset_ns_;
}

void PageBuilder::OnDispatches(const FrameContext& at,
                               absl::Span<const rocattach_dispatch> records) {
  ReportBuilder::OnDispatches(at, records);
  const uint32_t process = ProcessOf(at);
  if (process == kNoProcess) return;
  for (const rocattach_dispatch& record : records) {
    if (!HasTimes(record)) continue;
    const uint32_t item = ItemOf(process, record.kernel_id);
    const uint64_t duration = record.end_ns - record.start_ns;
    data_.timeline.Add({process, Timeline::LaneKind::kQueue, record.queue_id}, item,
                       WallTime(record.start_ns), duration);
    const QueueKernelKey key(process, record.queue_id, item);
    auto found = queue_kernels_.find(key);
    if (found == queue_kernels_.end()) {
      if (queue_kernels_.size() == kMaxQueueKernels) {
        data_.without_room_ns += duration;
        continue;
      }
      found = queue_kernels_.try_emplace(key).first;
    }
    found->second.first += duration;
    ++found->second.second;
  }
}

void PageBuilder::OnCopies(const FrameContext& at,
                           absl::Span<const rocattach_copy> records) {
  ReportBuilder::OnCopies(at, records);
  const uint32_t process = ProcessOf(at);
  if (process == kNoProcess) return;
  for (const rocattach_copy& record : records) {
    if (!HasTimes(record)) continue;
    const uint32_t direction =
        v1::CopyDirection_IsValid(record.direction) ? record.direction : 0;
    data_.timeline.Add({process, Timeline::LaneKind::kCopies, direction},
                       Timeline::kNoItem, WallTime(record.start_ns),
                       record.end_ns - record.start_ns);
  }
}

PageData PageBuilder::FinishData() {
  data_.timeline.Finish();
  data_.queue_kernels.reserve(queue_kernels_.size());
  for (const auto& [key, time] : queue_kernels_) {
    const auto& [process, queue, item] = key;
    data_.queue_kernels.push_back({process, queue, item, time.first, time.second});
  }
  return std::move(data_);
}

}  // namespace rocattach
