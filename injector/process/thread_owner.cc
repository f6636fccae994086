#include "injector/process/thread_owner.h"

#include <errno.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "injector/process/blocked_thread.h"
#include "injector/process/thread_status.h"
#include "injector/stub/remote_address.h"
#include "injector/tracing/tracee.h"
#include "userspace/base/clock.h"
#include "userspace/base/process.h"

namespace rocattach {
namespace {

// The list is at 0x2e0 of `struct pthread` (nptl/descr.h) in glibc 2.17 to 2.41, which
// has 0x700 bytes or more.
constexpr uint64_t kMaxListOffset = 0x400;
constexpr uint64_t kStructBytes = 0x700;

constexpr uint64_t kOwnerPatienceNs = 250'000'000;

// tcbhead_t of glibc (sysdeps/x86_64/nptl/tls.h). The ABI requires the first word; the
// third one is glibc's own.
struct ControlBlock {
  uint64_t tcb;
  uint64_t dtv;
  uint64_t self;
};

// 0 or an errno; `*list`: null if there is none.
int RobustList(pid_t tid, RemoteAddress* list) {
  void* head = nullptr;
  size_t bytes = 0;
  if (syscall(SYS_get_robust_list, tid, &head, &bytes) != 0) return errno;
  *list = RemoteAddress(reinterpret_cast<uintptr_t>(head));
  return 0;
}

// The beginning of a `struct pthread`, if it is one.
struct ThreadStruct {
  // Also false if `base` is not a control block.
  bool Read(const TargetMemory& memory, uint64_t base) {
    ControlBlock block = {};
    if (!memory.Read(RemoteAddress(base), words.data(), kStructBytes).ok()) {
      return false;
    }
    std::memcpy(&block, words.data(), sizeof(block));
    return block.tcb == base && block.self == base;
  }

  std::array<pid_t, kStructBytes / sizeof(pid_t)> words;
};

AttachFailure Foreign(pid_t tid, absl::string_view why) {
  return {AttachReason::kForeignThread, 0,
          absl::StrCat("thread ", tid, " is not one of the C library's: ", why)};
}

StepResult FindRobustList(pid_t tid, RemoteAddress* list) {
  if (const int error = RobustList(tid, list); error != 0) {
    return FailureFromErrno(
        error, AttachReason::kNotPermitted,
        absl::StrCat("get_robust_list(", tid, "): ", strerrorname_np(error)));
  }
  if (!list->is_null()) return StepOk();
  return Foreign(tid, "it has no list of robust mutexes");
}

// Reads the address of the thread's storage; fails if the thread cannot be stopped.
StepResult ReadFsBase(pid_t pid, pid_t tid, uint64_t* fs_base) {
  const auto call = FindBlockedCall(pid, tid);
  if (!call.has_value()) {
    return AttachFailure{AttachReason::kUnsafeContext, 0, "it is not blocked"};
  }
  Tracee tracee;
  RETURN_IF_FAILED(tracee.Seize(pid, tid));
  // Only from here on does the ID mean this thread.
  if (!FindBlockedCall(pid, tid).has_value()) {
    tracee.ReleaseByEnd();
    return AttachFailure{AttachReason::kUnsafeContext, 0, "it is not blocked"};
  }
  RETURN_IF_FAILED(tracee.Interrupt());
  RETURN_IF_FAILED(tracee.WaitForStop(BootNs() + kOwnerPatienceNs));
  user_regs_struct registers = {};
  RETURN_IF_FAILED(tracee.ReadRegisters(&registers));
  *fs_base = registers.fs_base;
  return StepOk();
}

bool HasEnded(pid_t pid, pid_t tid) {
  auto status = ReadThreadStatus(pid, tid);
  return !status.ok() || status->state == 'Z' || status->state == 'X';
}

// True if `own` has `tid` where `known`, another thread's or the same, has `known_tid`.
bool HasTidWhere(const ThreadStruct& own, pid_t tid, const ThreadStruct& known,
                 pid_t known_tid) {
  for (size_t i = 0; i < own.words.size(); ++i) {
    if (own.words[i] == tid && known.words[i] == known_tid) return true;
  }
  return false;
}

// 0: not known.
pid_t InnerTid(pid_t pid, pid_t tid) {
  auto status = ReadThreadStatus(pid, tid);
  return status.ok() ? status->inner_tid : 0;
}

// A copy of another thread's structure with a list of its own registered still has the
// other thread's ID. The first thread shows where glibc has the ID: its own is known,
// and the kernel's list leads to its structure. If that thread has ended or is not
// glibc's, the ID may be anywhere in the structure, but must be there.
StepResult CheckTid(pid_t pid, pid_t tid, const ThreadStruct& own, uint64_t list_offset,
                    const TargetMemory& memory) {
  ThreadStruct first_struct;
  const ThreadStruct* first = &own;
  pid_t first_tid = tid;
  RemoteAddress list;
  if (tid != pid && RobustList(pid, &list) == 0 && !list.is_null() &&
      first_struct.Read(memory, list.value() - list_offset)) {
    first = &first_struct;
    first_tid = pid;
  }
  // Most processes are in the service's namespace, and /proc would prolong the stop.
  if (HasTidWhere(own, tid, *first, first_tid)) return StepOk();
  const pid_t inner = InnerTid(pid, tid), first_inner = InnerTid(pid, first_tid);
  if (inner == 0 || first_inner == 0) return StepOk();
  if (HasTidWhere(own, inner, *first, first_inner)) return StepOk();
  return Foreign(tid,
                 "what fs points to is the control block of a thread with another ID");
}

// True if the list leads to a control block of the C library's, not that at `fs_base`.
bool HasOwnStorage(RemoteAddress list, uint64_t list_offset, uint64_t fs_base,
                   const TargetMemory& memory) {
  const uint64_t base = list.value() - list_offset;
  ControlBlock block = {};
  return base != fs_base &&
         memory.Read(RemoteAddress(base), &block, sizeof(block)).ok() &&
         block.tcb == base && block.self == base;
}

StepResult CheckOther(pid_t pid, pid_t tid, pid_t other, uint64_t fs_base,
                      uint64_t list_offset, const TargetMemory& memory) {
  RemoteAddress list;
  if (list_offset != 0 && RobustList(other, &list) == 0 && !list.is_null() &&
      HasOwnStorage(list, list_offset, fs_base, memory)) {
    return StepOk();
  }
  if (HasEnded(pid, other)) return StepOk();
  uint64_t others_base = 0;
  StepResult asked;
  // On a new thread: some outcomes need the end of the tracing thread.
  std::thread([&] { asked = ReadFsBase(pid, other, &others_base); }).join();
  if (asked.ok() && others_base != fs_base) return StepOk();
  if (!asked.ok() && HasEnded(pid, other)) return StepOk();
  return Foreign(
      other, asked.ok()
                 ? absl::StrCat("it uses the thread-local storage of thread ", tid)
                 : absl::StrCat("it may use the thread-local storage of thread ", tid,
                                ", and cannot be asked: ", asked.failure().detail));
}

}  // namespace

StepResult CheckHasRobustList(pid_t tid) {
  RemoteAddress list;
  return FindRobustList(tid, &list);
}

StepResult CheckLibcThread(pid_t pid, pid_t tid, uint64_t fs_base,
                           const TargetMemory& memory, bool has_threads) {
  if (fs_base == 0) return Foreign(tid, "it has no thread-local storage");
  ThreadStruct own;
  if (!own.Read(memory, fs_base)) {
    return Foreign(tid, "what fs points to is no control block of it");
  }
  if (!has_threads) {
    if (pid == tid) return StepOk();
    return Foreign(tid, "the program is not linked with libpthread");
  }
  RemoteAddress list;
  RETURN_IF_FAILED(FindRobustList(tid, &list));
  if (list.value() - fs_base >= kMaxListOffset) {
    return Foreign(tid, "what fs points to is the control block of another one");
  }
  return CheckTid(pid, tid, own, list.value() - fs_base, memory);
}

StepResult CheckStorageIsNotShared(pid_t pid, pid_t tid, uint64_t fs_base,
                                   const TargetMemory& memory) {
  auto threads = ListThreads(pid);
  if (!threads.ok()) return FailureFromProc(threads.status());
  RemoteAddress list;
  // A program without libpthread has no list.
  const bool has_list = RobustList(tid, &list) == 0 && !list.is_null();
  const uint64_t list_offset = has_list ? list.value() - fs_base : 0;
  for (pid_t other : *threads) {
    if (other == tid) continue;
    RETURN_IF_FAILED(CheckOther(pid, tid, other, fs_base, list_offset, memory));
  }
  return StepOk();
}

}  // namespace rocattach
