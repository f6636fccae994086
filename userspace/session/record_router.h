// Passes finished records on to the buffers and callbacks of a session.
#ifndef ROCATTACH_USERSPACE_SESSION_RECORD_ROUTER_H_
#define ROCATTACH_USERSPACE_SESSION_RECORD_ROUTER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "userspace/session/record_buffer.h"
#include "userspace/session/session_types.h"

namespace rocattach {

// Counts of what arrived for a session from its processes, read or not.
struct CollectedCounts {
  uint64_t dispatches = 0, counted = 0, samples = 0, api_calls = 0, copies = 0;
  uint64_t memory = 0;
  void Add(const CollectedCounts& more);
};

// The destinations of each filter's records; nullptr: none.
struct SessionRoutes {
  std::shared_ptr<RecordBuffer> timestamps, counters, api, sampler;
  SyncCallback sync;
  ProcessEndedCallback ended;
};

// One per start of a session. Thread-safe; user callbacks run without a lock held.
class RecordRouter {
 public:
  explicit RecordRouter(SessionId session);

  // Takes effect with the next record.
  void SetRoutes(SessionRoutes routes);

  // False if such a record would go to a buffer that is never read, and need not be
  // created. A record without a buffer is wanted, because it is counted as dropped.
  bool WantsDispatch(bool for_timestamps, bool for_counters) const;
  bool WantsTrace() const;
  bool WantsSample() const;
  // Routes a complete record, including the values that follow its fixed part;
  // selected_by tells which filters selected a dispatch.
  void RouteRecord(const RecordHeader* record);
  // Counts what has arrived; called once for everything that does.
  void CountCollected(const CollectedCounts& more);
  CollectedCounts collected() const;
  // Counts records that were lost before they reached the router.
  void CountLost(uint64_t records);
  // Everything of this process has been routed: flushes all buffers.
  void TargetEnded(ProcessId target);
  void Flush();

  // Records that were lost or had no buffer. Buffers count what they drop themselves.
  uint64_t dropped() const;

 private:
  std::shared_ptr<const SessionRoutes> Now() const;
  void Put(const std::shared_ptr<RecordBuffer>& buffer, const RecordHeader* record);
  void RouteDispatch(const SessionRoutes& now, const DispatchRecord& record);
  void RouteTrace(const SessionRoutes& now, const TraceRecord& record);

  const SessionId session_;
  mutable absl::Mutex mutex_;
  std::shared_ptr<const SessionRoutes> routes_ ABSL_GUARDED_BY(mutex_);
  uint64_t dropped_ ABSL_GUARDED_BY(mutex_) = 0;
  struct {
    std::atomic<uint64_t> dispatches = 0, counted = 0, samples = 0, api_calls = 0,
                          copies = 0, memory = 0;
  } collected_;
  // The results of Wants…() for the last SetRoutes; without the lock, since they are
  // called for every record. A record that races with a change of routes may use
  // either.
  enum Route : uint32_t {
    kToTimestamps = 1,
    kToCounters = 2,
    kToApi = 4,
    kToSampler = 8
  };
  std::atomic<uint32_t> unread_ = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SESSION_RECORD_ROUTER_H_
