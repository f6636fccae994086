// The steps of one attach, and the state that they share.
#ifndef ROCATTACH_INJECTOR_ATTACH_RUN_H_
#define ROCATTACH_INJECTOR_ATTACH_RUN_H_

#include <sys/user.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "injector/attach.h"
#include "injector/attach_request.h"
#include "injector/elf/library_facts.h"
#include "injector/failure.h"
#include "injector/outcome.h"
#include "injector/process/loader_lock.h"
#include "injector/process/memory_samples.h"
#include "injector/process/target_inspection.h"
#include "injector/stub/stub.h"
#include "injector/tracing/tracee.h"

namespace rocattach {

// One attach, step by step. The order:
// 1. Seize. From here on the thread ID cannot be reused; the target sees nothing.
// 2. Check that it is the right process. Only then is a stop requested: a thread of
//    another process could see EINTR.
// 3. While the thread is stopping, everything is looked up and checked. If it is held
//    on our own CPU, it makes no progress while we work, so this follows the stop.
// 4. Write the stub, set rip, detach.
// Nothing points to the stub until it is completely written and verified; once rip is
// set, the thread no longer depends on the service.
class AttachRun {
 public:
  // `tracee` is already stopped at the window, has been asked to stop through `begun`,
  // or is seized by this object if no attach has begun. All must outlive this object.
  AttachRun(const AttachRequest& request, LibraryCache* cache, Tracee* tracee,
            AttachStart* begun)
      : request_(request),
        tracee_(tracee),
        begun_(begun),
        inspection_(request, cache) {}

  // The part of Run that precedes the stop, for a process that keeps running meanwhile.
  StepResult Prepare(PreparedTarget* prepared);
  AttachOutcome Run();

  // Run in parts, for a thread that runs until its own call stops it (call_entry.h).
  // First: everything that need not wait for the stop, including the stub.
  // `stack_pointer` is the probable value of the thread's stack pointer.
  StepResult WriteAhead(uint64_t stack_pointer);
  // Second: seizes the thread without stopping it.
  StepResult SeizeAhead();
  // Makes the checks of Enter on the running thread, to warm up the caches.
  void WarmUpEntry();
  // Enters the thread, which is stopped at the window. After a retryable failure
  // nothing has changed, and the thread may be let run and be stopped again.
  StepResult Enter();
  // Releases the thread: after Enter, whose result is `result`, or instead of it.
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
  // Number of bytes possibly written to the cave; 0 once something points to them.
  size_t written_ = 0;
  user_regs_struct registers_ = {};
  // The registers with which the thread continues after the stub.
  user_regs_struct continue_ = {};
  // Return address and loader's lock in the stub as it was built.
  RemoteAddress stub_return_;
  RemoteAddress stub_lock_;
  // The stub that was written ahead, and the functions that it calls.
  MemorySamples ahead_;
};

// The failure of a step at which the fault-injection build fails (fault.h).
AttachFailure InjectedFault(absl::string_view step);

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_ATTACH_RUN_H_
