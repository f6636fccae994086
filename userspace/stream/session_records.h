// Records of sessions, as in the stream.
#ifndef ROCATTACH_USERSPACE_STREAM_SESSION_RECORDS_H_
#define ROCATTACH_USERSPACE_STREAM_SESSION_RECORDS_H_

#include <cstdint>
#include <string>

namespace rocattach {

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
};

inline constexpr uint16_t kApiCallHasText = 1;
inline constexpr uint16_t kApiCallTextCut = 2;

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
  std::string text;    // a marker's message
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_STREAM_SESSION_RECORDS_H_
