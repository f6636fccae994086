// The thread of a pusher: decides when to push, counts, and reports.
#ifndef ROCATTACH_USERSPACE_PUSH_PUSH_LOOP_H_
#define ROCATTACH_USERSPACE_PUSH_PUSH_LOOP_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "userspace/base/wake_event.h"
#include "userspace/push/http_post.h"
#include "userspace/push/push_schedule.h"

namespace rocattach {

// Called on the pusher's thread when pushes begin to fail, with the reason, and with OK
// when a push is accepted again.
using PushStateFunction = std::function<void(const absl::Status&)>;

// The limits on one push, and the server's request for the next one.
struct PushAttempt {
  uint64_t timeout_msec = 0;
  const WakeEvent* stop =
      nullptr;  // ends the push when signalled; null for the last one
  // The delay that the server has requested, if any.
  std::optional<uint64_t> retry_after_seconds;
};

// Counts of pushes, by outcome.
struct PushCounts {
  std::atomic<uint64_t> accepted = 0;  // requests
  std::atomic<uint64_t> failed = 0;    // requests: refused, or without an answer
  // Data points of accepted requests that the collector did not take.
  std::atomic<uint64_t> rejected_points = 0;
};

// Calls a function once per interval, earlier or later after a failed push, and once
// more at the end, unless a push that is under way then gets no answer.
class PushLoop {
 public:
  // Time limit for the last push, at the end.
  static constexpr uint64_t kLastPushMsec = HttpPoster::kStopMsec;

  struct Options {
    const char* thread_name = "";  // at most 15 characters
    uint64_t interval_msec = 0;
    uint64_t timeout_msec = 0;
  };
  using PushFunction = std::function<PushResult(PushAttempt*)>;

  // `counts` must outlive it.
  PushLoop(const Options& options, PushCounts* counts, PushStateFunction on_state);
  ~PushLoop() { Stop(); }
  PushLoop(const PushLoop&) = delete;
  PushLoop& operator=(const PushLoop&) = delete;

  // Starts the thread, on which `push` is called until Stop() returns. Fails if the
  // thread could not be stopped again.
  absl::Status Start(PushFunction push);
  // Pushes once more and ends the thread. Call before destroying what `push` uses.
  void Stop();

  // The functions below are for `push`.

  // Posts `body`. Nullopt if there is no answer, which is counted and reported: the
  // push is to be tried again.
  std::optional<HttpPostReply> Post(HttpPoster* poster, absl::string_view body,
                                    PushAttempt* attempt);
  // Counts an accepted request; `state`: OK, or a problem in spite of that.
  void CountAccepted(const absl::Status& state = absl::OkStatus());
  void CountFailed(const absl::Status& why);

 private:
  void Run();
  void ReportState(const absl::Status& state);

  const Options options_;
  PushCounts* const counts_;
  const PushStateFunction on_state_;
  PushSchedule schedule_;
  bool failing_ = false;
  bool cancelled_ = false;  // a push at the end has no answer
  WakeEvent stop_;
  PushFunction push_;
  std::thread thread_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_PUSH_PUSH_LOOP_H_
