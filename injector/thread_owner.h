// Is a thread one of the C library's, and its thread-local storage its own?
#ifndef ROCATTACH_INJECTOR_THREAD_OWNER_H_
#define ROCATTACH_INJECTOR_THREAD_OWNER_H_

#include <sys/types.h>

#include <cstdint>

#include "injector/failure.h"
#include "injector/target_memory.h"

namespace rocattach {

// dlopen, malloc and errno use the thread-local storage of glibc, for which a thread
// must have been made by glibc. One that was made by a bare clone(2) has storage of its
// own making, or uses that of another thread.
//
// glibc registers the list of each thread's robust mutexes with the kernel
// (set_robust_list(2)), and keeps that list in the thread's `struct pthread`, to which
// fs points. A new thread has none, so if the list of a thread lies there, and the
// thread's ID is where glibc keeps it, this is the thread's own structure.
// kForeignThread if it is not so; all of 2.17 to 2.41 do it, but a glibc before 2.34
// without libpthread (not `has_threads`) does nothing for its only thread.

// Only whether the thread has such a list at all. It need not be stopped.
StepResult CheckHasRobustList(pid_t tid);

// `fs_base`: of the stopped thread `tid` of process `pid`. No version says where it has
// the ID, but the process's first thread shows it, whose ID is known: it must be at one
// of the places where that one has its own.
StepResult CheckLibcThread(pid_t pid, pid_t tid, uint64_t fs_base,
                           const TargetMemory& memory, bool has_threads);

// Does no other thread use the storage at `fs_base`, that of the thread `tid`? Such a
// thread may be in malloc while `tid` is blocked. Those that have registered no list, or
// one that is not in a structure of their own, are asked one after the other, by a short
// stop if they are blocked in a call that continues unnoticed (blocked_thread.h); one
// that is not counts as one that does. kForeignThread.
StepResult CheckStorageIsNotShared(pid_t pid, pid_t tid, uint64_t fs_base,
                                   const TargetMemory& memory);

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_THREAD_OWNER_H_
