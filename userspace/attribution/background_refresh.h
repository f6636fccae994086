// Does something again and again on a thread of its own, when it is asked to.
#ifndef ROCATTACH_USERSPACE_ATTRIBUTION_BACKGROUND_REFRESH_H_
#define ROCATTACH_USERSPACE_ATTRIBUTION_BACKGROUND_REFRESH_H_

#include <functional>
#include <memory>

#include "absl/time/time.h"
#include "userspace/base/detachable_thread.h"

namespace rocattach {

class BackgroundRefresh {
 public:
  // Returns how long not to do it again, however often it is asked for. May be left
  // behind while it waits, so it owns what it uses.
  using Function = std::function<absl::Duration()>;

  // Does it once at the beginning.
  explicit BackgroundRefresh(Function refresh);
  // Stops.
  ~BackgroundRefresh();

  // Any thread; does not wait.
  void Request();
  // Does not begin again. Waits for a limited time for one that has begun.
  void Stop();

 private:
  struct State;

  const std::shared_ptr<State> state_;
  DetachableThread thread_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_ATTRIBUTION_BACKGROUND_REFRESH_H_
