// From finished records to the buffers and callbacks of a session.
#ifndef ROCATTACH_USERSPACE_SESSION_RECORD_ROUTER_H_
#define ROCATTACH_USERSPACE_SESSION_RECORD_ROUTER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "userspace/session/record_buffer.h"
#include "userspace/session/session_types.h"

namespace rocattach {

// Where the records of each filter go; nullptr: nowhere.
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

  // False if such a record would go to a buffer that nobody reads: it need not be made.
  // A record that has no buffer is wanted: it is counted as dropped.
  bool WantsDispatch(bool for_timestamps, bool for_counters) const;
  bool WantsTracer() const;
  bool WantsSample() const;
  // A record of rocattach_sessions.h, complete with what follows its fixed part; a
  // dispatch says itself which filters selected it.
  void Take(const rocattach_record_header_t* record);
  // Records that were lost on their way here.
  void CountLost(uint64_t records);
  // Everything of this process has been taken: flushes all buffers.
  void TargetEnded(TargetId target);
  void Flush();

  // Records that were lost, or had no buffer to go to. What buffers drop, they count
  // themselves.
  uint64_t dropped() const;

 private:
  std::shared_ptr<const SessionRoutes> Now() const;
  void Put(const std::shared_ptr<RecordBuffer>& buffer,
           const rocattach_record_header_t* record);
  void TakeDispatch(const SessionRoutes& now,
                    const rocattach_record_profiler_t& record);
  void TakeTracer(const SessionRoutes& now, const rocattach_record_tracer_t& record);

  const SessionId session_;
  mutable std::mutex mutex_;
  std::shared_ptr<const SessionRoutes> routes_;
  uint64_t dropped_ = 0;
  // What Wants…() answer, of the last SetRoutes: without the lock, since they are asked
  // for every record. A record that is made or not made while routes change may have
  // come just before.
  enum Route : uint32_t { kTimestamps = 1, kCounters = 2, kApi = 4, kSampler = 8 };
  std::atomic<uint32_t> unread_ = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SESSION_RECORD_ROUTER_H_
