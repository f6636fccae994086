// The session engine's interface to the processes that it collects from.
#ifndef ROCATTACH_USERSPACE_SESSION_SESSION_BACKEND_H_
#define ROCATTACH_USERSPACE_SESSION_SESSION_BACKEND_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "userspace/abi/shared_memory.h"
#include "userspace/session/session_types.h"
#include "userspace/session/target_names.h"

namespace rocattach {

struct CompiledPlan;

// A GPU as a process sees it.
struct TargetGpu {
  uint32_t agent_id = 0;     // in the process's dictionary
  std::string key;           // the same for all processes of the machine, see GpuKey()
  std::string uuid, pci;     // "GPU-…", "0000:03:00.0"; empty: not known
  std::string architecture;  // "gfx90a", features allowed
  std::string product_name;
  // For metrics; 0: not known.
  uint32_t compute_units = 0;
  uint32_t simds_per_cu = 0;
  uint32_t shader_engines = 0;
  uint32_t wavefront_size = 0;
  uint32_t xccs = 0;
};

// An API function whose calls a process can trace.
struct TargetFunction {
  uint32_t domain = 0;  // enum rocattach_plan_api
  uint32_t number = 0;  // within the domain
  std::string name;
};

// Describes what a process can record.
struct TargetDescription {
  std::vector<TargetGpu> gpus;
  // ROCATTACH_PLAN_RECORD_*.
  uint32_t record_kinds = 0;
  // The reason why the others are not available, for users: "its runtime has no
  // rocprofiler-register".
  std::string missing_reason;
  std::vector<TargetFunction> functions = {};
  // More names are added while it runs; nullptr: there are no more than those above.
  std::shared_ptr<TargetNames> names = {};
  // The APIs whose calls it can record, a bit for each enum rocattach_plan_api.
  uint32_t api_domains = UINT32_MAX;
};

struct DispatchEvent {
  rocattach_dispatch dispatch;
  // The filters that selected it.
  bool for_timestamps = false;
  bool for_counters = false;
  uint32_t pass = 0;  // of the GPU's architecture
  absl::Span<const rocattach_counter_value> readings;
};

struct ApiEvent {
  TraceDomain domain = TraceDomain::kHsaApi;
  uint32_t function = 0;  // within the domain
  uint32_t tid = 0;
  uint64_t correlation_id = 0;
  uint64_t begin_ns = 0, end_ns = 0;
  absl::string_view text = {};  // of a marker
};

struct SampleEvent {
  uint32_t agent_id = 0;
  uint32_t pass = 0;
  uint64_t begin_ns = 0, end_ns = 0;
  absl::Span<const rocattach_counter_value> readings;
};

// The domain that an enum rocattach_plan_api stands for.
TraceDomain TraceDomainOf(uint32_t plan_api);
// The names of a process, filled from its description if it has none.
std::shared_ptr<TargetNames> NamesOf(const TargetDescription& description);
// The names of GPUs, for users.
std::vector<GpuName> GpuNames(const std::vector<TargetGpu>& gpus);

// Receives from a backend what a session collects. Calls for one target come one at a
// time; they may run user callbacks, and from there the engine may call the backend
// again.
class RecordSink {
 public:
  virtual ~RecordSink() = default;
  virtual void OnDispatches(ProcessId target,
                            absl::Span<const DispatchEvent> events) = 0;
  // False if no program reads the records: dispatches need not be passed then,
  // CountDispatches() is enough.
  virtual bool ReadsDispatches() const { return true; }
  // Counts dispatches that were selected by each of the filters, and not passed.
  virtual void CountDispatches(uint64_t for_timestamps, uint64_t for_counters) {
    (void)for_timestamps;
    (void)for_counters;
  }
  virtual void OnCopies(ProcessId target, absl::Span<const rocattach_copy> copies) = 0;
  virtual void OnApiCalls(ProcessId target, absl::Span<const ApiEvent> events) = 0;
  virtual void OnSamples(ProcessId target, absl::Span<const SampleEvent> events) = 0;
  // The end of the session, boot-time clock; it may be brought forward. A process
  // records nothing from then on, and is not waited for if it has not begun, whatever
  // the session's other processes do.
  virtual uint64_t ends_ns() const { return UINT64_MAX; }
  // Counts allocations and the like that were recorded; sessions only count them.
  virtual void OnMemory(ProcessId target, uint64_t count) {
    (void)target;
    (void)count;
  }
  // The process is gone and everything it recorded has been delivered: the last call
  // for this target.
  virtual void OnTargetEnded(ProcessId target) = 0;
};

// Implementations are thread-safe. Every function may be called from inside a sink
// call, on the same thread, except Settle and Drain.
class SessionBackend {
 public:
  virtual ~SessionBackend() = default;

  // The current processes. Quick, never calls a sink.
  virtual std::vector<ProcessId> Targets() = 0;
  // NOT_FOUND for a process that does not exist (any more). Quick, never calls a sink.
  virtual absl::StatusOr<TargetDescription> Describe(ProcessId target) = 0;
  // The target that has this pid now.
  virtual absl::StatusOr<ProcessId> FindTarget(pid_t pid) = 0;
  // False if there are processes, they have reported their API functions, and none has
  // this one. Future processes are checked when they start.
  virtual bool MayHaveApiFunction(TraceDomain domain, const std::string& name);

  // Activates the plan. On success, records arrive until Stop returns or the process
  // ends; on an error, none do.
  virtual absl::Status Start(ProcessId target, std::shared_ptr<const CompiledPlan> plan,
                             std::shared_ptr<RecordSink> sink) = 0;
  // Ends recording without waiting: what was recorded before may still have to be
  // delivered. OK for a process that has ended.
  virtual absl::Status Stop(ProcessId target) = 0;
  // Waits until everything that a stopped process recorded has been delivered. Never
  // called from a user's callback, because a delivery may be waiting for that callback
  // to return (it needs room in the buffer that is being delivered). The engine stops
  // all targets of a session before it waits for the first: a delivering thread may be
  // busy with the records of the others as long as they keep arriving.
  virtual absl::Status Settle(ProcessId target) = 0;
  // Delivers what has been recorded so far. Never called from a user's callback.
  // DATA_LOSS if the memory is no longer plausible.
  virtual absl::Status Drain(ProcessId target) = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SESSION_SESSION_BACKEND_H_
