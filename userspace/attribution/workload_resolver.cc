#include "userspace/attribution/workload_resolver.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "userspace/attribution/cgroup_workload.h"
#include "userspace/attribution/slurm_environment.h"
#include "userspace/base/file.h"
#include "userspace/base/process_stat.h"
#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

constexpr size_t kMostCgroupBytes = 64 << 10;
// A longer environment is not read: its process has no job then.
constexpr size_t kMostEnvironmentBytes = 1 << 20;
constexpr size_t kMostStatBytes = 4 << 10;

// Whether the process still has its number.
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
                                              WorkloadProblems* problems) {
  const std::string folder = absl::StrCat(proc, "/", process.pid);
  WorkloadProblems found;
  WorkloadIdentity workload;
  if (auto path = ReadLink(folder + "/exe"); path.ok()) {
    workload.executable = std::string(absl::StripSuffix(*path, " (deleted)"));
  }
  if (auto groups = ReadFile(folder + "/cgroup", kMostCgroupBytes); groups.ok()) {
    FillFromCgroups(*groups, &workload);
  } else {
    found.unreadable = true;
  }
  if (workload.slurm_job.empty()) {
    auto environment = ReadFile(folder + "/environ", kMostEnvironmentBytes);
    if (!environment.ok()) {
      found.unreadable = true;
    } else if (!FillFromEnvironment(*environment, &workload)) {
      found.invalid = true;
    }
  }
  // At the end: then all of it was this process's.
  const absl::Status lives = CheckLives(process, folder);
  if (!lives.ok()) return absl::NotFoundError(lives.message());
  if (problems != nullptr) *problems = found;
  return workload;
}

WorkloadResolver::WorkloadResolver(FoundFunction found)
    : found_(std::move(found)), thread_([this] { Run(); }) {}

WorkloadResolver::~WorkloadResolver() {
  Stop();
}

void WorkloadResolver::Request(const ProcessId& process, uint64_t cgroup_id) {
  absl::MutexLock lock(&mutex_);
  if (waiting_.size() >= kMostWaiting) {
    ++failures_.crowded;
    return;
  }
  waiting_.emplace_back(process, cgroup_id);
}

void WorkloadResolver::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

WorkloadFailures WorkloadResolver::failures() const {
  absl::MutexLock lock(&mutex_);
  return failures_;
}

void WorkloadResolver::Count(bool lives, const WorkloadProblems& problems) {
  absl::MutexLock lock(&mutex_);
  if (!lives) ++failures_.ended;
  if (problems.unreadable) ++failures_.unreadable;
  if (problems.invalid) ++failures_.invalid;
}

void WorkloadResolver::Run() {
  for (;;) {
    std::pair<ProcessId, uint64_t> next;
    {
      absl::MutexLock lock(&mutex_);
      auto has_work = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
        return stopping_ || !waiting_.empty();
      };
      mutex_.Await(absl::Condition(&has_work));
      if (stopping_) return;
      next = waiting_.front();
      waiting_.pop_front();
    }
    WorkloadProblems problems;
    auto workload = ReadWorkload(next.first, "/proc", &problems);
    Count(workload.ok(), problems);
    if (!workload.ok()) workload.emplace();
    workload->cgroup_id = next.second;
    found_(next.first, *std::move(workload));
  }
}

}  // namespace rocattach
