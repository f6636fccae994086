// Removes the stubs of failed attaches from their processes.
#ifndef ROCATTACH_USERSPACE_WATCH_WINDOWS_STUB_REMOVER_H_
#define ROCATTACH_USERSPACE_WATCH_WINDOWS_STUB_REMOVER_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <set>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "injector/stub/stub_removal.h"
#include "userspace/base/steady_cond_var.h"

namespace rocattach {

// Uses its own thread, because a removal may wait for a thread to stop. A process whose
// runtime starts again is attached to again, perhaps with the same cave for the stub,
// so removal and attach exclude each other for each process. If its ID is in use again,
// a stub stays at most, which is harmless: a removal checks the start time.
class StubRemover {
 public:
  // More jobs than this are dropped; their stubs stay, which is harmless.
  static constexpr size_t kMaxJobs = 256;
  // Number of checks of a thread that is still in the stub, and the pause between them.
  static constexpr int kTries = 10;
  static constexpr absl::Duration kPause = absl::Milliseconds(100);

  // The function that removes a stub, and the pause: tests have their own.
  using Removal = std::function<StepResult(const StubLocation&)>;
  explicit StubRemover(Removal removal = RemoveStub, absl::Duration pause = kPause);
  ~StubRemover();
  StubRemover(const StubRemover&) = delete;
  StubRemover& operator=(const StubRemover&) = delete;

  // Removes a stub soon.
  void Remove(const StubLocation& location) ABSL_LOCKS_EXCLUDED(mutex_);

  // Exists while a process is attached to again: nothing is removed from it meanwhile.
  // !ok(): a stub is being removed right now, and its cave must not be used.
  class Reattach {
   public:
    Reattach(StubRemover* remover, pid_t pid);
    ~Reattach();
    Reattach(const Reattach&) = delete;
    Reattach& operator=(const Reattach&) = delete;
    bool ok() const { return ok_; }

   private:
    StubRemover* remover_;
    pid_t pid_;
    bool ok_;
  };

 private:
  struct Job {
    StubLocation location;
    int tries_left = kTries;
  };

  void Run() ABSL_LOCKS_EXCLUDED(mutex_);

  const Removal removal_;
  const absl::Duration pause_;
  absl::Mutex mutex_;
  SteadyCondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<Job> jobs_ ABSL_GUARDED_BY(mutex_);
  std::multiset<pid_t> attaching_ ABSL_GUARDED_BY(mutex_);
  pid_t removing_ ABSL_GUARDED_BY(mutex_) = 0;  // 0: none
  std::thread thread_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_WINDOWS_STUB_REMOVER_H_
