#include "userspace/collector/common/worker.h"

#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>

#include "userspace/collector/common/memory.h"
#include "userspace/collector/common/unseen.h"

namespace rocattach::collector {
namespace {

constexpr size_t kStackBytes = 256 * 1024;

}  // namespace

int Worker::Start() {
  pthread_attr_t attributes;
  int error = pthread_attr_init(&attributes);
  if (error != 0) return error;
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  // The application's signals are for the application's threads.
  sigset_t all, before;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &before);
  StoreRelease(&running_, 1u);
  pthread_t thread;
  error = pthread_create(&thread, &attributes, &Worker::Main, this);
  sigprocmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  if (error == 0) return 0;
  StoreRelease(&running_, 0u);
  return Failed(ROCATTACH_SETUP_THREAD_CREATE, error);
}

void Worker::Wake() {
  StoreRelaxed(&asleep_, 0u);
  FutexWake(command_);
}

void Worker::Sleep(uint32_t seen, uint64_t timeout_ns, bool long_sleep) {
  if (long_sleep) StoreRelaxed(&asleep_, 1u);
  FutexWaitNs(command_, seen, timeout_ns);
  StoreRelaxed(&asleep_, 0u);
}

void* Worker::Main(void* self_pointer) {
  prctl(PR_SET_NAME, "rocattach");
  auto* self = static_cast<Worker*>(self_pointer);
  {
    UnseenByThreadSanitizer unseen;
    self->run_();
  }
  StoreRelease(&self->running_, 0u);
  return nullptr;
}

}  // namespace rocattach::collector
