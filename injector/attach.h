// Attaching at the window: one held thread, one stub, one verdict.
#ifndef ROCATTACH_INJECTOR_ATTACH_H_
#define ROCATTACH_INJECTOR_ATTACH_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "injector/failure.h"
#include "injector/file_identity.h"
#include "injector/filesystem_view_cache.h"
#include "injector/known_files.h"
#include "injector/library_facts.h"
#include "injector/outcome.h"
#include "injector/tracee.h"
#include "userspace/abi/shared_memory.h"

namespace rocattach {

// What to attach, to whom.
struct AttachRequest {
  pid_t pid = 0;          // process (thread group)
  pid_t tid = 0;          // the thread that stands at the entry of hsa_init
  uint64_t start_ns = 0;  // the process's start (CLOCK_BOOTTIME); 0: do not check
  // Address of the probed instruction (hsa_init's entry). The thread must be found
  // within the first instructions behind it, else nothing is written.
  uint64_t window_ip = 0;
  // Absolute path of the collector as the target sees it. Checked under
  // /proc/PID/root before anything is touched.
  std::string collector_path;
  // Which file must lie there; without an inode any may.
  FileIdentity collector_file;
  // Another path, which is tried where the target does not see that file; empty: none.
  std::string other_collector_path;
  FileIdentity other_collector_file;
  // Passed to rocattach_collector_start; collector_path is filled in from above.
  rocattach_collector_config config = {};
  // Size of the shared memory that the collector will make; 0: do not check whether the
  // process's limits allow for it.
  uint64_t memory_bytes = 0;
  // The process has shut its runtime down after an earlier attach and starts it again:
  // the collector is there, and its start function is to be called once more. Without
  // this a process that has a collector is refused.
  bool attached_before = false;
  // With attached_before: the stub of the earlier attach is being removed, so its room
  // is not used again.
  bool keep_old_stub = false;
  // Longest time to wait for the stop.
  uint32_t stop_timeout_msec = 250;
  // What is known already, from the kernel: each saves a look at /proc, which costs
  // some microseconds for each file of a process that nobody has looked at before. The
  // processor that the thread is held on, and does not leave; -1: not known.
  int cpu = -1;
  // The stack pointer, about; 0: not known.
  uint64_t stack = 0;
  // AT_SECURE is not set, and seccomp's strict mode is off.
  bool known_harmless = false;
  // None of its resource limits can be in the collector's way.
  bool known_unlimited = false;
  // A number that stands for the process's mount namespace and root; 0: not known.
  uint64_t filesystem_view_id = 0;
  // Shared by threads, must outlive the attach; null: every directory is looked at.
  FilesystemViewCache* filesystem_views = nullptr;
  // Copies what the kernel says of the process's mappings; false if it does not say it
  // (yet). null: it never does. With it go the files that are known so far; both must
  // outlive the attach.
  std::function<bool(rocattach_layout*)> read_layout;
  KnownFiles* known_files = nullptr;
  // Called once the target runs again, with what was learned of its files, if anything.
  std::function<void(const std::vector<KnownFiles::Judgement>&)> on_learned;
  // Called when the stop takes longer than a moment, at most once.
  std::function<void()> on_wait;
  // Called when the thread stands.
  std::function<void()> on_stopped;
};

// An attach that has begun: the thread is on its way to its stop, or it has failed.
struct AttachStart {
  Tracee tracee;
  uint64_t seized_ns = 0;         // CLOCK_BOOTTIME; 0: it was not
  uint64_t stop_deadline_ns = 0;  // how long the stop is waited for
  AttachStage stage = AttachStage::kSeize;
  StepResult result;
};

// Seizes the thread `tid` of `pid`, makes sure that this is the process that started at
// `start_ns`, and only then asks for a stop, which takes the thread some 30 us. What is
// prepared after this call costs the target no time. `is_same_process` is asked whether
// the process surely is the same; if it does not know, /proc is asked. `start` is the
// calling OS thread's, and lets the target go when it ends.
void BeginAttach(pid_t pid, pid_t tid, uint64_t start_ns, uint32_t stop_timeout_msec,
                 absl::FunctionRef<bool()> is_same_process, AttachStart* start);

// Performs the whole attach on the calling OS thread (ptrace belongs to a thread):
// PTRACE_SEIZE and PTRACE_INTERRUPT, wait, check, write the stub, set rip, detach.
// Never throws, never leaves the target stopped, never sets PTRACE_O_EXITKILL.
// A successful outcome says that the stub is running; that the collector is there is
// known only when it reports in.
//
// `cache` remembers what was found in library files and may be shared by threads; with
// null, libraries are parsed each time. `begun`: what BeginAttach has begun for the
// same thread, or null.
//
// The caller keeps two rules:
// - If the outcome has tracer_must_exit, the calling thread ends at once: a thread of
//   the target could not be detached (it sleeps where it cannot be interrupted), and
//   the end of its tracer is what frees it. AttachOnOwnThread does this by itself.
// - Nobody in this process blocks in wait calls that match the target, such as
//   waitpid(-1) or waitpid(target): they would take its stops. Wait for its pidfd to
//   become readable first, or use __WNOTHREAD.
AttachOutcome AttachAtWindow(const AttachRequest& request,
                             LibraryCache* cache = nullptr,
                             AttachStart* begun = nullptr);

// The same for a thread that the calling OS thread traces already and that stands at
// the window in a stop (Tracee::Keep said kHeld). It is detached when this returns.
AttachOutcome AttachStopped(const AttachRequest& request, Tracee* stopped,
                            LibraryCache* cache = nullptr);

// The same on a thread of its own, which has ended when this returns: tracer_must_exit
// is never set in what it returns. Costs the start of a thread.
AttachOutcome AttachOnOwnThread(const AttachRequest& request,
                                LibraryCache* cache = nullptr);

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_ATTACH_H_
