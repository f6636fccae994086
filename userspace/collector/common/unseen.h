// What ThreadSanitizer does not look at.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_COMMON_UNSEEN_H_
#define ROCATTACH_USERSPACE_COLLECTOR_COMMON_UNSEEN_H_

// Of ThreadSanitizer's interface (compiler-rt, tsan_interface.h); null in a program
// without it.
extern "C" __attribute__((weak, visibility("default"))) void
__tsan_ignore_thread_begin();
extern "C" __attribute__((weak, visibility("default"))) void __tsan_ignore_thread_end();

namespace rocattach::collector {

// In a program that was built with ThreadSanitizer, this library and the runtime are
// seen only where they call the C library. That our threads are synchronised with the
// program's, by atomics, is not seen: each lock that both of them take inside of the
// runtime would be reported as a race. Must end in the thread and before it does.
class UnseenByThreadSanitizer {
 public:
  UnseenByThreadSanitizer() {
    if (Known()) __tsan_ignore_thread_begin();
  }
  ~UnseenByThreadSanitizer() {
    if (Known()) __tsan_ignore_thread_end();
  }
  UnseenByThreadSanitizer(const UnseenByThreadSanitizer&) = delete;
  UnseenByThreadSanitizer& operator=(const UnseenByThreadSanitizer&) = delete;

 private:
  static bool Known() {
#if defined(__SANITIZE_THREAD__)
    return false;  // our own tests: it sees everything
#endif
    return __tsan_ignore_thread_begin != nullptr && __tsan_ignore_thread_end != nullptr;
  }
};

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_COMMON_UNSEEN_H_
