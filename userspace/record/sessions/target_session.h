// The sessions of one process: its plan, and its collector's answers.
#ifndef ROCATTACH_USERSPACE_RECORD_SESSIONS_TARGET_SESSION_H_
#define ROCATTACH_USERSPACE_RECORD_SESSIONS_TARGET_SESSION_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "schemas/stream.pb.h"
#include "userspace/record/drain/collector_memory.h"
#include "userspace/record/drain/kernel_names.h"
#include "userspace/record/output/output_set.h"
#include "userspace/record/sessions/active_plan.h"
#include "userspace/record/sessions/session_records.h"
#include "userspace/session/compiled_plan.h"
#include "userspace/session/session_backend.h"
#include "userspace/watch/windows/backend_choice.h"

namespace rocattach {

// Nothing in a target's memory is trusted: plans are written and never read back. On
// the recorder's thread.
class TargetSession {
 public:
  using Done = std::function<void(absl::Status)>;

  // Time limit for a collector to answer a plan.
  static constexpr uint64_t kAnswerNs = 2'000'000'000;
  // The same for a collector that has to load rocprofiler-sdk first.
  static constexpr uint64_t kLateAnswerNs = 8'000'000'000;

  // All arguments must outlive it.
  TargetSession(ProcessId id, CollectorMemory* memory, ProcessOutput output,
                OutputSet* output_set);
  ~TargetSession();

  // Allows rocprofiler-sdk to be loaded into a process that was armed without it, if a
  // session needs samples or API calls; `search` says how to find it.
  void AllowLateSdk(SdkSearch search) { late_sdk_ = std::move(search); }

  // Entries of the dictionary.
  void AddAgent(const v1::Agent& agent);
  void AddKernel(const v1::Kernel& kernel);
  void AddFunction(const v1::ApiFunction& function);

  // Describes what the process can record; nullopt until its runtime has called the
  // collector. `sdk_missing`: why the service did not choose rocprofiler-sdk; empty if
  // it did, or if no session needed it.
  std::optional<TargetDescription> Describe(const std::string& sdk_missing) const;

  // Writes the plan. `done` is called when the plan is active, refused, or not answered
  // in time. FAILED_PRECONDITION at once if a session is active, or if the plan needs
  // rocprofiler-sdk, and that cannot be added.
  void Start(std::shared_ptr<const CompiledPlan> plan, std::shared_ptr<RecordSink> sink,
             uint64_t session, Done done);
  // Writes to the stream that the process cannot do what a session requests.
  void WriteRefusal(uint64_t session, const std::string& why);
  // Ends the active session. Its records may still arrive.
  void Stop();
  // The same, and no further session can begin.
  void Close();
  // `done` is called when the collector has answered the last plan, or is late, and
  // what it had published by then has been drained.
  void Settle(Done done);
  // `done` is called when everything that has been published by now has been drained.
  void AfterDrain(Done done);
  // Checks for answers, and for the end of the session. True if an answer is awaited:
  // call again soon.
  bool Poll(uint64_t now_ns);
  // True if an answer of the collector, or the next round of draining, is awaited.
  bool awaited() const {
    return starting_.has_value() || stopped_ != nullptr || !settling_.empty();
  }
  // Call this after each round of draining.
  void Drained();
  // Call this instead once its memory is no longer read: ends waits for its records.
  void NotRead();
  // The process is gone and its memory drained.
  void Ended();

  bool active() const { return current_ != nullptr; }
  // Time at which the active session ends by itself, boot-time clock.
  uint64_t ends_ns() const;

  // Its GPUs, as far as its collector has reported them.
  std::vector<TargetGpu> Gpus() const;
  // Keys of the GPUs whose counters its active session owns.
  std::vector<std::string> CountedGpus() const;
  // The number of that session; 0: none.
  uint64_t counting_session() const {
    return current_ == nullptr ? 0 : current_->session;
  }
  // GPUs whose counters another tool of the process had when a session was last started.
  const std::vector<std::string>& external_gpus() const { return external_gpus_; }
  const std::shared_ptr<TargetNames>& names() const { return names_; }

  // Once for each session: dispatches that the process made before its request.
  uint64_t TakeDispatchesBefore() { return std::exchange(before_, 0); }
  // The records of its sessions.
  SessionRecords* records() { return &records_; }
  const SessionCounts& counts() const { return records_.counts(); }

 private:
  struct Waiting {
    uint64_t generation = 0;
    uint64_t asked_ns = 0;
    Done done;
    uint64_t patience_ns = kAnswerNs;
    int rounds = 0;
  };

  uint32_t PlanId(const CompiledPlan& plan);
  void DecideKernels();
  void AnswerStart(uint64_t now_ns, bool answered);
  // Ends the wait for the stopped plan, and writes its event if it had begun.
  void FinishStop(const std::string& how);
  // True if the process was armed without the SDK because no session needed it.
  bool LacksSdk(const BackendFacts& backend) const;
  // Fills in `image` what a collector without the SDK needs for samples and calls.
  absl::Status AddLateSdk(rocattach_plan* image) const;
  // Adds what an SDK that is added to a running process can trace, if it can be added.
  void AddLateApi(TargetDescription* description) const;
  void Event(const ActivePlan& active, v1::SessionEvent::What what,
             const std::string& detail, uint64_t latency_ns);

  bool closed_ = false;
  const ProcessId id_;
  CollectorMemory* memory_;
  const ProcessOutput output_;
  OutputSet* output_set_;
  std::optional<SdkSearch> late_sdk_;
  std::string sdk_refusal_;  // why adding it failed; empty: not tried, or it has worked

  std::vector<v1::Agent> agents_;
  std::vector<TargetFunction> functions_;
  const std::shared_ptr<TargetNames> names_ = std::make_shared<TargetNames>();
  KernelNames kernels_{names_};
  RecentPlans plans_;
  SessionRecords records_;
  uint64_t generation_ = 0;  // of the last plan that was written
  std::vector<std::string> external_gpus_;
  std::shared_ptr<ActivePlan> current_;
  std::shared_ptr<ActivePlan> stopped_;  // its last answer is awaited
  bool stopped_had_begun_ = false;       // false: it was stopped before it was active
  uint64_t stop_asked_ns_ = 0;
  std::optional<Waiting> starting_;
  uint64_t before_ = 0;  // see TakeDispatchesBefore()
  std::vector<Waiting> settling_;
  std::map<std::string, uint32_t> plan_ids_;  // by the serialised description
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_SESSIONS_TARGET_SESSION_H_
