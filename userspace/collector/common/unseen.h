// Hides our code from ThreadSanitizer.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_COMMON_UNSEEN_H_
#define ROCATTACH_USERSPACE_COLLECTOR_COMMON_UNSEEN_H_

// Functions of ThreadSanitizer's interface (compiler-rt, tsan_interface.h);
// null in a program without it.
extern "C" __attribute__((weak, visibility("default"))) void
__tsan_ignore_thread_begin();
extern "C" __attribute__((weak, visibility("default"))) void __tsan_ignore_thread_end();

namespace rocattach::collector {

// In a program built with ThreadSanitizer, the sanitizer sees this library and the
// runtime only where they call the C library. It does not see the atomics that
// synchronise our threads with the program's, and would report each lock that both take
// in the runtime as a race. Must be destroyed on the same thread, before it ends.
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
