// One process on the recorder's side: its window, its memory, its stream, its account.
#ifndef ROCATTACH_USERSPACE_RECORD_TARGET_H_
#define ROCATTACH_USERSPACE_RECORD_TARGET_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "schemas/stream.pb.h"
#include "userspace/base/unique_fd.h"
#include "userspace/record/drain/operation_counts.h"
#include "userspace/record/drain/target_dictionary.h"
#include "userspace/record/drain/target_records.h"
#include "userspace/record/driver_evidence.h"
#include "userspace/record/output/output_set.h"
#include "userspace/record/sampling_level.h"
#include "userspace/record/sessions/target_session.h"
#include "userspace/record/target_meter.h"
#include "userspace/watch/windows/window.h"

namespace rocattach {

class Target {
 public:
  // `output` and `topology` must outlive the target. `user` is shared by all targets of
  // its user.
  Target(Window window, ProcessOutput output, v1::Process process,
         OutputSet* output_set, std::shared_ptr<UserMemory> user = nullptr,
         AgentTopology* topology = nullptr);

  const v1::Process& process() const { return process_; }
  const ProcessOutput& output() const { return output_; }
  Verdict verdict() const { return verdict_; }
  // The last window event that was written; the verdict once there is one.
  const v1::WindowEvent& window() const { return window_; }
  const Window& opened() const { return opened_; }

  // Call this when the process has opened another window, after shutting HSA down.
  void Reopen(Window window);
  // Sets the process's workload.
  void SetWorkload(v1::Workload workload);
  // Called with the kernel side's account of the hold.
  void OnHoldEnd(const rocattach_event& event);
  // Time that the window's thread was held, once for each window; 0: unknown, or taken.
  uint64_t TakeHoldNs();
  // The collector has reported. `acknowledged`: it has been notified that its memory is
  // being read.
  void SetMemory(std::unique_ptr<CollectorMemory> memory, bool recording,
                 bool acknowledged);
  bool has_memory() const { return memory_ != nullptr; }
  // Null until the collector has reported in.
  const CollectorMemory* memory() const { return memory_.get(); }
  // True if it was entered while outside the runtime and has not called it since.
  bool uncalled() const {
    return has_memory() && verdict() == Verdict::kAttached &&
           opened_.event.mode == ROCATTACH_WINDOW_BLOCKED && !memory_->backend_named();
  }
  // Releases a process that waits in its OnLoad; has an effect only once.
  void AcknowledgeMapped();
  bool acknowledged() const { return acknowledged_; }
  // Null until the collector has reported in.
  TargetSession* session() { return session_.get(); }
  ProcessId id() const;
  // `meter` receives all that is recorded. Only after the collector has reported in.
  void SetMeter(std::shared_ptr<TargetMeter> meter);
  bool metered() const { return meter_ != nullptr; }
  // Tells the meter what is not in the records.
  void UpdateMeter();
  // Reads the collector's state and settles an open verdict; true if it did so now.
  bool SettleFromCollector();
  // True once for each window.
  bool TakeLoadCheck() { return std::exchange(load_check_due_, false); }
  // Settles as attached, although the collector waits for a call of the runtime.
  void SettleUnarmed(const std::string& detail);
  // Settles an open verdict with a reason found by the service. `error`: its errno, 0
  // if none.
  void Settle(Verdict verdict, AttachReason reason, const std::string& detail,
              int error = 0);

  void SetRecording(bool recording);
  // Ends recording and sessions: nothing is recorded any more, and no session begins.
  void EndRecording();
  // Sets which of its dispatches are recorded from now on; no effect before the
  // collector has reported in.
  void SetSampling(const SamplingLevel& level, const std::string& reason);
  // Moves what the collector has published into the stream, until this has cost
  // `budget`: a dispatch costs 1, and takes some 100 ns. Returns the number of records.
  // The rest is left for the next call, see behind().
  uint64_t Drain(uint64_t now_ns, uint64_t budget = UINT64_MAX);
  // True if more was waiting than the last call's budget allowed.
  bool behind() const { return sweeping_; }
  // Everything has been drained and answered. The target rests until `until_ns`, or
  // until more than a few records wait.
  void RestUntil(uint64_t until_ns);
  // True if it need not be drained or served now. Costs much less than doing that.
  bool Rests(uint64_t now_ns) const;
  // True if operations have been seen that will still be recorded, as far as the
  // process says: in flight, or being captured.
  bool HasOpenOperations() const;
  // The process is gone, or recording has stopped: drains what is left, unfinished
  // operations included, within the budget. True when nothing is left.
  bool DrainLast(uint64_t now_ns, uint64_t budget = UINT64_MAX);
  // The account of all operations so far.
  v1::LossAccount Account(bool final) const;
  // Writes the account and the end, and closes the stream.
  v1::LossAccount Close(v1::ProcessEnd end);

  // The reason why its numbers are implausible; empty while there is none. Once there
  // is, the process is no longer read, and its account has only what was taken before.
  const std::string& not_believable() const { return not_believable_; }
  // Compares what the collector has seen with what the kernel driver says of the
  // process. Returns true, once, if the process uses GPUs in a way that is not seen;
  // unseen_work() is the evidence.
  bool CompareWithDriver(const DriverReading& driver);
  const std::string& unseen_work() const { return unseen_work_; }
  // Writes an account of what was lost or sampled out so far, if that has changed, so
  // that a truncated recording has it.
  void WriteLosses();
  OperationCounts counts() const;
  uint32_t uid() const { return opened_.event.uid; }
  // The target's part of the recorder's totals while it lives.
  OperationCounts published;
  // True if the recorder has notified the observer of implausible numbers.
  bool reported_not_believable = false;
  // True if the process has ended, according to its pidfd, or had ended before its
  // window came: there is no other notice of the end then.
  bool IsGone() const;

 private:
  void WriteVerdict(v1::WindowState state);
  void NotifyMeter(v1::LossAccount account);
  // Reads the time that the collector reports as its own cost, limited to what the
  // process can have spent.
  void ReadOwnNs();
  // These return their cost, in dispatches.
  uint64_t ReadDictionary(uint64_t budget);
  uint64_t DrainRings(uint64_t budget, uint64_t* records);
  uint64_t ReadUnfinished();
  void ConsumeUnfinished();
  // Ends the sweeps that are left, and takes their cost from the budget. False if it
  // did not suffice.
  bool FinishSweeps(uint64_t now_ns, uint64_t* budget);
  // Stops reading a target with implausible numbers.
  void CheckBelief(uint64_t now_ns);

  ProcessOutput output_;
  OutputSet* output_set_;
  v1::Process process_;
  Window opened_;
  v1::WindowEvent window_;
  bool hold_taken_ = false;  // set by TakeHoldNs()
  Verdict verdict_ = Verdict::kOpen;
  bool load_check_due_ = true;
  // These are null until the collector has reported in.
  std::unique_ptr<CollectorMemory> memory_;
  std::unique_ptr<TargetSession> session_;
  std::unique_ptr<TargetDictionary> dictionary_;
  std::unique_ptr<TargetRecords> records_;
  std::shared_ptr<TargetMeter> meter_;  // may stay null
  bool acknowledged_ = false;
  std::string not_believable_;
  DriverEvidence evidence_;
  std::string unseen_work_;
  uint64_t losses_written_ = 0;
  uint64_t own_ns_ = 0;    // in the collector's own code, see ReadOwnNs()
  UniqueFd pidfd_;         // not valid: the process had ended, or there was no room
  bool was_gone_ = false;  // it had ended when its window came
  std::shared_ptr<UserMemory> user_;
  AgentTopology* topology_;
  uint64_t rests_until_ns_ = 0;      // see Rests()
  uint64_t most_while_resting_ = 0;  // records in a ring
  uint64_t cost_ = 0;                // of the last Drain(), in dispatches
  // A sweep reads all that was in the memory when it began, over several calls.
  bool sweeping_ = false;
  uint32_t next_ring_ = 0;
  // Steps of the end: sweeps, then the in-flight table, then a last sweep.
  bool ending_ = false;
  int sweeps_left_ = 0;
  uint32_t inflight_read_ = 0;
  std::vector<RecordSlot> unfinished_;  // of the in-flight table, until a sweep ends
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_TARGET_H_
