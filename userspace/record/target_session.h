// The sessions of one process: its plan, and the records that come of it.
#ifndef ROCATTACH_USERSPACE_RECORD_TARGET_SESSION_H_
#define ROCATTACH_USERSPACE_RECORD_TARGET_SESSION_H_

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "schemas/stream.pb.h"
#include "userspace/base/demangler.h"
#include "userspace/record/collector_memory.h"
#include "userspace/record/output_set.h"
#include "userspace/session/compiled_plan.h"
#include "userspace/session/session_backend.h"
#include "userspace/watch/backend_choice.h"

namespace rocattach {

// What became of records that sessions asked for.
struct SessionCounts {
  uint64_t counted = 0;  // dispatches with values, handed on
  uint64_t samples = 0;
  uint64_t api_calls = 0;
  uint64_t counted_invalid = 0, samples_invalid = 0, api_calls_invalid = 0;
  // What the exact filter did not want: dispatches, and values of dispatches.
  uint64_t filtered = 0, counted_filtered = 0;
};

// Everything in a target's memory is the target's word: plans are written and never
// read back, what is read is checked against the plan that we wrote. On the recorder's
// thread.
class TargetSession {
 public:
  using Done = std::function<void(absl::Status)>;

  // How long a collector may take to answer a plan.
  static constexpr uint64_t kAnswerNs = 2'000'000'000;
  // Where it has to load rocprofiler-sdk first.
  static constexpr uint64_t kLateAnswerNs = 8'000'000'000;

  // All outlive it.
  TargetSession(TargetId id, CollectorMemory* memory, ProcessOutput output,
                OutputSet* output_set);
  ~TargetSession();

  // Allows to load rocprofiler-sdk into a process that was armed without it, where a
  // session wants samples; by these rules it is looked for.
  void AllowLateSdk(SdkSearch search) { late_sdk_ = std::move(search); }

  // What the dictionary tells.
  void AddAgent(const v1::Agent& agent);
  void AddKernel(const v1::Kernel& kernel);
  void AddFunction(const v1::ApiFunction& function);

  // What it can give; nullopt until its runtime has called the collector.
  // `sdk_missing`: why the service did not choose rocprofiler-sdk; empty if it did, or
  // was not asked to.
  std::optional<TargetDescription> Describe(const std::string& sdk_missing) const;

  // Writes the plan. `done` is called when it is in force, refused, or not answered in
  // time. FAILED_PRECONDITION at once if a session is active, or if the plan needs
  // rocprofiler-sdk, and that cannot be added.
  void Start(std::shared_ptr<const CompiledPlan> plan, std::shared_ptr<RecordSink> sink,
             uint64_t session, Done done);
  // Says in the stream that the process cannot do what a session asks for.
  void NoteRefusal(uint64_t session, const std::string& why);
  // Ends the active session. Records of it may still come.
  void Stop();
  // `done` is called when the collector has answered the last plan, or is late, and
  // what it had published by then has been drained.
  void Settle(Done done);
  // `done` is called when everything that has been published by now has been drained.
  void AfterDrain(Done done);
  // Looks for answers. True if one is awaited: call again soon.
  bool Poll(uint64_t now_ns);
  // After each round of draining.
  void Drained();
  // The process is gone and its memory drained.
  void Ended();

  bool active() const { return current_ != nullptr; }

  // A dispatch whose fields have been checked. Returns whether it goes into the stream;
  // removes what only sessions understand from its flags.
  bool TakeDispatch(uint32_t ring, rocattach_dispatch* record);
  bool TakeCopy(rocattach_copy* record);
  void TakeSample(uint32_t ring, const RecordSlot& slot);
  void TakeValues(uint32_t ring, const RecordSlot& slot);
  void TakeApiCall(const RecordSlot& slot);
  // Anything that does not continue the values of an operation.
  void EndValues(uint32_t ring);
  // Hands the values that have been collected to the stream.
  void Write();

  const SessionCounts& counts() const { return counts_; }

 private:
  // A plan that was written, from then until nothing of it can come any more.
  struct Active {
    uint64_t generation = 0;
    uint64_t session = 0;
    uint32_t plan_id = 0;
    std::shared_ptr<const CompiledPlan> plan;
    std::shared_ptr<RecordSink> sink;
    uint32_t decided = 1;  // kernels below have been told to the target
    // By selection and kernel, what its filter says of the name: 0 not asked yet, 1 no,
    // 2 yes. The name of a kernel is looked at once, not with every dispatch.
    std::array<std::vector<uint8_t>, ROCATTACH_PLAN_SELECTIONS> answers = {};
  };
  // An operation whose values are being read.
  struct Pending {
    enum class Of { kNothing, kDispatch, kSample } of = Of::kNothing;
    rocattach_dispatch dispatch = {};
    rocattach_sample sample = {};
    bool for_timestamps = false, for_counters = false;
    std::shared_ptr<Active> active;
    uint16_t pass = 0, slots = 0, next = 0;
    std::vector<CounterReading> readings;
  };
  struct Waiting {
    uint64_t generation = 0;
    uint64_t asked_ns = 0;
    Done done;
    uint64_t patience_ns = kAnswerNs;
    int rounds = 0;
  };

  std::shared_ptr<Active> ByTag(uint32_t tag) const;
  std::shared_ptr<Active> ByGeneration(uint64_t generation) const;
  // Numbers of rings are ours: there are as many as the memory had when it was mapped.
  Pending& PendingOf(uint32_t ring) {
    return ring < pending_.size() ? pending_[ring] : NewPending(ring);
  }
  Pending& NewPending(uint32_t ring);
  uint32_t PlanId(const CompiledPlan& plan);
  void DecideKernels();
  // What the selection's filter says of the kernel's name.
  bool SelectsName(Active* active, uint32_t selection, uint32_t kernel);
  bool Selects(Active* active, uint32_t selection, const rocattach_dispatch& record);
  bool Continues(const Pending& pending, const rocattach_values& values) const;
  void Complete(Pending* pending);
  void CompleteDispatch(const Pending& pending);
  void CompleteSample(const Pending& pending);
  // What the records of its values have in common.
  static CounterRecord RecordOf(const Pending& pending);
  void CountInvalid(const Pending& pending);
  void AnswerStart(uint64_t now_ns, bool answered);
  // True if the process was armed without the SDK because nobody had asked for it.
  bool LacksSdk(const BackendFacts& backend) const;
  // Fills in `image` what a collector without the SDK needs for samples.
  absl::Status AddLateSdk(rocattach_plan* image) const;
  void Event(const Active& active, v1::SessionEvent::What what,
             const std::string& detail, uint64_t latency_ns);

  const TargetId id_;
  CollectorMemory* memory_;
  const ProcessOutput output_;
  OutputSet* output_set_;
  std::optional<SdkSearch> late_sdk_;

  std::vector<v1::Agent> agents_;
  std::vector<TargetFunction> functions_;
  std::vector<std::string> kernels_;  // by id; names end at the first that is missing
  Demangler demangler_;
  uint64_t generation_ = 0;  // of the last plan that was written
  std::shared_ptr<Active> current_;
  std::shared_ptr<Active> stopped_;  // its last answer is awaited
  uint64_t stop_asked_ns_ = 0;
  std::deque<std::shared_ptr<Active>> recent_;  // the current one included
  std::optional<Waiting> starting_;
  std::vector<Waiting> settling_;
  std::map<std::string, uint32_t> plan_ids_;  // by the serialised description
  std::vector<Pending> pending_;              // by ring
  std::vector<CounterRecord> counter_batch_, sample_batch_;
  std::vector<ApiCallRecord> api_batch_;
  SessionCounts counts_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_TARGET_SESSION_H_
