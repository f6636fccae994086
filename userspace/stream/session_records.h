// Records of sessions, as in the stream.
#ifndef ROCATTACH_USERSPACE_STREAM_SESSION_RECORDS_H_
#define ROCATTACH_USERSPACE_STREAM_SESSION_RECORDS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace rocattach {

// The value of one instance of a counter.
struct CounterInstance {
  uint64_t position = 0;  // see CounterBatch.list_position
  double value = 0;
  bool operator==(const CounterInstance&) const = default;
};

// One counter of one dispatch or of one sample.
struct CounterRecord {
  uint64_t session = 0;    // number in the recording
  uint64_t operation = 0;  // correlation id of the dispatch; number of the sample
  uint32_t plan = 0;       // SessionPlan.id
  uint16_t pass = 0;
  uint16_t counter = 0;    // index of SessionPlan.counters
  uint32_t kernel_id = 0;  // 0 in samples
  uint16_t agent_id = 0;
  uint32_t instances = 1;
  uint64_t begin_ns = 0, end_ns = 0;  // samples only
  double sum = 0, minimum = 0, maximum = 0;
  // Null unless the session asked for the values of instances; never empty.
  std::shared_ptr<const std::vector<CounterInstance>> each;
};

// The fields that all values of a dispatch or sample share, in the form in which a
// writer gets them.
struct CounterOperation {
  uint64_t session = 0;
  uint64_t operation = 0;  // as in CounterRecord, like the rest
  uint32_t plan = 0;
  uint32_t kernel_id = 0;
  uint16_t pass = 0;
  uint16_t agent_id = 0;
  uint32_t values = 0;  // number of its values, at most 4096
  uint64_t begin_ns = 0, end_ns = 0;
};

// Position of an instance in each dimension of the hardware; 0 in dimensions that its
// counter does not have.
struct InstancePlace {
  uint32_t xcc, aid, shader_engine, shader_array, wgp, instance;
};
InstancePlace PlaceOf(uint64_t position);

inline constexpr uint16_t kApiCallHasText = 1;
inline constexpr uint16_t kApiCallTextCut = 2;
inline constexpr uint16_t kApiCallArguments = 4;  // the text contains the arguments

// A call of an API function.
struct ApiCallRecord {
  uint64_t session = 0;
  uint64_t correlation_id = 0;
  uint64_t ancestor_id = 0;  // 0: none
  uint64_t begin_ns = 0, end_ns = 0;
  uint32_t tid = 0;
  uint16_t domain = 0;  // v1::ApiDomain
  uint16_t function = 0;
  uint16_t flags = 0;  // kApiCall*
  std::string text;    // a marker's message, or the arguments of a call
};

// One argument of a call; the views point into the record's text.
struct ApiArgument {
  absl::string_view name, value;
};
// Returns the call's arguments; empty unless its flags have kApiCallArguments.
std::vector<ApiArgument> ArgumentsOf(const ApiCallRecord& call);

// An allocation or release of memory.
struct MemoryRecord {
  uint64_t session = 0;
  uint64_t correlation_id = 0;
  uint64_t begin_ns = 0, end_ns = 0;
  uint64_t address = 0, bytes = 0;
  uint32_t tid = 0;
  uint32_t queue_id = 0;   // scratch memory only
  uint16_t operation = 0;  // v1::MemoryOperation
  uint16_t agent_id = 0;   // 0: not known
  uint16_t scratch_flags = 0;
  bool operator==(const MemoryRecord&) const = default;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_STREAM_SESSION_RECORDS_H_
