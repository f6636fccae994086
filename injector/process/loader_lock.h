// The dynamic loader's locks in one target.
#ifndef ROCATTACH_INJECTOR_PROCESS_LOADER_LOCK_H_
#define ROCATTACH_INJECTOR_PROCESS_LOADER_LOCK_H_

#include <sys/types.h>

#include <cstdint>

#include "absl/strings/string_view.h"
#include "injector/elf/library_facts.h"
#include "injector/failure.h"
#include "injector/process/target_memory.h"
#include "injector/stub/remote_address.h"

namespace rocattach {

// Two recursive mutexes in ld.so's `_rtld_global`. dlopen takes `load` and keeps it
// while it runs the constructors of the library; dl_iterate_phdr keeps `list` while it
// calls its callback, and dlopen takes that one as well.
struct LoaderLocks {
  RemoteAddress load;
  RemoteAddress list;

  bool known() const { return !load.is_null(); }
  // True if both were free when they were found.
  bool seen_free = false;
};

// Finds them in the `_rtld_global` at `state`. Its layout differs from version to
// version, but in all of them (2.17 to 2.41) the number of namespaces, 1 to 16, comes
// right before the two locks, and nowhere else are there two recursive mutexes in a
// row. Not known() if that pattern is not found. Their offset is remembered in `facts`
// (of the C library; may be null) and only verified the next time.
LoaderLocks FindLoaderLocks(const TargetMemory& memory, RemoteAddress state,
                            const LibraryFacts* facts);

// The same in a copy of `_rtld_global`, which begins at `address`.
LoaderLocks FindLoaderLocksIn(absl::string_view state, RemoteAddress address);

// Waits until no other thread holds one of the locks, so that the stopped thread `tid`
// of `pid` would not wait for it. A lock that is held is checked again each millisecond
// until `deadline_ns` (CLOCK_BOOTTIME), since most holders soon release it. A thread
// that calls the runtime may hold the locks itself, in a constructor. One that is
// `blocked` in a system call may not: it could be inside the loader. kLoaderBusy,
// kUnsafeContext, kMemoryAccess.
StepResult WaitForLoaderLocks(pid_t pid, pid_t tid, const TargetMemory& memory,
                              const LoaderLocks& locks, uint64_t deadline_ns,
                              bool blocked = false);

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_PROCESS_LOADER_LOCK_H_
