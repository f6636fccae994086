#include "userspace/library/record_router.h"

#include <utility>

namespace rocattach {

RecordRouter::RecordRouter(SessionId session)
    : session_(session), routes_(std::make_shared<SessionRoutes>()) {}

void RecordRouter::SetRoutes(SessionRoutes routes) {
  auto changed = std::make_shared<const SessionRoutes>(std::move(routes));
  absl::MutexLock lock(&mutex_);
  routes_.swap(changed);
}

std::shared_ptr<const SessionRoutes> RecordRouter::Now() const {
  absl::MutexLock lock(&mutex_);
  return routes_;
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

void RecordRouter::Consume(const RecordHeader* begin, const RecordHeader* end) {
  const char* at = reinterpret_cast<const char*>(begin);
  while (at < reinterpret_cast<const char*>(end)) {
    const auto* record = reinterpret_cast<const RecordHeader*>(at);
    Route(*Now(), record);  // a callback may have changed the routes
    at += record->bytes;
  }
}

void RecordRouter::Route(const SessionRoutes& now, const RecordHeader* record) {
  switch (record->kind) {
    case SessionRecordKind::kDispatch:
      RouteDispatch(now, RecordAs<DispatchRecord>(record));
      break;
    case SessionRecordKind::kTrace:
      RouteTrace(now, RecordAs<TraceRecord>(record));
      break;
    case SessionRecordKind::kSample:
      Put(now.sampler, record);
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
    UserCallback callback;
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

void RecordRouter::TargetEnded(ProcessId) {
  Flush();
}

}  // namespace rocattach
