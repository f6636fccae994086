// The steps of one attach, and what they know.
#ifndef ROCATTACH_INJECTOR_ATTACH_RUN_H_
#define ROCATTACH_INJECTOR_ATTACH_RUN_H_

#include <sys/user.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "injector/attach.h"
#include "injector/attach_request.h"
#include "injector/failure.h"
#include "injector/library_facts.h"
#include "injector/loader_lock.h"
#include "injector/memory_samples.h"
#include "injector/outcome.h"
#include "injector/stub.h"
#include "injector/target_inspection.h"
#include "injector/tracee.h"

namespace rocattach {

// One attach, step by step. The order:
// 1. Seize. From here on the thread ID cannot be reused; the target sees nothing.
// 2. Check that it is the right process. Only then is the thread asked to stop: a
//    thread of another process could see EINTR.
// 3. While the thread is stopping, everything is looked up and checked. If it is held
//    on our own CPU, it makes no progress while we work, so this follows the stop.
// 4. Write the stub, set rip, detach.
// Nothing points to the stub until it is completely written and verified; once rip is
// set, the thread no longer depends on the service.
class AttachRun {
 public:
  // `tracee` is stopped at the window already, or has been asked to stop through
  // `begun`, or is this object's own where nothing has begun. All must outlive it.
  AttachRun(const AttachRequest& request, LibraryCache* cache, Tracee* tracee,
            AttachStart* begun)
      : request_(request),
        tracee_(tracee),
        begun_(begun),
        inspection_(request, cache) {}

  // What Run does before the thread is stopped, for a process that runs on meanwhile.
  StepResult Prepare(PreparedTarget* prepared);
  AttachOutcome Run();

  // The same in parts, for a thread that runs until others stop it (call_entry.h). First
  // everything that its stop need not wait for, the stub included. `stack_pointer`:
  // where the thread's probably is.
  StepResult WriteAhead(uint64_t stack_pointer);
  // Then the thread is seized, without a stop.
  StepResult SeizeAhead();
  // Makes the checks of Enter on the running thread, for the caches.
  void WarmUpEntry();
  // The thread is stopped at the window: enters it. Nothing has changed after a failure
  // that is retryable, and the thread may be let run and be stopped again.
  StepResult Enter();
  // Releases the thread: after Enter, which has the result `result`, or instead of it.
  AttachOutcome Finish(StepResult result);

 private:
  StepResult Steps();
  StepResult CheckRequest();
  StepResult Seize();
  bool SharesCpu() const;
  StepResult InspectTarget();
  StepResult WaitForStop();
  StepResult CheckWindow();
  StepResult CheckBlocked();
  StepResult CheckOwner() const;
  StepResult CheckRoom();
  StepResult CheckFilters() const;
  StepResult CheckContext(RemoteAddress* loader_state) const;
  StepResult CheckLocks(RemoteAddress loader_state);
  StepResult CheckSignals() const;
  uint64_t LoaderDeadline() const;
  StepResult WriteStub();
  StepResult Redirect();
  StepResult SendCollector();

  StepResult BuildTheStub(std::string* stub);
  StepResult WriteAt(RemoteAddress address, absl::string_view bytes);
  StepResult WritePieces(const std::string& stub);
  void RestoreCave(AttachFailure* failure);
  uint64_t ReturnAddress() const;

  const AttachRequest& request_;
  StubSocket socket_;
  AttachOutcome outcome_;
  Tracee* tracee_;
  AttachStart* begun_;  // null: the thread is stopped, or will be stopped by others
  TargetInspection inspection_;
  TargetFacts& facts_ = inspection_.facts();
  LoaderLocks locks_;
  // Bytes of the cave that may have been changed, until something points to them.
  size_t written_ = 0;
  user_regs_struct registers_ = {};
  // With what the thread continues after the stub.
  user_regs_struct continue_ = {};
  // Of the stub as it was built: where it returns to, and the loader's lock.
  RemoteAddress stub_return_;
  RemoteAddress stub_lock_;
  // The stub that was written ahead, and the functions that it calls.
  MemorySamples ahead_;
};

// The failure of a step at which the fault-injection build fails (fault.h).
AttachFailure InjectedFault(absl::string_view step);

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_ATTACH_RUN_H_
