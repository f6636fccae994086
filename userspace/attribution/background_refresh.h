// Runs a function repeatedly on a thread of its own, when this is requested.
#ifndef ROCATTACH_USERSPACE_ATTRIBUTION_BACKGROUND_REFRESH_H_
#define ROCATTACH_USERSPACE_ATTRIBUTION_BACKGROUND_REFRESH_H_

#include <functional>
#include <memory>

#include "absl/time/time.h"
#include "userspace/base/detachable_thread.h"

namespace rocattach {

class BackgroundRefresh {
 public:
  // Returns a pause: until it is over, the function is not run again, however often
  // that is requested. A blocked function may be left behind, so it owns what it uses.
  using Function = std::function<absl::Duration()>;

  // Runs the function once at the beginning.
  explicit BackgroundRefresh(Function refresh);
  // Stops.
  ~BackgroundRefresh();

  // Any thread; does not wait.
  void Request();
  // Prevents further runs. Waits for a limited time for one that has begun.
  void Stop();

 private:
  struct State;

  const std::shared_ptr<State> state_;
  DetachableThread thread_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_ATTRIBUTION_BACKGROUND_REFRESH_H_
