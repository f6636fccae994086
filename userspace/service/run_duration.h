// The time from which the duration of a run counts.
#ifndef ROCATTACH_USERSPACE_SERVICE_RUN_DURATION_H_
#define ROCATTACH_USERSPACE_SERVICE_RUN_DURATION_H_

#include <cstdint>

namespace rocattach {

// A duration counts from when every process has its verdict and has answered the
// session. But a process that is recorded already does not wait long for others, nor
// for an answer that is late or never comes.
class RunDuration {
 public:
  // Longest time from the first attach until the duration counts.
  static constexpr uint64_t kMostNs = 1'000'000'000;

  // Returns when the duration began; 0: not yet. Once begun it stays the same, however
  // late this is called. `first_attach_ns`: time of the first attach; 0: none.
  uint64_t BeganNs(uint64_t now_ns, uint64_t first_attach_ns, bool ready);

 private:
  uint64_t began_ns_ = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SERVICE_RUN_DURATION_H_
