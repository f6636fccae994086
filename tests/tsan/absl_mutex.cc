// Tells ThreadSanitizer about absl::Mutex and absl::CondVar. Debian's Abseil is built
// without it, and waits by futex: what a lock orders would look like a race. The calls
// of a test program come here first and go on to Abseil.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "absl/base/options.h"
#include "absl/synchronization/mutex.h"

extern "C" {
void __tsan_acquire(void* address);
void __tsan_release(void* address);
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
}

// As the compiler names members of namespace absl, which has an inline namespace.
#define ROCATTACH_TEXT_(x) #x
#define ROCATTACH_TEXT(x) ROCATTACH_TEXT_(x)
static_assert(sizeof(ROCATTACH_TEXT(ABSL_OPTION_INLINE_NAMESPACE_NAME)) - 1 == 7,
              "its length is part of the names below");
#define ROCATTACH_ABSL(rest) \
  "_ZN4absl7" ROCATTACH_TEXT(ABSL_OPTION_INLINE_NAMESPACE_NAME) rest

namespace {

template <typename Function>
Function Next(const char* name) {
  void* symbol = dlsym(RTLD_NEXT, name);
  if (symbol == nullptr) {
    fprintf(stderr, "tests/tsan: Abseil has no %s\n", name);
    abort();
  }
  return reinterpret_cast<Function>(symbol);
}

// Abseil evaluates the conditions of waiters while it unlocks: after our release, and
// before the lock is free.
class IgnoreReads {
 public:
  IgnoreReads() { AnnotateIgnoreReadsBegin(__FILE__, __LINE__); }
  ~IgnoreReads() { AnnotateIgnoreReadsEnd(__FILE__, __LINE__); }
  IgnoreReads(const IgnoreReads&) = delete;
  IgnoreReads& operator=(const IgnoreReads&) = delete;
};

}  // namespace

// These are under locks of Abseil's own, which are not seen either: its table of texts,
// made once, and the graph in which it looks for deadlocks, where a thread locks one
// mutex while it holds another.
extern "C" const char* __tsan_default_suppressions() {
  return "called_from_lib:libabsl_strerror.so\n"
         "called_from_lib:libabsl_graphcycles_internal.so\n";
}

namespace absl {
ABSL_NAMESPACE_BEGIN

void Mutex::Lock() {
  static const auto next = Next<void (*)(Mutex*)>(ROCATTACH_ABSL("5Mutex4LockEv"));
  next(this);
  __tsan_acquire(this);
}

void Mutex::Unlock() {
  static const auto next = Next<void (*)(Mutex*)>(ROCATTACH_ABSL("5Mutex6UnlockEv"));
  __tsan_release(this);
  IgnoreReads conditions;
  next(this);
}

bool Mutex::TryLock() {
  static const auto next = Next<bool (*)(Mutex*)>(ROCATTACH_ABSL("5Mutex7TryLockEv"));
  if (!next(this)) return false;
  __tsan_acquire(this);
  return true;
}

void Mutex::LockWhen(const Condition& condition) {
  static const auto next = Next<void (*)(Mutex*, const Condition&)>(
      ROCATTACH_ABSL("5Mutex8LockWhenERKNS0_9ConditionE"));
  {
    IgnoreReads conditions;
    next(this, condition);
  }
  __tsan_acquire(this);
}

void Mutex::Await(const Condition& condition) {
  static const auto next = Next<void (*)(Mutex*, const Condition&)>(
      ROCATTACH_ABSL("5Mutex5AwaitERKNS0_9ConditionE"));
  __tsan_release(this);
  IgnoreReads conditions;
  next(this, condition);
  __tsan_acquire(this);
}

void CondVar::Wait(Mutex* mutex) {
  static const auto next =
      Next<void (*)(CondVar*, Mutex*)>(ROCATTACH_ABSL("7CondVar4WaitEPNS0_5MutexE"));
  __tsan_release(mutex);
  next(this, mutex);
  __tsan_acquire(mutex);
}

ABSL_NAMESPACE_END
}  // namespace absl
