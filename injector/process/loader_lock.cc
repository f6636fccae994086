#include "injector/process/loader_lock.h"

#include <errno.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "injector/fault.h"
#include "injector/process/thread_status.h"
#include "injector/stub/remote_address.h"
#include "userspace/base/clock.h"

namespace rocattach {
namespace {

// glibc 2.36 has 4,336 bytes, others a few hundred more or less.
constexpr size_t kMaxState = 6 * 1024;
constexpr uint64_t kMaxNamespaces = 16;  // DL_NNS
constexpr useconds_t kRoundUsec = 1000;

// pthread_mutex_t on x86-64, the same in every glibc (it is part of the ABI).
struct Mutex {
  int32_t lock;
  uint32_t count;
  int32_t owner;
  uint32_t users;
  int32_t kind;
  int32_t spins;
  uint64_t list[2];
};
static_assert(sizeof(Mutex) == 40);
constexpr int32_t kRecursive = 1;  // PTHREAD_MUTEX_RECURSIVE_NP
// The number of namespaces and the two locks.
constexpr size_t kPatternBytes = sizeof(uint64_t) + 2 * sizeof(Mutex);

bool IsRecursiveMutex(const char* bytes) {
  Mutex mutex;
  std::memcpy(&mutex, bytes, sizeof(mutex));
  return mutex.kind == kRecursive && mutex.spins == 0 && mutex.list[0] == 0 &&
         mutex.list[1] == 0 && mutex.lock >= 0 && mutex.lock <= 2 && mutex.owner >= 0;
}

bool IsFree(const char* bytes) {
  Mutex mutex;
  std::memcpy(&mutex, bytes, sizeof(mutex));
  return mutex.lock == 0;
}

// Reads up to the end of what is mapped there.
std::string ReadState(const TargetMemory& memory, RemoteAddress address) {
  std::string state(kMaxState, '\0');
  size_t done = 0;
  while (done < state.size()) {
    const RemoteAddress at = address + done;
    const size_t part =
        std::min<size_t>(state.size() - done, kPageBytes - at.value() % kPageBytes);
    if (!memory.Read(at, state.data() + done, part).ok()) break;
    done += part;
  }
  state.resize(done);
  return state;
}

// The thread that holds the mutex, by its number in the target's own namespace; 0:
// none; -1: a thread that has just taken it.
absl::StatusOr<int32_t> OwnerOf(const TargetMemory& memory, RemoteAddress mutex) {
  Mutex copy;
  if (absl::Status status = memory.Read(mutex, &copy, sizeof(copy)); !status.ok()) {
    return status;
  }
  if (copy.lock == 0) return 0;
  return copy.owner != 0 ? copy.owner : -1;
}

}  // namespace

LoaderLocks FindLoaderLocksIn(absl::string_view state, RemoteAddress address) {
  LoaderLocks found;
  for (size_t at = 0; at + kPatternBytes <= state.size(); at += sizeof(uint64_t)) {
    uint64_t namespaces;
    std::memcpy(&namespaces, state.data() + at, sizeof(namespaces));
    if (namespaces == 0 || namespaces > kMaxNamespaces) continue;
    const char* first = state.data() + at + sizeof(namespaces);
    if (!IsRecursiveMutex(first) || !IsRecursiveMutex(first + sizeof(Mutex))) continue;
    if (found.known()) return {};  // two matches: the choice would be a guess
    found.load = address + at + sizeof(namespaces);
    found.list = found.load + sizeof(Mutex);
    found.seen_free = IsFree(first) && IsFree(first + sizeof(Mutex));
  }
  return found;
}

LoaderLocks FindLoaderLocks(const TargetMemory& memory, RemoteAddress state,
                            const LibraryFacts* facts) {
  if (state.is_null() || state.value() % sizeof(uint64_t) != 0 ||
      FaultAt("loader-lock")) {
    return {};
  }
  if (const uint32_t known = facts != nullptr ? facts->loader_locks_offset.load() : 0) {
    char bytes[kPatternBytes];
    const RemoteAddress begin = state + (known - sizeof(uint64_t));
    if (memory.Read(begin, bytes, sizeof(bytes)).ok()) {
      LoaderLocks locks =
          FindLoaderLocksIn(absl::string_view(bytes, sizeof(bytes)), begin);
      if (locks.known()) return locks;
    }
  }
  LoaderLocks locks = FindLoaderLocksIn(ReadState(memory, state), state);
  if (locks.known() && facts != nullptr) {
    facts->loader_locks_offset = static_cast<uint32_t>(locks.load - state);
  }
  return locks;
}

StepResult WaitForLoaderLocks(pid_t pid, pid_t tid, const TargetMemory& memory,
                              const LoaderLocks& locks, uint64_t deadline_ns,
                              bool blocked) {
  if (!locks.known() || locks.seen_free) return StepOk();
  std::optional<pid_t> self;
  for (;;) {
    int32_t owner = 0;
    for (RemoteAddress lock : {locks.load, locks.list}) {
      auto found = OwnerOf(memory, lock);
      if (!found.ok()) {
        return FailureFromStatus(found.status(), AttachReason::kMemoryAccess);
      }
      if (*found == 0) continue;
      if (!self.has_value()) {
        // Only here, since reading a file of /proc takes time.
        auto status = ReadThreadStatus(pid, tid);
        if (!status.ok()) {
          return AttachFailure{AttachReason::kTargetExited, ESRCH,
                               std::string(status.status().message())};
        }
        self = status->inner_tid;
      }
      // A constructor that calls hsa_init may itself load libraries.
      if (*found != *self) {
        owner = *found;
      } else if (blocked) {
        return AttachFailure{
            AttachReason::kUnsafeContext, 0,
            absl::StrCat("thread ", tid, " is blocked inside the dynamic loader"),
            true};
      }
    }
    if (owner == 0) return StepOk();
    if (BootNs() >= deadline_ns) {
      return AttachFailure{
          AttachReason::kLoaderBusy, 0,
          absl::StrCat("thread ", owner, " of process ", pid,
                       " (as its namespace numbers threads) holds the dynamic loader's "
                       "lock, which dlopen would wait for"),
          true};
    }
    usleep(kRoundUsec);
  }
}

}  // namespace rocattach
