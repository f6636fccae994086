#include "userspace/attribution/background_refresh.h"

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace rocattach {
namespace {

// Time limit for Stop(): a file system that does not answer blocks its reader.
constexpr absl::Duration kStopTimeout = absl::Seconds(2);

}  // namespace

// Shared with the thread, which may be left behind.
struct BackgroundRefresh::State {
  explicit State(Function given) : refresh(std::move(given)) {}

  void AwaitRequest() ABSL_LOCKS_EXCLUDED(mutex) {
    absl::MutexLock lock(&mutex);
    mutex.Await(absl::Condition(&requested));
    requested = false;
  }

  const Function refresh;
  absl::Mutex mutex;
  bool requested ABSL_GUARDED_BY(mutex) = true;
};

BackgroundRefresh::BackgroundRefresh(Function refresh)
    : state_(std::make_shared<State>(std::move(refresh))),
      thread_("rwa-workloads", kStopTimeout,
              [state = state_](const DetachableThread::StopToken& stop) {
                for (;;) {
                  state->AwaitRequest();
                  if (stop.stop_requested() || stop.WaitFor(state->refresh())) break;
                }
              }) {}

BackgroundRefresh::~BackgroundRefresh() {
  Stop();
}

void BackgroundRefresh::Request() {
  absl::MutexLock lock(&state_->mutex);
  state_->requested = true;
}

void BackgroundRefresh::Stop() {
  // First, so that the thread, which the request wakes, does not begin another run.
  thread_.RequestStop();
  Request();
  thread_.Stop();
}

}  // namespace rocattach
