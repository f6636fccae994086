// Types that describe sessions: targets, ids, filters.
#ifndef ROCATTACH_USERSPACE_SESSION_SESSION_TYPES_H_
#define ROCATTACH_USERSPACE_SESSION_SESSION_TYPES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "userspace/base/process.h"
#include "userspace/session/session_record.h"

namespace rocattach {

class CounterCatalog;

// The only replay mode: a program's work cannot be repeated from outside.
inline constexpr int kNoReplay = -1;

// Handles; 0 names nothing. Never reused within one engine.
enum class SessionId : uint64_t {};
enum class FilterId : uint64_t {};
enum class BufferId : uint64_t {};

// Values are those of ROCProfiler.
enum class FilterKind : int {
  kDispatchTimestamps = 1,
  kCounters = 2,
  kPcSampling = 3,   // not supported
  kThreadTrace = 4,  // not supported
  kSpm = 5,          // not supported
  kApiTrace = 6,
  kCountersSampler = 7,
};

// The purposes of a session, if its program states them. Bits.
enum class SessionMode : uint32_t {
  kProfiling = 1,  // dispatches and counters
  kTracing = 2,    // API calls and copies
};

// Inclusive.
struct NumberRange {
  uint64_t first = 1;
  uint64_t last = UINT64_MAX;
  bool operator==(const NumberRange&) const = default;
};

// The operations that a filter applies to. Empty members do not restrict.
struct Selection {
  // "gfx90a", a part of the product's name, the number among the process's GPUs ("0"),
  // a UUID or a PCI address ("0000:03:00.0").
  std::vector<std::string> gpus;
  // Regular expressions that match anywhere in the name, mangled or demangled.
  // Exclusion takes precedence.
  std::vector<std::string> kernel_include;
  std::vector<std::string> kernel_exclude;
  // Dispatches of the process, from 1.
  std::vector<NumberRange> dispatches;
  // Dispatches of each kernel since the session's start, from 1.
  std::vector<NumberRange> iterations;
  // API functions by name, for the domains that are traced.
  std::vector<std::string> hsa_functions;
  std::vector<std::string> hip_functions;
};

// One filter: what to collect, and for which operations.
struct FilterSpec {
  FilterKind kind = FilterKind::kDispatchTimestamps;
  Selection selection;
  // kCounters and kCountersSampler: counters and metrics, in groups that should be in
  // one pass. Records name them by their index in the list of all groups, one after the
  // other.
  std::vector<std::vector<std::string>> counters;
  // The catalog for lookups; null: that of the program that runs the session. The same
  // for all filters of a session.
  std::shared_ptr<const CounterCatalog> catalog;
  // Names among these that the user did not give: members of sets and blocks. A process
  // whose SDK lacks one is measured without it.
  std::vector<std::string> optional;
  bool single_pass = false;  // refuse a filter that takes several passes
  bool keep_groups = false;  // each group is a separate pass
  // kCounters and kCountersSampler: the recording has the value of every instance as
  // well. A process whose SDK does not distinguish them is measured without.
  bool instances = false;
  // kCounters: if rotation_ns is 0, the number of dispatches of a kernel after which
  // the next pass is used; else rotation_ns is the time after which it is used.
  uint64_t rotation_iterations = 1;
  uint64_t rotation_ns = 0;
  // kApiTrace. May contain a number outside of the enumeration, which is refused.
  std::vector<TraceDomain> api_domains;
  // Those that the user did not name: left out where a process cannot record them.
  std::vector<TraceDomain> optional_domains;
  bool arguments = false;  // the recording has the arguments of calls
  // kCountersSampler, nanoseconds; duration 0: until the session ends.
  uint64_t sample_interval_ns = 0;
  uint64_t sample_duration_ns = 0;
  uint64_t sample_delay_ns = 0;
  int sample_gpu_index = -1;  // n-th GPU of the process; -1: all

  // All groups in one list.
  std::vector<std::string> CounterList() const {
    std::vector<std::string> list;
    for (const auto& group : counters)
      list.insert(list.end(), group.begin(), group.end());
    return list;
  }
};

// Records [begin, end) of a buffer; valid until the callback returns.
using BufferCallback = std::function<void(
    const RecordHeader* begin, const RecordHeader* end, SessionId, BufferId)>;
using SyncCallback = std::function<void(const TraceRecord&, SessionId)>;
// A session has ended without being terminated, because its run ended by itself.
using SessionLostCallback = std::function<void(SessionId, const absl::Status& why)>;

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SESSION_SESSION_TYPES_H_
