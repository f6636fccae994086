#include "userspace/session/record_router.h"

#include <utility>

namespace rocattach {

void CollectedCounts::Add(const CollectedCounts& more) {
  dispatches += more.dispatches;
  counted += more.counted;
  samples += more.samples;
  api_calls += more.api_calls;
  copies += more.copies;
  memory += more.memory;
}

RecordRouter::RecordRouter(SessionId session)
    : session_(session), routes_(std::make_shared<SessionRoutes>()) {}

void RecordRouter::SetRoutes(SessionRoutes routes) {
  const auto unread = [](const std::shared_ptr<RecordBuffer>& buffer, Route route) {
    return buffer != nullptr && buffer->unread() ? uint32_t{route} : 0;
  };
  uint32_t all_unread = unread(routes.timestamps, kToTimestamps) |
                        unread(routes.counters, kToCounters) |
                        unread(routes.sampler, kToSampler);
  if (!routes.sync) all_unread |= unread(routes.api, kToApi);
  unread_.store(all_unread, std::memory_order_relaxed);
  auto changed = std::make_shared<const SessionRoutes>(std::move(routes));
  absl::MutexLock lock(&mutex_);
  routes_.swap(changed);
}

bool RecordRouter::WantsDispatch(bool for_timestamps, bool for_counters) const {
  const uint32_t wanted = (for_timestamps ? uint32_t{kToTimestamps} : 0) |
                          (for_counters ? uint32_t{kToCounters} : 0);
  return (wanted & ~unread_.load(std::memory_order_relaxed)) != 0;
}

bool RecordRouter::WantsTrace() const {
  return (unread_.load(std::memory_order_relaxed) & kToApi) == 0;
}

bool RecordRouter::WantsSample() const {
  return (unread_.load(std::memory_order_relaxed) & kToSampler) == 0;
}

std::shared_ptr<const SessionRoutes> RecordRouter::Now() const {
  absl::MutexLock lock(&mutex_);
  return routes_;
}

void RecordRouter::CountCollected(const CollectedCounts& more) {
  const auto add = [](std::atomic<uint64_t>* to, uint64_t count) {
    if (count != 0) to->fetch_add(count, std::memory_order_relaxed);
  };
  add(&collected_.dispatches, more.dispatches);
  add(&collected_.counted, more.counted);
  add(&collected_.samples, more.samples);
  add(&collected_.api_calls, more.api_calls);
  add(&collected_.copies, more.copies);
  add(&collected_.memory, more.memory);
}

CollectedCounts RecordRouter::collected() const {
  CollectedCounts counts;
  counts.dispatches = collected_.dispatches.load(std::memory_order_relaxed);
  counts.counted = collected_.counted.load(std::memory_order_relaxed);
  counts.samples = collected_.samples.load(std::memory_order_relaxed);
  counts.api_calls = collected_.api_calls.load(std::memory_order_relaxed);
  counts.copies = collected_.copies.load(std::memory_order_relaxed);
  counts.memory = collected_.memory.load(std::memory_order_relaxed);
  return counts;
}

uint64_t RecordRouter::dropped() const {
  absl::MutexLock lock(&mutex_);
  return dropped_;
}

void RecordRouter::CountLost(uint64_t records) {
  absl::MutexLock lock(&mutex_);
  dropped_ += records;
}

void RecordRouter::Put(const std::shared_ptr<RecordBuffer>& buffer,
                       const RecordHeader* record) {
  if (buffer != nullptr) {
    buffer->Append(record);
  } else {
    CountLost(1);
  }
}

void RecordRouter::RouteRecord(const RecordHeader* record) {
  const std::shared_ptr<const SessionRoutes> now = Now();
  switch (record->kind) {
    case SessionRecordKind::kDispatch:
      RouteDispatch(*now, RecordAs<DispatchRecord>(record));
      break;
    case SessionRecordKind::kTrace:
      RouteTrace(*now, RecordAs<TraceRecord>(record));
      break;
    case SessionRecordKind::kSample:
      Put(now->sampler, record);
      break;
    default:
      CountLost(1);  // a kind that is never produced
      break;
  }
}

void RecordRouter::RouteDispatch(const SessionRoutes& now,
                                 const DispatchRecord& record) {
  const bool for_timestamps = (record.selected_by & kSelectedByTimestamps);
  const bool for_counters = (record.selected_by & kSelectedByCounters);
  // A dispatch is put into a buffer only once, even if both filters write to it.
  if (for_timestamps && !(for_counters && now.timestamps == now.counters)) {
    DispatchRecord times = record;
    times.header.bytes = sizeof(times);
    times.values = 0;
    Put(now.timestamps, &times.header);
  }
  if (for_counters) Put(now.counters, &record.header);
}

void RecordRouter::RouteTrace(const SessionRoutes& now, const TraceRecord& record) {
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

void RecordRouter::TargetEnded(ProcessId target) {
  Flush();
  const std::shared_ptr<const SessionRoutes> now = Now();
  if (now->ended) now->ended(target);
}

}  // namespace rocattach
