#include "userspace/attribution/background_refresh.h"

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"

namespace rocattach {
namespace {

// How long Stop() waits: a file system that does not answer keeps its reader.
constexpr absl::Duration kPatience = absl::Seconds(2);

}  // namespace

// Belongs to the thread too, which may be left behind.
struct BackgroundRefresh::State {
  explicit State(Function given) : refresh(std::move(given)) {}

  const Function refresh;
  absl::Notification stop, done;
  absl::Mutex mutex;
  bool requested ABSL_GUARDED_BY(mutex) = true;
};

BackgroundRefresh::BackgroundRefresh(Function refresh)
    : state_(std::make_shared<State>(std::move(refresh))),
      thread_([state = state_] { Run(state); }) {}

BackgroundRefresh::~BackgroundRefresh() {
  Stop();
}

void BackgroundRefresh::Run(const std::shared_ptr<State>& state) {
  for (;;) {
    {
      absl::MutexLock lock(&state->mutex);
      state->mutex.Await(absl::Condition(&state->requested));
      state->requested = false;
    }
    if (state->stop.HasBeenNotified()) break;
    if (state->stop.WaitForNotificationWithTimeout(state->refresh())) break;
  }
  state->done.Notify();
}

void BackgroundRefresh::Request() {
  absl::MutexLock lock(&state_->mutex);
  state_->requested = true;
}

void BackgroundRefresh::Stop() {
  if (!thread_.joinable()) return;
  state_->stop.Notify();
  Request();
  if (state_->done.WaitForNotificationWithTimeout(kPatience)) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

}  // namespace rocattach
