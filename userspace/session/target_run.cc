#include "userspace/session/target_run.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "userspace/base/clock.h"
#include "userspace/base/session_status.h"
#include "userspace/base/status_macros.h"
#include "userspace/session/missing_counters.h"

namespace rocattach {
namespace {

// Time limit for a process to name, one by one, the counters that its SDK lacks.
constexpr uint64_t kPatienceNs = 2'000'000'000;

constexpr char kEndedBefore[] = "the session ended before it could begin in it";

std::string Name(ProcessId target) {
  return absl::StrCat("process ", target.pid);
}

// True if `kinds` are some of `others`, but not all.
bool IsPartOf(uint32_t kinds, uint32_t others) {
  return kinds != others && (kinds & ~others) == 0;
}

}  // namespace

TargetRun::TargetRun(std::shared_ptr<TargetOwners> owners, RunSpec spec)
    : owners_(std::move(owners)), spec_(std::move(spec)) {}

std::shared_ptr<TargetRun> TargetRun::New(std::shared_ptr<TargetOwners> owners,
                                          RunSpec spec) {
  std::shared_ptr<TargetRun> run(new TargetRun(std::move(owners), std::move(spec)));
  const auto ended = [weak = run->weak_from_this()](ProcessId target) {
    if (const auto alive = weak.lock()) alive->Ended(target);
  };
  run->sink_ = std::make_shared<SessionSink>(run->spec_.consumer, run->spec_.filters,
                                             run->end_, ended);
  return run;
}

std::vector<ProcessId> TargetRun::Running() const {
  absl::MutexLock lock(&owners_->mutex);
  return {running_.begin(), running_.end()};
}

std::map<ProcessId, absl::Status> TargetRun::Refused() const {
  absl::MutexLock lock(&owners_->mutex);
  return refused_;
}

std::map<ProcessId, absl::Status> TargetRun::NewlyRefused() {
  absl::MutexLock lock(&owners_->mutex);
  return std::exchange(newly_refused_, {});
}

void TargetRun::ForgetEndedRefusals() {
  const std::vector<ProcessId> targets = owners_->backend->Targets();
  const std::set<ProcessId> alive(targets.begin(), targets.end());
  const auto has_ended = [&alive](const auto& entry) {
    return !alive.contains(entry.first);
  };
  std::erase_if(refused_, has_ended);
  most_refused_ = refused_.size() + kEndedThatAreKept;
}

std::map<ProcessId, std::vector<LeftOut>> TargetRun::LeftOutOf() const {
  absl::MutexLock lock(&owners_->mutex);
  return left_out_;
}

std::shared_ptr<const CounterCatalog> TargetRun::Catalog() const {
  for (const FilterSpec& filter : spec_.filters) {
    if (filter.catalog != nullptr) return filter.catalog;
  }
  return owners_->catalog;
}

absl::StatusOr<std::vector<ProcessId>> TargetRun::Reserve() {
  // Quick and without callbacks, so that what is checked is what is reserved.
  const bool all = spec_.targets.empty();
  std::vector<ProcessId> targets = all ? owners_->backend->Targets() : spec_.targets;
  absl::MutexLock lock(&owners_->mutex);
  if (owners_->all != SessionId()) return OwnedBy("every process", owners_->all);
  for (ProcessId target : targets) {
    auto owner = owners_->targets.find(target);
    if (owner != owners_->targets.end()) return OwnedBy(Name(target), owner->second);
  }
  for (ProcessId target : targets) owners_->targets[target] = spec_.session;
  if (all) {
    owners_->all = spec_.session;
    owners_->run_of_all = weak_from_this();
  }
  return targets;
}

absl::Status TargetRun::Start() {
  absl::MutexLock lock(&starts_mutex_);
  ASSIGN_OR_RETURN(const std::vector<ProcessId> targets, Reserve());
  absl::Status first;
  size_t started = 0;
  for (ProcessId target : targets) {
    absl::Status status = StartTarget(target);
    if (status.ok()) {
      ++started;
      continue;
    }
    // A process that cannot record what is requested does not prevent the others from
    // doing so, unless it was named.
    if (!spec_.targets.empty() ||
        SessionStatusOf(status) == SessionStatus::kHasActiveSession) {
      return status;
    }
    first.Update(status);
  }
  return started == 0 ? first : absl::OkStatus();
}

absl::Status TargetRun::Refuse(ProcessId target, absl::Status why) {
  absl::MutexLock lock(&owners_->mutex);
  running_.erase(target);
  refused_[target] = newly_refused_[target] = why;
  if (refused_.size() >= most_refused_) ForgetEndedRefusals();
  owners_->ReleaseTarget(target, spec_.session);
  return why;
}

absl::Status TargetRun::OwnCounters(ProcessId target, const CompiledPlan& plan) {
  absl::MutexLock lock(&owners_->mutex);
  for (const std::string& key : plan.counter_gpus) {
    auto owner = owners_->counters.find(key);
    if (owner != owners_->counters.end() && owner->second != spec_.session) {
      return CountersOwnedBy(key, owner->second);
    }
  }
  for (const std::string& key : plan.counter_gpus) {
    owners_->counters[key] = spec_.session;
  }
  // Before the backend is called: the process may end at once.
  running_.insert(target);
  return absl::OkStatus();
}

absl::Status TargetRun::StartTarget(ProcessId target) {
  SessionBackend& backend = *owners_->backend;
  // The wait for another process may have lasted as long as the session was to last.
  if (BootNs() >= end_->ns()) {
    return Refuse(target, SessionError(SessionStatus::kError,
                                       absl::StrCat(Name(target), ": ", kEndedBefore)));
  }
  auto description = backend.Describe(target);
  if (!description.ok()) {
    return Refuse(target, SessionError(SessionStatus::kError,
                                       absl::StrCat(Name(target), ": ",
                                                    description.status().message())));
  }
  std::vector<FilterSpec> filters = spec_.filters;
  std::vector<std::string> missing;
  std::vector<LeftOut> notes;
  const uint64_t begin = BootNs();
  for (;;) {
    auto plan = CompilePlan(spec_.session, filters, *description, Catalog(), notes);
    if (!plan.ok()) return Refuse(target, plan.status());
    if (absl::Status owned = OwnCounters(target, **plan); !owned.ok()) {
      return Refuse(target, std::move(owned));
    }
    spec_.names->Set(target.pid, NamesOf(*description));
    sink_->AddTarget(target, *plan);
    const absl::Status started = backend.Start(target, *plan, sink_);
    if (started.ok()) {
      absl::MutexLock lock(&owners_->mutex);
      left_out_[target] = (*plan)->left_out;
      return absl::OkStatus();
    }
    // A collector names the counters that its SDK lacks one at a time.
    const std::string counter = MissingCounter(started);
    if (BootNs() - begin < kPatienceNs && LeaveOut(counter, **plan, &filters)) {
      missing.push_back(counter);
      notes = {LeftOutCounters(missing)};
      continue;
    }
    // Or it cannot load its SDK: the rest may work without it.
    if (auto again = backend.Describe(target);
        again.ok() && IsPartOf(again->record_kinds, description->record_kinds)) {
      description = std::move(again);
      continue;
    }
    return Refuse(target,
                  SessionError(SessionStatus::kError,
                               absl::StrCat(Name(target), ": ", started.message(),
                                            SinceText(counter, **plan))));
  }
}

void TargetRun::Ended(ProcessId target) {
  // A session for all processes may see many of them.
  spec_.names->Remove(target.pid);
  absl::MutexLock lock(&owners_->mutex);
  running_.erase(target);
  left_out_.erase(target);
  owners_->ReleaseTarget(target, spec_.session);
}

absl::Status TargetRun::Stop() {
  absl::MutexLock starts(&starts_mutex_);
  stopped_ = true;
  const std::vector<ProcessId> running = Running();
  absl::Status result;
  auto keep_error = [&](ProcessId target, const absl::Status& status) {
    if (status.ok()) return;
    result.Update(SessionError(SessionStatus::kError,
                               absl::StrCat(Name(target), ": ", status.message())));
  };
  for (ProcessId target : running) keep_error(target, owners_->backend->Stop(target));
  // Callbacks must not wait: see SessionBackend::Settle.
  if (!UserCallback::Active()) {
    for (ProcessId target : running)
      keep_error(target, owners_->backend->Settle(target));
  }
  absl::MutexLock lock(&owners_->mutex);
  owners_->Release(spec_.session);
  running_.clear();
  return result;
}

absl::Status TargetRun::Drain() {
  absl::Status result;
  for (ProcessId target : Running()) {
    const absl::Status drained = owners_->backend->Drain(target);
    if (drained.ok()) continue;
    result.Update(SessionError(SessionStatus::kCorruptedSessionBuffer,
                               absl::StrCat(Name(target), ": ", drained.message())));
  }
  return result;
}

void TargetRun::Arrived(ProcessId target) {
  absl::MutexLock starts(&starts_mutex_);
  if (stopped_) return;
  {
    absl::MutexLock lock(&owners_->mutex);
    if (!owners_->targets.try_emplace(target, spec_.session).second) return;
  }
  StartTarget(target).IgnoreError();  // the error is in Refused()
}

}  // namespace rocattach
