// An attach request: the collector, the thread, and what is known of its process.
#ifndef ROCATTACH_INJECTOR_ATTACH_REQUEST_H_
#define ROCATTACH_INJECTOR_ATTACH_REQUEST_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "injector/elf/file_identity.h"
#include "injector/elf/known_files.h"
#include "injector/prepared_target.h"
#include "injector/process/filesystem_view_cache.h"
#include "userspace/abi/shared_memory.h"

namespace rocattach {

// The thread at the entry of hsa_init; in a late attach, of any function of the
// runtime, or blocked in a system call.
struct AttachPoint {
  pid_t pid = 0;  // process (thread group)
  pid_t tid = 0;
  uint64_t start_ns = 0;  // the process's start (CLOCK_BOOTTIME); 0: do not check
  // Address of the probed instruction (hsa_init's entry). The thread must be stopped
  // within the first instructions after it, or nothing is written.
  uint64_t window_ip = 0;
  // Late attach: the thread is blocked in a system call instead, which continues
  // unnoticed. `window_ip` is only an address inside the runtime.
  bool blocked = false;
};

// A collector that the target can load.
struct CollectorImage {
  // Absolute path as the target sees it. Checked under /proc/PID/root before anything
  // is changed. Empty: none.
  std::string path;
  FileIdentity file;  // the file that must be there; without an inode, any file
};

// State that an earlier attach has left in the process.
enum class EarlierAttach {
  kNone,  // a process that has a collector is refused
  // The process has shut its runtime down and starts it again: the collector is loaded,
  // and its start function is called again. The new stub may be written over the old
  // one.
  kReplaceStub,
  // Detected by the attach itself: the process was forked from one that has a collector
  // but no open runtime. The library starts anew in the child, and no thread of the
  // child can be in an inherited stub.
  kForkedChild,
};

// Known facts about the process. Each fact saves reading a file of /proc, which takes
// some microseconds when a process's file is opened for the first time. By default
// nothing is known. All objects pointed to must outlive the attach.
struct KernelFacts {
  int cpu = -1;        // on which the thread is held, without migration; -1: not known
  uint64_t stack = 0;  // approximate stack pointer; 0: not known
  bool harmless = false;   // AT_SECURE is not set, and seccomp's strict mode is off
  bool unlimited = false;  // no resource limit can affect the collector
  // A number for the process's mount namespace and root; 0: not known.
  uint64_t filesystem_view_id = 0;
  // Shared by threads. null: every directory is checked.
  FilesystemViewCache* filesystem_views = nullptr;
  // Copies the process's mappings; returns false if they are not known (yet). null:
  // they never will be. `files` are the files known so far.
  std::function<bool(rocattach_layout*)> read_layout;
  KnownFiles* files = nullptr;
  // From PrepareAttach; the attach uses it up. null: nothing is prepared.
  PreparedTarget* prepared = nullptr;
};

// Called during an attach, on the attaching thread; empty ones are skipped.
struct AttachCallbacks {
  std::function<void()> on_wait;     // the stop takes long; called at most once
  std::function<void()> on_stopped;  // the thread has stopped
  // The target runs again; called only if something was learned about its files.
  std::function<void(const std::vector<KnownFiles::Judgement>&)> on_learned;
};

struct AttachRequest {
  AttachPoint point;
  CollectorImage collector;
  // Tried if the target does not see `collector`.
  CollectorImage other_collector;
  // A descriptor of the same library, sent to a target that sees neither; -1: none.
  int collector_fd = -1;
  // Libraries of earlier services that a forked child may have inherited; their reports
  // are accepted too. Only device and inode are compared, as in /proc/PID/maps.
  std::vector<FileIdentity> inherited_libraries;
  // Passed to rocattach_collector_start; the attach fills in the path.
  rocattach_collector_config config = {};
  // Size of the shared memory that the collector will make; 0: do not check whether the
  // process's limits allow for it.
  uint64_t memory_bytes = 0;
  EarlierAttach earlier = EarlierAttach::kNone;
  // A stub is being removed from the process: no room with a stub in it is used.
  bool keep_stubs = false;
  uint32_t stop_timeout_msec = 250;  // longest time to wait for the stop
  KernelFacts known;
  AttachCallbacks callbacks;
};

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_ATTACH_REQUEST_H_
