// Finds the API call that submitted an operation. Recordings do not contain it, but
// they contain the thread and the time of the submission, and it is the innermost call
// that the thread was in at that time.
#ifndef ROCATTACH_USERSPACE_EXPORT_COMMON_LAUNCH_MATCHER_H_
#define ROCATTACH_USERSPACE_EXPORT_COMMON_LAUNCH_MATCHER_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "userspace/stream/session_records.h"

namespace rocattach {

// Sorts calls by thread, then in the order in which they began, outer ones first.
void SortCalls(std::vector<const ApiCallRecord*>* calls);

// The operations of one process that wait for their calls. A call is recorded when it
// has returned, an operation when it has completed, so either may come first.
class LaunchMatcher {
 public:
  // Maximum number of operations that wait; beyond it, the earlier half is dropped.
  static constexpr size_t kMaxWaiting = 1 << 16;

  // Adds an operation (any number that identifies it) that a thread submitted. False,
  // and not kept, if the thread's calls up to that time have been seen already.
  bool Submit(uint32_t tid, uint64_t enqueue_ns, uint64_t operation);

  // Takes the next calls, in the order of SortCalls(). Returns pairs of (index of the
  // call, operation), sorted by call.
  const std::vector<std::pair<size_t, uint64_t>>& Match(
      absl::Span<const ApiCallRecord* const> calls);

 private:
  // Maximum number of threads that are remembered.
  static constexpr size_t kMaxThreads = 1 << 16;

  struct Waiting {
    uint32_t tid;
    uint64_t enqueue_ns;
    uint64_t operation;
  };
  using WaitingIterator = std::vector<Waiting>::iterator;

  // Matches the calls of one thread with its operations, and moves those without a call
  // to `kept`.
  WaitingIterator MatchThread(absl::Span<const ApiCallRecord* const> calls,
                              size_t first_call, WaitingIterator begin,
                              WaitingIterator end, WaitingIterator kept);

  std::vector<Waiting> waiting_;
  absl::flat_hash_map<uint32_t, uint64_t> seen_until_ns_;  // by thread
  std::vector<std::pair<size_t, uint64_t>> matches_;
  std::vector<size_t> stack_;  // calls that have begun and not returned
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_EXPORT_COMMON_LAUNCH_MATCHER_H_
