// One process on the recorder's side: its window, its memory, its stream, its account.
#ifndef ROCATTACH_USERSPACE_RECORD_TARGET_H_
#define ROCATTACH_USERSPACE_RECORD_TARGET_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "schemas/stream.pb.h"
#include "userspace/base/unique_fd.h"
#include "userspace/record/driver_evidence.h"
#include "userspace/record/operation_counts.h"
#include "userspace/record/output_set.h"
#include "userspace/record/sampling_level.h"
#include "userspace/record/target_dictionary.h"
#include "userspace/record/target_meter.h"
#include "userspace/record/target_records.h"
#include "userspace/record/target_session.h"
#include "userspace/watch/window.h"

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

  // The process has opened another window, after shutting HSA down.
  void Reopen(Window window);
  // Whose the process is.
  void SetWorkload(v1::Workload workload);
  // The kernel side's account of the hold.
  void NoteHoldEnd(const rocattach_event& event);
  // Once for each window, how long its thread was held; 0: not known, or taken already.
  uint64_t TakeHold();
  // The collector has reported. `acknowledged`: it has been notified that its memory is
  // being read.
  void SetMemory(std::unique_ptr<CollectorMemory> memory, bool recording,
                 bool acknowledged);
  bool has_memory() const { return memory_ != nullptr; }
  // Null until the collector has reported in.
  const CollectorMemory* memory() const { return memory_.get(); }
  // It was entered while it did not use the runtime, and has not called it since.
  bool uncalled() const {
    return has_memory() && verdict() == Verdict::kAttached &&
           opened_.event.mode == ROCATTACH_WINDOW_BLOCKED && !memory_->backend_named();
  }
  // The process may wait for this in its OnLoad; once is enough.
  void AcknowledgeMapped();
  bool acknowledged() const { return acknowledged_; }
  // Null until the collector has reported in.
  TargetSession* session() { return session_.get(); }
  ProcessId id() const;
  // Is told of everything that is recorded. Once the collector has reported in.
  void SetMeter(std::shared_ptr<TargetMeter> meter);
  bool metered() const { return meter_ != nullptr; }
  // Tells it what it cannot know from records.
  void UpdateMeter();
  // Reads the collector's state and settles an open verdict; true if it did so now.
  bool SettleFromCollector();
  // True once for each window.
  bool TakeLoadCheck() { return std::exchange(load_check_due_, false); }
  // Attached, although the collector waits for a call of the runtime.
  void SettleUnarmed(const std::string& detail);
  // Settles an open verdict with a reason found by the service. `error`: its errno, 0
  // if none.
  void Settle(Verdict verdict, AttachReason reason, const std::string& detail,
              int error = 0);

  void SetRecording(bool recording);
  // The same for its sessions: nothing is recorded any more, and no session begins.
  void EndRecording();
  // Which of its dispatches are recorded from now on; nothing before the collector has
  // reported in.
  void SetSampling(const SamplingLevel& level, const std::string& reason);
  // Moves what the collector has published into the stream, until this has cost
  // `budget`: a dispatch costs 1, and takes some 100 ns. Returns the number of records.
  // The rest is left for the next call, see behind().
  uint64_t Drain(uint64_t now_ns, uint64_t budget = UINT64_MAX);
  // More was waiting than the last call's budget allowed.
  bool behind() const { return sweeping_; }
  // All of it has been drained and answered. It rests until `until_ns`, or until there
  // is more to drain than few records.
  void RestUntil(uint64_t until_ns);
  // It need not be drained or served now. Costs much less than that.
  bool Rests(uint64_t now_ns) const;
  // Operations that have been seen and will still be recorded, as far as the process
  // says: in flight, or being captured.
  bool HasOpenOperations() const;
  // The process is gone, or recording has stopped: drains what is left, unfinished
  // operations included, within the budget. True when nothing is left.
  bool DrainLast(uint64_t now_ns, uint64_t budget = UINT64_MAX);
  // What became of every operation so far.
  v1::LossAccount Account(bool final) const;
  // Writes the account and the end, and closes the stream.
  v1::LossAccount Close(v1::ProcessEnd end);

  // Why the process's numbers are implausible; empty while they are plausible. After
  // that it is no longer read, and its account has only what was taken before.
  const std::string& not_believable() const { return not_believable_; }
  // Compares what the collector has seen with what the kernel driver says of the process.
  // True once: it uses GPUs in a way that is not seen, for which unseen_work() is the
  // evidence.
  bool CompareWithDriver(const DriverReading& driver);
  const std::string& unseen_work() const { return unseen_work_; }
  // Writes an account of what was lost or left out so far, if that has changed, so that
  // a truncated recording has it.
  void NoteLosses();
  OperationCounts counts() const;
  uint32_t uid() const { return opened_.event.uid; }
  // What the recorder's totals count of it while it lives.
  OperationCounts published;
  // The recorder has notified the observer of implausible numbers.
  bool reported_not_believable = false;
  // True if the process has ended, according to its pidfd, or had ended before its
  // window came: nothing else will tell then.
  bool IsGone() const;

 private:
  void WriteVerdict(v1::WindowState state);
  void NotifyMeter(v1::LossAccount account);
  // Reads what the collector says of its own cost, as far as the process can have had
  // it.
  void ReadOwnNs();
  // These return what they have cost.
  uint64_t ReadDictionary(uint64_t budget);
  uint64_t DrainRings(uint64_t budget, uint64_t* records);
  uint64_t ReadUnfinished();
  void TakeUnfinished();
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
  bool hold_taken_ = false;  // by TakeHold()
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
  uint64_t losses_noted_ = 0;
  uint64_t own_ns_ = 0;    // of the collector's own code, see ReadOwnNs()
  UniqueFd pidfd_;         // not valid: the process had ended, or there was no room
  bool was_gone_ = false;  // it had ended when its window came
  std::shared_ptr<UserMemory> user_;
  AgentTopology* topology_;
  uint64_t rests_until_ns_ = 0;      // see Rests()
  uint64_t most_while_resting_ = 0;  // records of a ring
  uint64_t cost_ = 0;                // of the last Drain(), in dispatches
  // A sweep reads all that was in the memory when it began, over several calls.
  bool sweeping_ = false;
  uint32_t next_ring_ = 0;
  // Steps of the end: sweeps, then the in-flight table, then a last sweep.
  bool ending_ = false;
  int sweeps_left_ = 0;
  uint32_t inflight_read_ = 0;
  std::vector<RecordSlot> unfinished_;  // of the table, while a sweep follows
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_TARGET_H_
