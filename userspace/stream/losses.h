// The losses of a process in words: one list for every place that reports them.
#ifndef ROCATTACH_USERSPACE_STREAM_LOSSES_H_
#define ROCATTACH_USERSPACE_STREAM_LOSSES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "schemas/stream.pb.h"

namespace rocattach {

// One reason why data is missing, and how much is missing.
struct Loss {
  uint64_t count = 0;
  // For programs: "ring_full", as in the metrics' label `reason`.
  absl::string_view name;
  // For people, after the count: "ring full".
  absl::string_view label;
  // The same as a clause: "dropped, the ring was full".
  absl::string_view clause;
  // Advice for the user; empty if nothing can be done.
  absl::string_view help;
};

// Number of operations that were seen and are not in the stream; excludes packets that
// were never seen.
uint64_t DroppedRecords(const v1::LossAccount& account);

// Number of missing dispatches, copies and packets: the above plus unseen packets.
uint64_t LostRecords(const v1::LossAccount& account);

// The reasons whose count is not 0: those of LostRecords() first, then those of names,
// counter values, samples, API calls and allocations.
std::vector<Loss> LossesOf(const v1::LossAccount& account);

// "306 unseen, 2 ring full"; empty if nothing is missing.
std::string LossText(const v1::LossAccount& account);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_STREAM_LOSSES_H_
