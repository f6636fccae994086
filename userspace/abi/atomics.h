// Atomic access, a small lock and futexes, for code that links nothing but libc.
#ifndef ROCATTACH_USERSPACE_ABI_ATOMICS_H_
#define ROCATTACH_USERSPACE_ABI_ATOMICS_H_

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace rocattach::collector {

template <typename T>
inline T LoadRelaxed(const T* p) {
  return __atomic_load_n(p, __ATOMIC_RELAXED);
}
template <typename T>
inline T LoadAcquire(const T* p) {
  return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}
template <typename T>
inline void StoreRelaxed(T* p, T value) {
  __atomic_store_n(p, value, __ATOMIC_RELAXED);
}
template <typename T>
inline void StoreRelease(T* p, T value) {
  __atomic_store_n(p, value, __ATOMIC_RELEASE);
}

inline bool Likely(bool b) {
  return __builtin_expect(b, true);
}
inline bool Unlikely(bool b) {
  return __builtin_expect(b, false);
}

// Sets the counter to `value`, unless it is greater already.
inline void RaiseTo(uint64_t* counter, uint64_t value) {
  uint64_t seen = LoadRelaxed(counter);
  while (seen < value &&
         !__atomic_compare_exchange_n(counter, &seen, value, true, __ATOMIC_ACQ_REL,
                                      __ATOMIC_RELAXED)) {
  }
}

// A lock that is held for well under a microsecond. Waiters spin, then yield, then
// sleep, so that a waiter of higher real-time priority cannot starve the holder.
class TinyLock {
 public:
  bool TryLock() { return __atomic_exchange_n(&word_, 1u, __ATOMIC_ACQUIRE) == 0; }
  void Lock() {
    for (uint32_t round = 0; !TryLock(); ++round) Pause(round);
  }
  // Gives up after about `limit_msec`; for exit paths, where the holder may be a thread
  // that will never run again.
  bool LockFor(uint32_t limit_msec) {
    uint32_t limit = kYields + limit_msec * 20;
    for (uint32_t round = 0; !TryLock(); ++round) {
      if (round >= limit) return false;
      Pause(round);
    }
    return true;
  }
  void Unlock() { __atomic_store_n(&word_, 0u, __ATOMIC_RELEASE); }
  // Unlock, and order it before every later load of this thread.
  void UnlockFence() { (void)__atomic_exchange_n(&word_, 0u, __ATOMIC_SEQ_CST); }

 private:
  static constexpr uint32_t kSpins = 200;
  static constexpr uint32_t kYields = kSpins + 20;
  static void Pause(uint32_t round) {
    if (round < kSpins) {
      __builtin_ia32_pause();
    } else if (round < kYields) {
      sched_yield();
    } else {
      timespec nap = {0, 50'000};
      nanosleep(&nap, nullptr);
    }
  }
  uint32_t word_ = 0;
};

class TinyLockHolder {
 public:
  explicit TinyLockHolder(TinyLock& lock) : lock_(lock) { lock_.Lock(); }
  ~TinyLockHolder() { lock_.Unlock(); }
  TinyLockHolder(const TinyLockHolder&) = delete;
  TinyLockHolder& operator=(const TinyLockHolder&) = delete;

 private:
  TinyLock& lock_;
};

// Sleeps until `*word` differs from `expected`, a wake, or `timeout_ns` (0: forever).
// Not FUTEX_PRIVATE: the words lie in memory shared with the service.
inline void FutexWaitNs(uint32_t* word, uint32_t expected, uint64_t timeout_ns) {
  timespec timeout = {static_cast<time_t>(timeout_ns / 1'000'000'000),
                      static_cast<long>(timeout_ns % 1'000'000'000)};
  syscall(SYS_futex, word, FUTEX_WAIT, expected, timeout_ns ? &timeout : nullptr,
          nullptr, 0);
}

inline void FutexWait(uint32_t* word, uint32_t expected, uint32_t timeout_msec) {
  FutexWaitNs(word, expected, uint64_t{timeout_msec} * 1'000'000);
}

inline void FutexWake(uint32_t* word) {
  syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// Prefetches the cache line in a writable state. CPUs without the instruction treat it
// as a no-op.
inline void PrefetchForWrite(const void* p) {
#if defined(__x86_64__)
  __asm__ volatile("prefetchw %0" : : "m"(*static_cast<const char*>(p)));
#else
  __builtin_prefetch(p, 1);
#endif
}

// CLOCK_BOOTTIME in nanoseconds, as this process sees it: a vDSO call since Linux 5.3.
inline uint64_t OwnBootNs() {
  timespec now;
  clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u +
         static_cast<uint64_t>(now.tv_nsec);
}

// rocattach_collector_config::clock_offset_ns.
inline constinit int64_t clock_offset_ns = 0;

// CLOCK_BOOTTIME as the service sees it, which may be in another time namespace.
inline uint64_t BootNs() {
  return OwnBootNs() + static_cast<uint64_t>(LoadRelaxed(&clock_offset_ns));
}

// Converts a recent time that other code has read from CLOCK_BOOTTIME to the service's.
// In a time namespace it may be of either clock: libraries read the process's, and the
// kernel driver relates GPU ticks to the machine's. The one nearer to now is right.
inline uint64_t ToServiceNs(uint64_t ns) {
  const auto offset = static_cast<uint64_t>(LoadRelaxed(&clock_offset_ns));
  if (Likely(offset == 0) || ns == 0) return ns;
  const uint64_t now = BootNs();
  const auto distance = [now](uint64_t time) {
    return time < now ? now - time : time - now;
  };
  return distance(ns + offset) < distance(ns) ? ns + offset : ns;
}

// Restores errno: library code must not change the application's.
class ErrnoKeeper {
 public:
  ErrnoKeeper() : saved_(errno) {}
  ~ErrnoKeeper() { errno = saved_; }
  ErrnoKeeper(const ErrnoKeeper&) = delete;
  ErrnoKeeper& operator=(const ErrnoKeeper&) = delete;

 private:
  int saved_;
};

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_ABI_ATOMICS_H_
