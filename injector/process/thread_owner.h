// Checks that a thread is one of the C library's, with thread-local storage of its own.
#ifndef ROCATTACH_INJECTOR_PROCESS_THREAD_OWNER_H_
#define ROCATTACH_INJECTOR_PROCESS_THREAD_OWNER_H_

#include <sys/types.h>

#include <cstdint>

#include "injector/failure.h"
#include "injector/process/target_memory.h"

namespace rocattach {

// dlopen, malloc and errno use the thread-local storage of glibc, for which a thread
// must have been made by glibc. One that was made by a bare clone(2) has storage that
// it made itself, or uses that of another thread.
//
// glibc registers the list of each thread's robust mutexes with the kernel
// (set_robust_list(2)), and keeps that list in the thread's `struct pthread`, to which
// fs points. A new thread has no list, so if a thread's list lies there, and the
// thread's ID is where glibc keeps it, this is the thread's own structure. Otherwise
// kForeignThread. All versions from 2.17 to 2.41 register it, except that a glibc
// before 2.34 without libpthread (not `has_threads`) does not for its only thread.

// Checks only that the thread has such a list at all. It need not be stopped.
StepResult CheckHasRobustList(pid_t tid);

// `fs_base` is that of the stopped thread `tid` of process `pid`. No glibc version
// tells where the structure has the ID. The process's first thread, whose ID is known,
// shows it: the thread's ID must be at one of the places where that thread has its own.
StepResult CheckLibcThread(pid_t pid, pid_t tid, uint64_t fs_base,
                           const TargetMemory& memory, bool has_threads);

// Checks that no other thread uses the storage at `fs_base`, that of the thread `tid`:
// such a thread may be in malloc while `tid` is blocked. Threads that have registered
// no list, or one outside a structure of their own, are examined one after the other,
// by a short stop if they are blocked in a call that continues unnoticed
// (blocked_thread.h); any other counts as using the storage. kForeignThread.
StepResult CheckStorageIsNotShared(pid_t pid, pid_t tid, uint64_t fs_base,
                                   const TargetMemory& memory);

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_PROCESS_THREAD_OWNER_H_
