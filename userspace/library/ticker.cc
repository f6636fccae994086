#include "userspace/library/ticker.h"

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "userspace/base/clock.h"
#include "userspace/base/steady_cond_var.h"
#include "userspace/library/record_buffer.h"

namespace rocattach {

// Shared with a thread that may outlive its Ticker.
struct Ticker::Shared {
  absl::Mutex mutex;
  SteadyCondVar wake;
  bool stop ABSL_GUARDED_BY(mutex) = false;
};

Ticker::Ticker(std::weak_ptr<SessionEngine> engine)
    : shared_(std::make_shared<Shared>()),
      thread_(
          [shared = shared_, engine = std::move(engine)] { Run(*shared, engine); }) {}

Ticker::~Ticker() {
  {
    absl::MutexLock lock(&shared_->mutex);
    shared_->stop = true;
  }
  shared_->wake.SignalAll();
  // The ticker may be destroyed by a callback that it runs, or that waits for one.
  if (UserCallback::Active()) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

void Ticker::Run(Shared& shared, const std::weak_ptr<SessionEngine>& engine) {
  absl::MutexLock lock(&shared.mutex);
  while (!shared.wake.WaitFor(
      &shared.mutex, absl::Milliseconds(1),
      [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(shared.mutex) { return shared.stop; })) {
    shared.mutex.Unlock();
    if (auto alive = engine.lock()) alive->buffers().Tick(BootNs());
    shared.mutex.Lock();
  }
}

}  // namespace rocattach
