#include "userspace/attribution/workload_resolver.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "userspace/attribution/cgroup_workload.h"
#include "userspace/attribution/slurm_environment.h"
#include "userspace/base/file.h"
#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

constexpr size_t kMostCgroupBytes = 64 << 10;
// A longer environment is not read, and a job in it is not found.
constexpr size_t kMostEnvironmentBytes = 1 << 20;
constexpr size_t kMostStatBytes = 4 << 10;

// The path in the unified hierarchy, from the text of /proc/PID/cgroup.
std::string UnifiedPath(absl::string_view text) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (absl::ConsumePrefix(&line, "0::")) return std::string(line);
  }
  return "";
}

// OK if the process ID still belongs to this process.
absl::Status CheckLives(const ProcessId& process, const std::string& folder) {
  ASSIGN_OR_RETURN(const std::string stat,
                   ReadFile(absl::StrCat(folder, "/stat"), kMostStatBytes));
  const auto ticks = StartTicksIn(stat);
  if (ticks.ok() && *ticks == process.start_ticks) return absl::OkStatus();
  return absl::NotFoundError(
      absl::StrCat("process ", process.pid, " has ended: ", folder,
                   "/stat does not have the start time ", process.start_ticks));
}

}  // namespace

absl::StatusOr<WorkloadIdentity> ReadWorkload(const ProcessId& process,
                                              const std::string& proc,
                                              WorkloadReading* reading) {
  const std::string folder = absl::StrCat(proc, "/", process.pid);
  WorkloadReading found;
  WorkloadIdentity workload;
  if (auto path = ReadLink(folder + "/exe"); path.ok()) {
    workload.executable = std::string(absl::StripSuffix(*path, " (deleted)"));
  }
  if (auto groups = ReadFile(folder + "/cgroup", kMostCgroupBytes); groups.ok()) {
    FillFromCgroups(*groups, &workload);
    found.cgroup = UnifiedPath(*groups);
  } else {
    found.unreadable = true;
  }
  if (auto environment = ReadFile(folder + "/environ", kMostEnvironmentBytes);
      !environment.ok()) {
    found.unreadable |= workload.slurm_job.empty();
  } else if (!FillFromEnvironment(*environment, &workload)) {
    found.invalid = true;
  }
  // Checked last, so that everything read before was this process's.
  const absl::Status lives = CheckLives(process, folder);
  if (!lives.ok()) return absl::NotFoundError(lives.message());
  if (reading != nullptr) *reading = std::move(found);
  return workload;
}

WorkloadResolver::WorkloadResolver(FoundFunction found)
    : WorkloadResolver(Options{.found = std::move(found)}) {}

WorkloadResolver::WorkloadResolver(Options options)
    : options_(std::move(options)),
      readers_("rwa-workload", /*most_per_user=*/1),
      thread_([this] { Run(); }) {}

WorkloadResolver::~WorkloadResolver() {
  (void)Stop(absl::Hours(1));
}

void WorkloadResolver::Request(const ProcessId& process, uint64_t cgroup_id) {
  absl::MutexLock lock(&mutex_);
  if (waiting_.size() >= kMostWaiting) {
    ++failures_.crowded;
    return;
  }
  waiting_.push_back({.process = process, .cgroup_id = cgroup_id});
}

bool WorkloadResolver::Stop(absl::Duration patience) {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  if (thread_.joinable()) thread_.join();
  return readers_.Stop(patience);
}

WorkloadFailures WorkloadResolver::failures() const {
  absl::MutexLock lock(&mutex_);
  return failures_;
}

bool WorkloadResolver::WaitForTask(Task* task) {
  absl::MutexLock lock(&mutex_);
  auto has_work = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return stopping_ || !waiting_.empty();
  };
  mutex_.AwaitWithDeadline(absl::Condition(&has_work), again_.empty()
                                                           ? absl::InfiniteFuture()
                                                           : again_.begin()->first);
  if (stopping_) return false;
  // New requests first: their processes may end.
  if (!waiting_.empty()) {
    *task = std::move(waiting_.front());
    waiting_.pop_front();
  } else {
    *task = std::move(again_.begin()->second);
    again_.erase(again_.begin());
  }
  return true;
}

void WorkloadResolver::Read(Task* task) {
  WorkloadReading reading;
  auto workload = ReadWorkload(task->process, options_.proc, &reading);
  const bool lives = workload.ok();
  // Looked up for every process, so that it is known after the group is gone.
  absl::StatusOr<std::string> path;
  {
    absl::MutexLock lock(&paths_mutex_);
    if (lives) paths_.AddIfCurrent(task->cgroup_id, reading.cgroup);
    path = paths_.Find(task->cgroup_id);
  }
  const bool last = task->tries + 1 >= options_.most_tries;
  task->is_read = !lives || !reading.unreadable || last;
  if (lives) task->workload = *std::move(workload);
  task->workload.cgroup_id = task->cgroup_id;
  if (path.ok()) FillFromCgroups(absl::StrCat("0::", *path), &task->workload);
  if (!task->is_read) return;
  absl::MutexLock lock(&mutex_);
  if (!lives) ++(path.ok() ? failures_.group_only : failures_.ended);
  if (reading.unreadable) ++failures_.unreadable;
  if (reading.invalid) ++failures_.invalid;
}

void WorkloadResolver::StartReading(Task task) {
  const uid_t uid = UserOf(task.process.pid);
  auto read = [this, task = std::move(task)]() mutable {
    Read(&task);
    task.was_read = true;
    absl::MutexLock lock(&mutex_);
    waiting_.push_front(std::move(task));
  };
  if (readers_.Run(uid, read)) return;
  absl::MutexLock lock(&mutex_);
  ++failures_.crowded;
}

void WorkloadResolver::Try(Task task) {
  task.was_read = false;
  bool complete = task.is_read;
  if (options_.complete != nullptr &&
      !options_.complete(task.process, &task.workload)) {
    complete = false;
  }
  if (task.tries == 0 || !(task.workload == task.before)) {
    options_.found(task.process, task.workload);
  }
  task.before = task.workload;
  if (++task.tries >= options_.most_tries || complete) return;
  const absl::Time when =
      absl::Now() + options_.first_pause * (int64_t{1} << (task.tries - 1));
  absl::MutexLock lock(&mutex_);
  if (again_.size() < kMostWaiting) again_.emplace(when, std::move(task));
}

void WorkloadResolver::Run() {
  Task task;
  while (WaitForTask(&task)) {
    if (task.is_read || task.was_read) {
      Try(std::move(task));
    } else {
      StartReading(std::move(task));
    }
  }
}

}  // namespace rocattach
