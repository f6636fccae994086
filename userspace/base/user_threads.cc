#include "userspace/base/user_threads.h"

#include <fcntl.h>
#include <linux/nsfs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"
#include "userspace/base/clock.h"
#include "userspace/base/file.h"
#include "userspace/base/steady_cond_var.h"
#include "userspace/base/task_thread.h"
#include "userspace/base/unique_fd.h"

namespace rocattach {
namespace {

// The line "Uid:" has the real, effective, saved and file system's user.
uid_t EffectiveUser(absl::string_view status) {
  for (absl::string_view line : absl::StrSplit(status, '\n')) {
    if (!absl::ConsumePrefix(&line, "Uid:")) continue;
    const std::vector<absl::string_view> ids =
        absl::StrSplit(line, '\t', absl::SkipEmpty());
    uint32_t uid = 0;
    return ids.size() == 4 && absl::SimpleAtoi(ids[1], &uid) ? uid : 0;
  }
  return 0;
}

bool IsOurs(int user_namespace) {
  struct stat ours = {}, theirs = {};
  return stat("/proc/self/ns/user", &ours) == 0 &&
         fstat(user_namespace, &theirs) == 0 && theirs.st_ino == ours.st_ino;
}

}  // namespace

class UserThreads::State : public std::enable_shared_from_this<State> {
 public:
  State(const char* name, int most_per_user, int priority)
      : name_(name), most_per_user_(most_per_user), priority_(priority) {}

  bool Run(uid_t uid, Task task) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (stopping_) return false;
    User& user = users_[uid];
    if (user.waiting.size() >= kMostWaiting) return false;
    user.waiting.push_back(std::move(task));
    if (user.threads >= most_per_user_) return true;
    ++user.threads;
    if (StartThread(uid)) return true;
    --user.threads;
    // Another thread of the user takes it, if there is one.
    if (user.threads > 0) return true;
    users_.erase(uid);
    return false;
  }

  bool Stop(absl::Duration patience) ABSL_LOCKS_EXCLUDED(mutex_) {
    std::map<uid_t, std::deque<Task>> dropped;  // destroyed without the lock
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    for (auto& [uid, user] : users_) dropped[uid].swap(user.waiting);
    stopped_.SignalAll();
    return ended_.WaitFor(
        &mutex_, patience,
        [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return users_.empty(); });
  }

  void Await(absl::Duration patience) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    (void)ended_.WaitFor(
        &mutex_, patience,
        [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return users_.empty(); });
  }

  size_t Kept(absl::Duration than) const ABSL_LOCKS_EXCLUDED(mutex_) {
    const auto least_ns = static_cast<uint64_t>(absl::ToInt64Nanoseconds(than));
    absl::MutexLock lock(&mutex_);
    const uint64_t now_ns = BootNs();
    size_t kept = 0;
    for (const auto& [thread, since_ns] : running_) {
      kept += now_ns - since_ns > least_ns ? 1 : 0;
    }
    return kept;
  }

 private:
  struct User {
    int threads = 0;
    std::deque<Task> waiting;
  };

  // False at a limit on threads or memory.
  bool StartThread(uid_t uid) {
    TaskThread thread(priority_, name_,
                      [state = shared_from_this(), uid] { state->Serve(uid); });
    const bool started = thread.joinable();
    thread.detach();
    return started;
  }

  // Takes the next task; the last one has used `used_ns` of processor time. False if
  // there is none; the thread is not counted any more.
  bool TakeTask(uid_t uid, uint64_t used_ns, Task* task) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    running_.erase(std::this_thread::get_id());
    if (priority_ > 0 && uid != 0) AwaitTurn(uid, used_ns);
    const auto user = users_.find(uid);
    std::deque<Task>& waiting = user->second.waiting;
    if (waiting.empty()) {
      if (--user->second.threads == 0) users_.erase(user);
      ended_.SignalAll();
      return false;
    }
    *task = std::move(waiting.front());
    waiting.pop_front();
    running_[std::this_thread::get_id()] = BootNs();
    return true;
  }

  // Waits until the user has processor time again.
  void AwaitTurn(uid_t uid, uint64_t used_ns) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const uint64_t now_ns = BootNs();
    std::erase_if(due_ns_, [now_ns](const auto& due) { return due.second < now_ns; });
    uint64_t& due_ns = due_ns_.try_emplace(uid, now_ns).first->second;
    due_ns += used_ns * kRealtimeShare;
    const auto burst_ns =
        static_cast<uint64_t>(absl::ToInt64Nanoseconds(kRealtimeBurst)) *
        kRealtimeShare;
    const uint64_t until_ns = due_ns - std::min(due_ns, burst_ns);
    if (until_ns <= now_ns) return;
    (void)stopped_.WaitFor(
        &mutex_, absl::Nanoseconds(until_ns - now_ns),
        [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return stopping_; });
  }

  void Serve(uid_t uid) {
    Task task;
    uint64_t begin_ns = ClockNs(CLOCK_THREAD_CPUTIME_ID), now_ns = begin_ns;
    while (TakeTask(uid, now_ns - begin_ns, &task)) {
      begin_ns = ClockNs(CLOCK_THREAD_CPUTIME_ID);
      task();
      // Destroys what the task owns, before it counts as ended.
      task = nullptr;
      now_ns = ClockNs(CLOCK_THREAD_CPUTIME_ID);
    }
  }

  const char* const name_;
  const int most_per_user_;
  const int priority_;
  mutable absl::Mutex mutex_;
  SteadyCondVar ended_;
  // Users that have a thread.
  std::map<uid_t, User> users_ ABSL_GUARDED_BY(mutex_);
  std::map<std::thread::id, uint64_t> running_ ABSL_GUARDED_BY(mutex_);  // since
  // When the user's processor time is made up for; only where that is ahead.
  std::map<uid_t, uint64_t> due_ns_ ABSL_GUARDED_BY(mutex_);
  SteadyCondVar stopped_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
};

UserThreads::UserThreads(const char* name, int most_per_user, int priority)
    : state_(std::make_shared<State>(name, most_per_user, priority)) {}

UserThreads::~UserThreads() {
  (void)Stop(absl::ZeroDuration());
}

bool UserThreads::Run(uid_t uid, Task task) {
  return state_->Run(uid, std::move(task));
}

bool UserThreads::Stop(absl::Duration patience) {
  return state_->Stop(patience);
}

bool UserThreads::Finish(absl::Duration patience) {
  state_->Await(patience);
  return state_->Stop(absl::ZeroDuration());
}

std::set<pid_t> ReadProcesses(UserThreads* threads, absl::Duration patience,
                              const std::vector<pid_t>& pids,
                              std::function<void(pid_t)> read) {
  struct Shared {
    std::function<void(pid_t)> read;
    absl::Mutex mutex;
    SteadyCondVar changed;
    std::set<pid_t> unread ABSL_GUARDED_BY(mutex);
    size_t waiting ABSL_GUARDED_BY(mutex) = 0;
    bool over ABSL_GUARDED_BY(mutex) = false;
  };
  const auto shared = std::make_shared<Shared>();
  shared->read = std::move(read);
  {
    absl::MutexLock lock(&shared->mutex);
    shared->unread.insert(pids.begin(), pids.end());
    shared->waiting = shared->unread.size();
  }
  for (pid_t pid : std::set<pid_t>(pids.begin(), pids.end())) {
    const bool runs = threads->Run(UserOf(pid), [shared, pid] {
      {
        absl::MutexLock lock(&shared->mutex);
        if (shared->over) return;
      }
      shared->read(pid);
      absl::MutexLock lock(&shared->mutex);
      shared->unread.erase(pid);
      if (--shared->waiting == 0) shared->changed.SignalAll();
    });
    if (runs) continue;
    absl::MutexLock lock(&shared->mutex);
    --shared->waiting;
  }
  absl::MutexLock lock(&shared->mutex);
  (void)shared->changed.WaitFor(
      &shared->mutex, patience,
      [&]() ABSL_SHARED_LOCKS_REQUIRED(shared->mutex) { return shared->waiting == 0; });
  shared->over = true;
  return shared->unread;
}

absl::Status KeepsReadersWaiting(pid_t pid) {
  return absl::DeadlineExceededError(
      absl::StrCat("process ", pid, " of user ", UserOf(pid),
                   " keeps whoever reads it waiting: by page faults in its memory, a "
                   "file system, or "
                   "the lock of its mappings"));
}

// Not the owner of /proc/PID, which is root for processes that choose it
// (PR_SET_DUMPABLE).
uid_t UserOf(pid_t pid) {
  constexpr size_t kMostStatusBytes = 16 << 10;
  const auto status =
      ReadFile(absl::StrCat("/proc/", pid, "/status"), kMostStatusBytes);
  uid_t uid = status.ok() ? EffectiveUser(*status) : 0;
  // As charged_user() in the BPF programs.
  auto space = OpenFile(absl::StrCat("/proc/", pid, "/ns/user"), O_RDONLY);
  if (!space.ok() || IsOurs(space->get())) return uid;
  for (UniqueFd at = *std::move(space); at.valid();
       at.reset(ioctl(at.get(), NS_GET_PARENT))) {
    uid_t owner = 0;
    if (ioctl(at.get(), NS_GET_OWNER_UID, &owner) == 0 && owner != 0) uid = owner;
  }
  return uid;
}

size_t UserThreads::Kept(absl::Duration than) const {
  return state_->Kept(than);
}

}  // namespace rocattach
