#include "userspace/session/record_router.h"

#include <utility>

namespace rocattach {

RecordRouter::RecordRouter(SessionId session)
    : session_(session), routes_(std::make_shared<SessionRoutes>()) {}

void RecordRouter::SetRoutes(SessionRoutes routes) {
  const auto unread = [](const std::shared_ptr<RecordBuffer>& buffer, Route route) {
    return buffer != nullptr && buffer->unread() ? uint32_t{route} : 0;
  };
  uint32_t all_unread = unread(routes.timestamps, kTimestamps) |
                        unread(routes.counters, kCounters) |
                        unread(routes.sampler, kSampler);
  if (!routes.sync) all_unread |= unread(routes.api, kApi);
  unread_.store(all_unread, std::memory_order_relaxed);
  auto changed = std::make_shared<const SessionRoutes>(std::move(routes));
  std::lock_guard<std::mutex> lock(mutex_);
  routes_.swap(changed);
}

bool RecordRouter::WantsDispatch(bool for_timestamps, bool for_counters) const {
  const uint32_t wanted = (for_timestamps ? uint32_t{kTimestamps} : 0) |
                          (for_counters ? uint32_t{kCounters} : 0);
  return (wanted & ~unread_.load(std::memory_order_relaxed)) != 0;
}

bool RecordRouter::WantsTracer() const {
  return (unread_.load(std::memory_order_relaxed) & kApi) == 0;
}

bool RecordRouter::WantsSample() const {
  return (unread_.load(std::memory_order_relaxed) & kSampler) == 0;
}

std::shared_ptr<const SessionRoutes> RecordRouter::Now() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return routes_;
}

uint64_t RecordRouter::dropped() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return dropped_;
}

void RecordRouter::CountLost(uint64_t records) {
  std::lock_guard<std::mutex> lock(mutex_);
  dropped_ += records;
}

void RecordRouter::Put(const std::shared_ptr<RecordBuffer>& buffer,
                       const rocattach_record_header_t* record) {
  if (buffer != nullptr) {
    buffer->Append(record);
  } else {
    CountLost(1);
  }
}

void RecordRouter::Take(const rocattach_record_header_t* record) {
  const std::shared_ptr<const SessionRoutes> now = Now();
  switch (record->kind) {
    case ROCATTACH_PROFILER_RECORD:
      TakeDispatch(*now, *reinterpret_cast<const rocattach_record_profiler_t*>(record));
      break;
    case ROCATTACH_TRACER_RECORD:
      TakeTracer(*now, *reinterpret_cast<const rocattach_record_tracer_t*>(record));
      break;
    case ROCATTACH_COUNTERS_SAMPLER_RECORD:
      Put(now->sampler, record);
      break;
    default:
      CountLost(1);  // of a kind that is not made
      break;
  }
}

void RecordRouter::TakeDispatch(const SessionRoutes& now,
                                const rocattach_record_profiler_t& record) {
  const bool for_timestamps = (record.selected_by & ROCATTACH_SELECTED_BY_TIMESTAMPS);
  const bool for_counters = (record.selected_by & ROCATTACH_SELECTED_BY_COUNTERS);
  // A dispatch stands once in a buffer, even if both filters write to it.
  if (for_timestamps && !(for_counters && now.timestamps == now.counters)) {
    rocattach_record_profiler_t times = record;
    times.header.bytes = sizeof(times);
    times.counters_count = 0;
    Put(now.timestamps, &times.header);
  }
  if (for_counters) Put(now.counters, &record.header);
}

void RecordRouter::TakeTracer(const SessionRoutes& now,
                              const rocattach_record_tracer_t& record) {
  if (now.sync) {
    RecordBuffer::CallbackScope scope;
    now.sync(record, session_);
  }
  // A filter with only a synchronous callback has no buffer, and needs none.
  if (now.api != nullptr || !now.sync) Put(now.api, &record.header);
}

void RecordRouter::Flush() {
  const std::shared_ptr<const SessionRoutes> now = Now();
  for (const auto& buffer : {now->timestamps, now->counters, now->api, now->sampler}) {
    if (buffer != nullptr) buffer->Flush();
  }
}

void RecordRouter::TargetEnded(TargetId target) {
  Flush();
  const std::shared_ptr<const SessionRoutes> now = Now();
  if (now->ended) now->ended(target);
}

}  // namespace rocattach
