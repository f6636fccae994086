// The commands, plans and answers that a service and a collector exchange through the
// memory that they share. Everything in it is written by an untrusted process: numbers
// are unchecked, texts are bounded and printable.
#ifndef ROCATTACH_USERSPACE_RECORD_DRAIN_COLLECTOR_CONTROL_H_
#define ROCATTACH_USERSPACE_RECORD_DRAIN_COLLECTOR_CONTROL_H_

#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "schemas/stream.pb.h"
#include "userspace/abi/shared_memory.h"

namespace rocattach {

// The collector's answer to the plan that it read last.
struct PlanAnswer {
  uint64_t generation = 0;  // 0: none yet
  uint32_t error = 0;       // enum rocattach_plan_error
  int32_t code = 0;
  uint32_t counter = 0;  // as rocattach_control.plan_error_counter
  std::string text;      // bounded and printable
};

// The backend through which the collector works.
struct BackendFacts {
  uint32_t backend = 0;  // enum rocattach_backend; 0: the runtime has not called yet
  uint32_t reason = 0;   // enum rocattach_backend_reason
  uint32_t record_kinds = 0;
  uint32_t api_domains = 0;
  uint32_t sdk_version = 0;
  std::string text;  // bounded and printable
};

class CollectorControl {
 public:
  // Both lie in the mapped memory, which must outlive this object and be guarded.
  CollectorControl(rocattach_control* control, rocattach_plan* plan)
      : control_(control), plan_(plan) {}

  // An earlier service has written plans, the last one with this generation.
  void ContinueAfter(uint64_t generation) {
    plan_generation_ = generation + (generation & 1);
  }

  // Tells the collector, which may be waiting for this, that its memory is being read.
  void AcknowledgeMapped();
  // Starts or stops recording; takes effect in the target within microseconds, or with
  // its next operation.
  void SetRecording(bool recording);
  // The kinds recorded apart from plans: ROCATTACH_RECORDING_*; 0 while stopped.
  uint64_t baseline() const;
  // Sets which dispatches are recorded, from the next one on: userspace/abi/sampling.h.
  void SetSampling(uint32_t sampling);
  // Writes a plan for the collector and wakes it; `image` is complete except for the
  // generation, which is returned, and start_ns, which is set to now if it is 0.
  uint64_t WritePlan(const rocattach_plan& image);
  // Sets the bits of `kernels` in one selection of the active plan; from then on all
  // kernels below `decided` count as decided.
  void DecideKernels(uint32_t selection, absl::Span<const uint32_t> kernels,
                     uint32_t decided);
  // The plan in the memory. The target can write to it as well: never read back what
  // was written.
  rocattach_plan* plan() { return plan_; }
  PlanAnswer plan_answer() const;
  uint64_t answered_generation() const;
  BackendFacts backend() const;
  // Notifies the collector of what has been written for it.
  void Wake();

  uint32_t state() const;  // enum rocattach_collector_state, unchecked
  // True if the collector's functions are in the runtime's tables: hsa_init calls it.
  bool hears_of_init() const;
  // True if the runtime was already open when the collector's functions were stored.
  bool entered_late() const;
  // Status of an hsa_init that failed before any had succeeded; 0: none has.
  uint32_t init_status() const;
  std::string text() const;  // the reason for a refusal, bounded and printable
  uint64_t armed_ns() const;
  // The collector's description of itself, for the stream.
  v1::Collector Describe() const;

 private:
  rocattach_control* const control_;
  rocattach_plan* const plan_;
  uint64_t plan_generation_ = 0;  // of the last plan written; even
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_DRAIN_COLLECTOR_CONTROL_H_
