#include "userspace/stream/launch_order.h"

#include <algorithm>

#include "userspace/abi/hip_stream.h"

namespace rocattach {

uint32_t LaunchOrder::Add(const rocattach_dispatch& record) {
  // rocprofiler-sdk does not report packet numbers.
  if ((record.flags & ROCATTACH_DISPATCH_UNTIMED) != 0 || HipStreamIn(record) != 0 ||
      record.queue_id >= kMostQueues) {
    return 0;
  }
  if (record.queue_id >= queues_.size()) queues_.resize(record.queue_id + 1);
  std::unique_ptr<Queue>& slot = queues_[record.queue_id];
  const Start start = {record.packet_index, record.start_ns};
  if (slot == nullptr) slot = std::make_unique<Queue>();
  std::vector<Start>& starts = slot->starts;
  // Only the first packet can have the number 0; any further 0 means "not known".
  if (start.packet == 0 && !starts.empty()) return 0;
  if (start.start_ns + kJitterNs < record.enqueue_ns) return 1;
  if (!starts.empty() && (start.packet <= starts.back().packet ||
                          start.start_ns + kJitterNs < slot->latest_ns)) {
    return Insert(slot.get(), start);
  }
  if (starts.size() == 2 * kRemembered) {
    starts.erase(starts.begin(), starts.begin() + kRemembered);
  }
  starts.push_back(start);
  slot->latest_ns = std::max(slot->latest_ns, start.start_ns);
  return 0;
}

uint32_t LaunchOrder::Insert(Queue* queue, Start start) {
  std::vector<Start>& starts = queue->starts;
  auto at = std::lower_bound(
      starts.begin(), starts.end(), start,
      [](const Start& a, const Start& b) { return a.packet < b.packet; });
  if (at != starts.end() && at->packet == start.packet) return 0;
  uint32_t found = 0;
  for (auto earlier = starts.begin(); earlier != at; ++earlier) {
    if (earlier->counted || earlier->start_ns <= start.start_ns + kJitterNs) continue;
    earlier->counted = true;
    ++found;
  }
  start.counted = std::any_of(at, starts.end(), [&start](const Start& later) {
    return later.start_ns + kJitterNs < start.start_ns;
  });
  if (start.counted) ++found;
  at = starts.insert(at, start);
  if (starts.size() > 2 * kRemembered) {
    starts.erase(starts.begin(), starts.begin() + kRemembered);
  }
  queue->latest_ns = 0;
  for (const Start& each : starts) {
    queue->latest_ns = std::max(queue->latest_ns, each.start_ns);
  }
  return found;
}

}  // namespace rocattach
