// Finds out what an attach must know of its target, or why the target is refused.
#ifndef ROCATTACH_INJECTOR_PROCESS_TARGET_INSPECTION_H_
#define ROCATTACH_INJECTOR_PROCESS_TARGET_INSPECTION_H_

#include <cstdint>
#include <vector>

#include "injector/attach_request.h"
#include "injector/elf/known_files.h"
#include "injector/elf/library_facts.h"
#include "injector/failure.h"
#include "injector/outcome.h"
#include "injector/prepared_target.h"
#include "injector/process/target_facts.h"
#include "injector/process/thread_status.h"

namespace rocattach {

// The thread is stopped right after the probed instruction, which has at most 15 bytes;
// in a window entered by other means it may be slightly further on.
constexpr uint64_t kWindowBytes = 16;

// Only reads, and never waits for the target: a thread that is stopped, or about to
// stop, is waiting for the result. /proc is read under the thread's ID, which works as
// well as the process's: once the first thread has exited while others run on,
// everything that depends on the memory is empty under the process's ID.
class TargetInspection {
 public:
  // Both must outlive this object; `cache` may be null.
  TargetInspection(const AttachRequest& request, LibraryCache* cache)
      : request_(request), cache_(cache), prepared_(request.known.prepared) {
    facts_.collector_path = request.collector.path;
  }

  // False if Inspect would have to wait for the kernel's description of the process, or
  // read more of /proc because that is missing.
  bool MayInspect();
  // Finds everything, from the cheapest source that is available.
  StepResult Inspect();
  bool inspected() const { return facts_.maps.has_value(); }

  // The part of Inspect that precedes the stop, for a process that runs meanwhile.
  StepResult Prepare(PreparedTarget* prepared);

  // Makes sure that the mappings include this address, if the process has mapped it.
  StepResult CoverAddress(RemoteAddress address);
  // Chooses the room for the stub again. `return_ip`: where the thread continues after
  // it; 0: not known yet.
  StepResult FindCave(uint64_t return_ip);

  TargetFacts& facts() { return facts_; }
  // The stage of the last step; after a failure, of the step that failed.
  AttachStage stage() const { return stage_; }
  // Findings about the process's files, to be recorded in the kernel; often empty.
  const std::vector<KnownFiles::Judgement>& learned() const { return learned_; }

 private:
  bool UsePrepared();
  bool IsDescribed();
  StepResult CheckThread() const;
  StepResult CheckTarget();
  StepResult ChooseCollector(const ThreadStatus& status);
  StepResult Resolve();
  bool ResolveFromLayout();
  StepResult ResolveFromProc();
  StepResult ResolveIn(Maps maps);
  // For a process that has a collector mapped: OK if the attach may go on with it.
  StepResult AcceptCollector(const StepResult& refusal);
  StepResult OpenMemory();
  void FindLocks() const;

  const AttachRequest& request_;
  LibraryCache* cache_;
  PreparedTarget* prepared_;   // null: nothing is prepared, or it has been used
  bool maps_are_old_ = false;  // read before the thread stopped
  rocattach_layout layout_;    // valid as far as it states, once described_
  bool described_ = false;
  std::vector<KnownFiles::Judgement> learned_;
  TargetFacts facts_;
  EarlierAttach earlier_ = request_.earlier;
  AttachStage stage_ = AttachStage::kCheck;
};

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_PROCESS_TARGET_INSPECTION_H_
