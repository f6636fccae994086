// Passes finished records on to the buffers and callbacks of a session.
#ifndef ROCATTACH_USERSPACE_LIBRARY_RECORD_ROUTER_H_
#define ROCATTACH_USERSPACE_LIBRARY_RECORD_ROUTER_H_

#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "userspace/library/record_buffer.h"
#include "userspace/session/session_runner.h"
#include "userspace/session/session_types.h"

namespace rocattach {

// The destinations of each filter's records; nullptr: none.
struct SessionRoutes {
  std::shared_ptr<RecordBuffer> timestamps, counters, api, sampler;
  SyncCallback sync;
};

// One per start of a session. Thread-safe; user callbacks run without a lock held.
class RecordRouter : public RecordConsumer {
 public:
  explicit RecordRouter(SessionId session);

  // Takes effect with the next record.
  void SetRoutes(SessionRoutes routes);

  void Consume(const RecordHeader* begin, const RecordHeader* end) override;
  void CountLost(uint64_t records) override;
  // Flushes all buffers.
  void TargetEnded(ProcessId target) override;
  void Flush() override;

  // Records that were lost or had no buffer. Buffers count what they drop themselves.
  uint64_t dropped() const;

 private:
  std::shared_ptr<const SessionRoutes> Now() const;
  void Put(const std::shared_ptr<RecordBuffer>& buffer, const RecordHeader* record);
  // Routes a complete record, including the values that follow its fixed part.
  void Route(const SessionRoutes& now, const RecordHeader* record);
  void RouteDispatch(const SessionRoutes& now, const DispatchRecord& record);
  void RouteTrace(const SessionRoutes& now, const TraceRecord& record);

  const SessionId session_;
  mutable absl::Mutex mutex_;
  std::shared_ptr<const SessionRoutes> routes_ ABSL_GUARDED_BY(mutex_);
  uint64_t dropped_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_LIBRARY_RECORD_ROUTER_H_
