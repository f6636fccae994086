// From when the duration of a run counts.
#ifndef ROCATTACH_USERSPACE_SERVICE_RUN_DURATION_H_
#define ROCATTACH_USERSPACE_SERVICE_RUN_DURATION_H_

#include <cstdint>

namespace rocattach {

// A duration counts from when every process has its verdict and has answered the
// session. But who is recorded already does not wait for others for long, nor for an
// answer that is late or never comes.
class RunDuration {
 public:
  // From the first attach, the longest time until the duration counts.
  static constexpr uint64_t kMostNs = 1'000'000'000;

  // When it began; 0: not yet. Once it has begun that stays, however late this is
  // called. `first_attach_ns`: since when a process is recorded; 0: none is.
  uint64_t BeganNs(uint64_t now_ns, uint64_t first_attach_ns, bool ready);

 private:
  uint64_t began_ns_ = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SERVICE_RUN_DURATION_H_
