// What to attach, to which thread, and what is known of its process already.
#ifndef ROCATTACH_INJECTOR_ATTACH_REQUEST_H_
#define ROCATTACH_INJECTOR_ATTACH_REQUEST_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "injector/file_identity.h"
#include "injector/filesystem_view_cache.h"
#include "injector/known_files.h"
#include "userspace/abi/shared_memory.h"

namespace rocattach {

// The thread at the entry of hsa_init.
struct AttachPoint {
  pid_t pid = 0;  // process (thread group)
  pid_t tid = 0;
  uint64_t start_ns = 0;  // the process's start (CLOCK_BOOTTIME); 0: do not check
  // Address of the probed instruction (hsa_init's entry). The thread must be found
  // within the first instructions behind it, else nothing is written.
  uint64_t window_ip = 0;
};

// A collector that the target can load.
struct CollectorImage {
  // Absolute path as the target sees it. Checked under /proc/PID/root before anything
  // is touched. Empty: there is none.
  std::string path;
  FileIdentity file;  // which file must be found there; without an inode any may
};

// What an earlier attach of the same process left behind.
enum class EarlierAttach {
  kNone,  // a process that has a collector is refused
  // The process has shut its runtime down and starts it again: the collector is there,
  // and its start function is called once more.
  kReplaceStub,  // the new stub may be written over the old one
  kKeepStub,     // the old stub is being removed, so its room is not used
};

// What the kernel side knows of the process: each fact saves a look at /proc, which
// costs some microseconds for each file of a process that nobody has looked at before.
// As it is, nothing is known. All that is pointed to must outlive the attach.
struct KernelFacts {
  int cpu = -1;        // that the thread is held on, and does not leave; -1: not known
  uint64_t stack = 0;  // the stack pointer, about; 0: not known
  bool harmless = false;   // AT_SECURE is not set, and seccomp's strict mode is off
  bool unlimited = false;  // no resource limit can be in the collector's way
  // A number for the process's mount namespace and root; 0: not known.
  uint64_t filesystem_view_id = 0;
  // Shared by threads. null: every directory is looked at.
  FilesystemViewCache* filesystem_views = nullptr;
  // Copies the process's mappings; false if they are not known (yet). null: they never
  // are. `files` are those known so far.
  std::function<bool(rocattach_layout*)> read_layout;
  KnownFiles* files = nullptr;
};

// Calls on the way of an attach, on the attaching thread; empty ones are skipped.
struct AttachCallbacks {
  std::function<void()> on_wait;  // the stop takes longer than a moment; at most once
  std::function<void()> on_stopped;  // the thread stands
  // The target runs again; with what was learned of its files, if anything.
  std::function<void(const std::vector<KnownFiles::Judgement>&)> on_learned;
};

struct AttachRequest {
  AttachPoint point;
  CollectorImage collector;
  // Tried where the target does not see `collector`.
  CollectorImage other_collector;
  // Passed to rocattach_collector_start; the path is filled in.
  rocattach_collector_config config = {};
  // Size of the shared memory that the collector will make; 0: do not check whether the
  // process's limits allow for it.
  uint64_t memory_bytes = 0;
  EarlierAttach earlier = EarlierAttach::kNone;
  uint32_t stop_timeout_msec = 250;  // longest time to wait for the stop
  KernelFacts known;
  AttachCallbacks callbacks;
};

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_ATTACH_REQUEST_H_
