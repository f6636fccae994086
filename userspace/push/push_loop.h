// The thread of a pusher: when it pushes, and what it counts and reports.
#ifndef ROCATTACH_USERSPACE_PUSH_PUSH_LOOP_H_
#define ROCATTACH_USERSPACE_PUSH_PUSH_LOOP_H_

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
#include "userspace/telemetry/push_counts.h"

namespace rocattach {

// Called on the pusher's thread when pushes begin to fail, with the reason, and with OK
// when one is accepted again.
using PushStateFunction = std::function<void(const absl::Status&)>;

// What one push may take, and what it finds out.
struct PushAttempt {
  uint64_t timeout_msec = 0;
  const WakeEvent* stop =
      nullptr;  // ends the push when signalled; null at the last one
  // What the server has asked for, if anything.
  std::optional<uint64_t> retry_after_seconds;
};

// Calls a function every interval, sooner or later where a push failed, and once more at
// the end.
class PushLoop {
 public:
  // How long the last push, at the end, may take.
  static constexpr uint64_t kLastPushMsec = 3000;

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

  // Starts the thread, on which `push` is called until Stop() returns. An error if it
  // could not be stopped again.
  absl::Status Start(PushFunction push);
  // Pushes once more, and ends the thread. Before what `push` uses is destroyed.
  void Stop();

  // The rest is for `push`.

  // Posts `body`. Without an answer, which is counted and reported: nullopt, and the
  // push is to be tried again.
  std::optional<HttpPostReply> Post(HttpPoster* poster, absl::string_view body,
                                    PushAttempt* attempt);
  // The server has accepted a request; `state`: OK, or what is wrong nevertheless.
  void NoteAccepted(const absl::Status& state = absl::OkStatus());
  void NoteFailed(const absl::Status& why);

 private:
  void Run();
  void NoteState(const absl::Status& state);

  const Options options_;
  PushCounts* const counts_;
  const PushStateFunction on_state_;
  PushSchedule schedule_;
  bool failing_ = false;
  WakeEvent stop_;
  PushFunction push_;
  std::thread thread_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_PUSH_PUSH_LOOP_H_
