// Meters, which add up what processes do, for metrics. Called on the recorder's thread;
// must not wait.
#ifndef ROCATTACH_USERSPACE_RECORD_TARGET_METER_H_
#define ROCATTACH_USERSPACE_RECORD_TARGET_METER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "schemas/stream.pb.h"
#include "userspace/abi/records.h"
#include "userspace/session/session_backend.h"

namespace rocattach {

// Information on a process besides its records.
struct TargetStanding {
  v1::LossAccount account;
  std::vector<TargetGpu> gpus;
  // Keys of GPUs whose counters a session owns in it, and that session's number.
  std::vector<std::string> counted_gpus;
  uint64_t counting_session = 0;
  // Keys of GPUs whose counters another tool uses in the process, as rocprofiler-sdk
  // reported when a session was last started there.
  std::vector<std::string> external_gpus;
  double ring_fill = 0;  // the fullest ring since the last call: 0 to 1
  uint64_t own_ns = 0;   // time in the collector's own code so far; plausible
};

// Adds up what one process does.
class TargetMeter {
 public:
  virtual ~TargetMeter() = default;
  // Records that go into the stream; their fields have been checked.
  virtual void AddDispatches(absl::Span<const rocattach_dispatch> records) = 0;
  // The same for sampled dispatches; each stands for as many as its weight, at least 1.
  virtual void AddSampled(absl::Span<const rocattach_dispatch> records,
                          absl::Span<const uint32_t> weights) = 0;
  virtual void AddCopies(absl::Span<const rocattach_copy> records) = 0;
  // Counters of one dispatch; rocattach_counter_value::counter is an index of `names`.
  virtual void AddCounters(uint32_t agent_id, const std::vector<std::string>& names,
                           absl::Span<const rocattach_counter_value> readings) = 0;
  // Counters of a whole GPU over a span of time.
  virtual void AddSample(uint32_t agent_id, const std::vector<std::string>& names,
                         absl::Span<const rocattach_counter_value> readings,
                         uint64_t span_ns) = 0;
  // Called now and then, and when the process has ended.
  virtual void Update(const TargetStanding& standing) = 0;
  // The process has ended and is drained. Nothing else follows.
  virtual void End() = 0;
};

class TargetMeters {
 public:
  virtual ~TargetMeters() = default;
  // A process is attached. `names` has the names of its kernels as they become known.
  virtual std::shared_ptr<TargetMeter> Open(
      const v1::Process& process, std::shared_ptr<const TargetNames> names) = 0;
  virtual void OnVerdict(const v1::WindowEvent& verdict) = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_TARGET_METER_H_
