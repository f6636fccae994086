#include "userspace/base/task_thread.h"

#include <sched.h>

#include <cstdlib>
#include <memory>
#include <utility>

namespace rocattach {
namespace {

struct Start {
  int priority;
  const char* name;
  std::function<void()> run;
};

void* Run(void* argument) {
  const std::unique_ptr<Start> start(static_cast<Start*>(argument));
  if (start->priority == 0) {
    (void)pthread_setname_np(pthread_self(), start->name);
  } else {
    // Again, for a flag that attributes cannot have: its children are ordinary.
    (void)BecomeRealtime(start->priority, start->name);
  }
  start->run();
  return nullptr;
}

}  // namespace

bool BecomeRealtime(int priority, const char* name) {
  (void)pthread_setname_np(pthread_self(), name);
  sched_param param = {};
  param.sched_priority = priority;
  return pthread_setschedparam(pthread_self(), SCHED_FIFO | SCHED_RESET_ON_FORK,
                               &param) == 0;
}

TaskThread::TaskThread(int priority, const char* name, std::function<void()> run) {
  auto start = std::make_unique<Start>(Start{priority, name, std::move(run)});
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return;
  (void)pthread_attr_setstacksize(&attributes, kStackBytes);
  if (priority != 0) {
    sched_param param = {};
    param.sched_priority = priority;
    (void)pthread_attr_setschedpolicy(&attributes, SCHED_FIFO);
    (void)pthread_attr_setschedparam(&attributes, &param);
    (void)pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
    joinable_ = pthread_create(&thread_, &attributes, Run, start.get()) == 0;
    // In case the priority is not permitted.
    (void)pthread_attr_setinheritsched(&attributes, PTHREAD_INHERIT_SCHED);
  }
  if (!joinable_) {
    joinable_ = pthread_create(&thread_, &attributes, Run, start.get()) == 0;
  }
  (void)pthread_attr_destroy(&attributes);
  if (joinable_) (void)start.release();
}

TaskThread::TaskThread(TaskThread&& other) noexcept
    : thread_(other.thread_), joinable_(std::exchange(other.joinable_, false)) {}

TaskThread& TaskThread::operator=(TaskThread&& other) noexcept {
  if (joinable_) abort();
  thread_ = other.thread_;
  joinable_ = std::exchange(other.joinable_, false);
  return *this;
}

TaskThread::~TaskThread() {
  if (joinable_) abort();
}

void TaskThread::join() {
  if (std::exchange(joinable_, false)) (void)pthread_join(thread_, nullptr);
}

void TaskThread::detach() {
  if (std::exchange(joinable_, false)) (void)pthread_detach(thread_);
}

}  // namespace rocattach
