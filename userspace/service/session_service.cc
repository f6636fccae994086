#include "userspace/service/session_service.h"

#include <pthread.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "userspace/base/clock.h"
#include "userspace/base/session_status.h"
#include "userspace/base/status_macros.h"
#include "userspace/session/session_end.h"
#include "userspace/session/session_handle.h"

namespace rocattach {
namespace {

// Number of listed sessions from which on those that are over are removed.
constexpr size_t kListedSessions = 1000;

absl::Status NoSession(uint64_t number) {
  return SessionError(SessionStatus::kSessionNotFound,
                      absl::StrCat("no session ", number, " is active"));
}

}  // namespace

std::string SkippedPeriodsText(uint64_t periods) {
  return periods == 1
             ? std::string(
                   "1 period was skipped: it had passed before the "
                   "service could start it")
             : absl::StrCat(periods,
                            " periods were skipped: they had passed before the "
                            "service could start them");
}

absl::Status ServiceIsEnding() {
  return absl::UnavailableError("rocattach-watch is ending");
}

SessionService::SessionService(std::shared_ptr<const CounterCatalog> catalog,
                               SessionObserver* observer)
    : catalog_(std::move(catalog)),
      observer_(observer),
      targets_(std::make_shared<SessionTargets>(
          [this](ProcessId target, bool waiting) {
            OnArrival({target, waiting});
          },
          [this](ProcessId target) {
            OnArrival({target, false, /*missed=*/true});
          })),
      runner_(targets_, catalog_) {
  thread_ = std::thread([this] { Run(); });
}

SessionService::~SessionService() {
  Close();
}

void SessionService::Close() {
  {
    absl::MutexLock lock(&mutex_);
    if (std::exchange(stopping_, true)) return;
    // The thread may be waiting for a process that does not answer.
    for (const auto& [number, run] : runs_) run->EndAt(BootNs());
  }
  changed_.Signal();
  thread_.join();
  absl::MutexLock lock(&sessions_mutex_);
  for (auto& [number, session] : sessions_) {
    if (!session.over) End(&session).IgnoreError();  // there is no client to report to
  }
}

absl::Status SessionService::CheckOpen() {
  absl::MutexLock lock(&mutex_);
  return stopping_ ? ServiceIsEnding() : absl::OkStatus();
}

void SessionService::OnArrival(const Arrival& arrival) {
  {
    absl::MutexLock lock(&mutex_);
    arrivals_.push_back(arrival);
    arrivals_.back().time_ns = BootNs();
  }
  changed_.Signal();
}

void SessionService::Run() {
  (void)pthread_setname_np(pthread_self(), "rwa-sessions");
  for (uint64_t wake_ns = UINT64_MAX;;) {
    std::optional<Arrival> arrival;
    bool look_again = false;
    {
      absl::MutexLock lock(&mutex_);
      if (stopping_) {
        // Missed processes are reported, however short the run was.
        std::erase_if(arrivals_, [](const Arrival& left) { return !left.missed; });
        if (arrivals_.empty()) return;
      }
      if (!arrivals_.empty()) {
        arrival = arrivals_.front();
        arrivals_.pop_front();
      } else {
        look_again = std::exchange(look_again_, false);
      }
    }
    // Schedules that are due do not wait for arrivals, each of which may take seconds.
    const uint64_t now = BootNs();
    const bool due = look_again || now >= wake_ns;
    if (due) wake_ns = ServeSchedules(now);
    if (arrival.has_value() && arrival->missed) {
      ServeMissed(arrival->target);
      continue;
    }
    if (arrival.has_value()) {
      ServeArrival(*arrival);
      ++served_;
      if (on_served_) on_served_();
      continue;
    }
    if (due) continue;
    (void)changed_.WaitFor(wake_ns == UINT64_MAX ? WakeEvent::kForever : wake_ns - now);
  }
}

void SessionService::ServeArrival(const Arrival& arrival) {
  absl::MutexLock lock(&sessions_mutex_);
  for (auto& [number, session] : sessions_) {
    if (!std::exchange(session.awaits_first, false)) continue;
    session.begin_ns = arrival.time_ns;
    if (session.run != nullptr) session.run->EndAt(EndOfPeriod(session));
    WakeScheduler();
  }
  runner_.Arrived(arrival.target);
  for (auto& [number, session] : sessions_) {
    // This process may be able to serve a session that no other could.
    if (!session.waiting_for.empty()) BeginPeriod(&session);
  }
  if (arrival.waiting) targets_->Release(arrival.target);
  for (auto& [number, session] : sessions_) {
    if (session.collecting) ReportRefusals(&session);
  }
}

void SessionService::ServeMissed(ProcessId target) {
  absl::MutexLock lock(&sessions_mutex_);
  for (auto& [number, session] : sessions_) {
    const SessionRequest& request = session.request;
    const bool wanted = (session.collecting || session.awaits_first) &&
                        IsForAllProcesses(request) && NeedsSdk(request.filters);
    if (!wanted || request.yields) continue;
    session.was_refused = true;
    ReportRefusal(session, target,
                  "the process ended before the session could begin in it");
  }
}

void SessionService::ReportRefusals(Session* session) {
  session->ran |= !session->run->Running().empty();
  for (const auto& [target, status] : session->run->NewlyRefused()) {
    // If a period is over before a process has begun it, the process did not refuse it.
    const bool is_skipped = !session->request.periods.empty() &&
                            absl::StrContains(status.message(), kEndedBeforeBegun);
    session->was_refused |= !is_skipped;
    if (session->request.yields) continue;
    if (is_skipped) {
      ReportSkipped(*session, target, 1);
    } else {
      ReportRefusal(*session, target, std::string(status.message()));
    }
  }
  if (session->request.yields) return;
  const auto left_out = session->run->LeftOutOf();
  std::erase_if(session->left_out, [&left_out](ProcessId target) {
    return !left_out.contains(target);  // it has ended
  });
  for (const auto& [target, what] : left_out) {
    const bool is_new = !what.empty() && session->left_out.insert(target).second;
    if (is_new && observer_ != nullptr) observer_->OnSessionLeftOut(target.pid, what);
  }
}

void SessionService::ReportRefusal(const Session& session, ProcessId target,
                                   const std::string& why) {
  ForgetEndedNotices();
  const uint64_t number = Number(session.id);
  const RefusalNotices::Due due = notices_.Add(number, target, why, session.period);
  if (due.stream) targets_->WriteRefusal(target, number, why);
  if (due.people && observer_ != nullptr) observer_->OnSessionRefused(target.pid, why);
}

void SessionService::ForgetEndedNotices() {
  if (notices_.size() + skip_notices_.size() < most_notices_) return;
  const std::vector<ProcessId> targets = targets_->Targets();
  const std::set<ProcessId> alive(targets.begin(), targets.end());
  notices_.KeepOnly(alive);
  skip_notices_.KeepOnly(alive);
  most_notices_ = notices_.size() + skip_notices_.size() + kEndedThatAreKept;
}

void SessionService::YieldTo(const SessionRequest& request) {
  if (request.yields) return;
  for (auto& [number, session] : sessions_) {
    if (!session.request.yields || !session.collecting) continue;
    session.run->Stop().IgnoreError();  // the stream has its data
    session.collecting = false;
    session.waiting_for = "another session";
  }
}

uint64_t SessionService::EndOfPeriod(const Session& session) {
  if (session.awaits_first) return UINT64_MAX;
  const uint64_t elapsed = ElapsedNs(session.begin_ns, BootNs());
  uint64_t after_ns = session.schedule.CollectsUntil(elapsed);
  if (const uint64_t duration = session.request.duration_ns; duration != 0) {
    after_ns = std::min(after_ns, duration);
  }
  return after_ns == UINT64_MAX ? UINT64_MAX : session.begin_ns + after_ns;
}

void SessionService::BeginPeriod(Session* session) {
  YieldTo(session->request);
  const absl::Status started = StartRun(session);
  session->collecting = started.ok();
  session->waiting_for = started.ok() ? "" : std::string(started.message());
  ReportRefusals(session);
  if (started.ok() || session->request.yields) return;
  // The run names the processes that refuse; if another session conflicts, it stops at
  // the first.
  session->was_refused = true;
  const auto refused = session->run->Refused();
  for (ProcessId target : TargetsOf(*session)) {
    if (refused.contains(target)) continue;
    ReportRefusal(*session, target, session->waiting_for);
  }
}

std::vector<ProcessId> SessionService::TargetsOf(const Session& session) {
  const std::vector<ProcessId>& named = session.request.targets;
  return named.empty() ? targets_->Targets() : named;
}

void SessionService::ReportMissedPeriods(Session* session, uint64_t elapsed_ns,
                                         bool due) {
  const uint64_t begun = session->schedule.Begun(elapsed_ns);
  const uint64_t in_time = session->begun + (due ? 1 : 0);
  session->begun = begun;
  if (begun <= in_time || session->request.yields) return;
  const uint64_t skipped = begun - in_time;
  session->period += skipped;
  for (ProcessId target : TargetsOf(*session)) {
    ReportSkipped(*session, target, skipped);
  }
}

void SessionService::ReportSkipped(const Session& session, ProcessId target,
                                   uint64_t periods) {
  ForgetEndedNotices();
  const uint64_t number = Number(session.id);
  const auto notice = skip_notices_.Add(number, target, "", session.period);
  const std::string text = SkippedPeriodsText(periods);
  if (notice.stream) targets_->WriteRefusal(target, number, text);
  if (notice.people && observer_ != nullptr) {
    observer_->OnPeriodsSkipped(target.pid, periods, text);
  }
}

void SessionService::WakeScheduler() {
  {
    absl::MutexLock lock(&mutex_);
    look_again_ = true;
  }
  changed_.Signal();
}

uint64_t SessionService::ServeSchedules(uint64_t now_ns) {
  absl::MutexLock lock(&sessions_mutex_);
  uint64_t wake_ns = UINT64_MAX;
  for (bool released = true; std::exchange(released, false);) {
    wake_ns = UINT64_MAX;
    for (auto& [number, session] : sessions_) {
      if (session.over) continue;
      wake_ns = std::min(wake_ns, ServeSchedule(&session, now_ns, &released));
    }
  }
  return wake_ns;
}

uint64_t SessionService::ServeSchedule(Session* session, uint64_t now_ns,
                                       bool* released) {
  if (session->awaits_first) return UINT64_MAX;
  const uint64_t elapsed = now_ns - std::min(now_ns, session->begin_ns);
  const CollectionSchedule::Step step = session->schedule.At(elapsed);
  const uint64_t duration = session->request.duration_ns;
  ReportMissedPeriods(session, elapsed, step.collect);
  if (step.over || (duration != 0 && elapsed >= duration)) {
    *released |= session->collecting;
    End(session).IgnoreError();  // the stream has its data
    return UINT64_MAX;
  }
  const bool was_due = session->collecting || !session->waiting_for.empty();
  if (step.collect && !session->collecting) BeginPeriod(session);
  if (!step.collect && was_due) {
    if (session->collecting) {
      session->run->Stop().IgnoreError();  // the stream has its data
      *released = true;
    }
    session->collecting = false;
    session->waiting_for.clear();
    ++session->period;
  }
  uint64_t wake_ns = UINT64_MAX;
  if (step.until_ns != UINT64_MAX) wake_ns = session->begin_ns + step.until_ns;
  if (duration != 0) wake_ns = std::min(wake_ns, session->begin_ns + duration);
  return wake_ns;
}

absl::StatusOr<SessionService::Session> SessionService::NewSession(
    SessionRequest request) {
  if (request.filters.empty()) {
    return SessionError(SessionStatus::kSessionMissingFilter, "nothing to collect");
  }
  std::set<FilterKind> kinds;
  for (const FilterSpec& filter : request.filters) {
    RETURN_IF_ERROR(runner_.CheckFilter(filter));
    if (kinds.insert(filter.kind).second) continue;
    return SessionError(
        SessionStatus::kSessionFilterDataMismatch,
        absl::StrCat("two filters of kind ", static_cast<int>(filter.kind)));
  }
  std::set<ProcessId> targets;
  for (ProcessId target : request.targets) {
    if (target.start_ticks == 0) {
      ASSIGN_OR_RETURN(target, targets_->FindTarget(target.pid));
    }
    targets.insert(target);
  }
  request.targets.assign(targets.begin(), targets.end());
  Session session;
  if (request.names == nullptr) request.names = std::make_shared<SessionTargetNames>();
  session.id = SessionOfNumber(++last_number_);
  session.request = std::move(request);
  return session;
}

absl::Status SessionService::StartRun(Session* session) {
  RunSpec spec;
  spec.session = session->id;
  spec.filters = session->request.filters;
  spec.targets = session->request.targets;
  spec.consumer = session->request.consumer;
  spec.names = session->request.names;
  const std::shared_ptr<TargetRun> run = runner_.NewTargetRun(std::move(spec));
  run->EndAt(EndOfPeriod(*session));
  if (session->run != nullptr) session->collected.Add(session->run->collected());
  session->run = run;
  {
    absl::MutexLock lock(&mutex_);
    runs_[Number(session->id)] = run;
  }
  // After it is in the list: either this sees that the service ends, or Close() ends it.
  RETURN_IF_ERROR(CheckOpen());
  absl::Status started = run->Start();
  if (!started.ok()) run->Stop().IgnoreError();  // what was started before the failure
  return started;
}

void SessionService::Count(const SessionRequest& request, int change) {
  if (!IsForAllProcesses(request) || request.yields) return;
  all_sessions_ += change;
  if (NeedsSdk(request.filters)) sdk_sessions_ += change;
}

absl::StatusOr<uint64_t> SessionService::Start(SessionRequest request) {
  RETURN_IF_ERROR(CheckTimes(request));
  absl::MutexLock lock(&sessions_mutex_);
  RETURN_IF_ERROR(CheckOpen());
  YieldTo(request);
  ASSIGN_OR_RETURN(Session session, NewSession(std::move(request)));
  const uint64_t number = Number(session.id);
  session.schedule = CollectionSchedule(session.request.periods);
  session.begin_ns = BootNs();
  session.awaits_first =
      session.request.from_first_process && targets_->Targets().empty();
  session.collecting = session.schedule.At(0).collect;
  session.begun = session.schedule.Begun(0);
  Count(session.request, 1);
  if (session.collecting) {
    const absl::Status started = StartRun(&session);
    ReportRefusals(&session);
    if (!started.ok()) {
      Count(session.request, -1);
      Forget(number);
      return started;
    }
  }
  if (sessions_.size() >= kListedSessions) {
    auto over = std::find_if(sessions_.begin(), sessions_.end(),
                             [](const auto& entry) { return entry.second.over; });
    if (over != sessions_.end()) sessions_.erase(over);
  }
  sessions_[number] = std::move(session);
  WakeScheduler();
  return number;
}

void SessionService::Forget(uint64_t number) {
  notices_.Forget(number);
  skip_notices_.Forget(number);
  absl::MutexLock lock(&mutex_);
  runs_.erase(number);
}

absl::Status SessionService::End(Session* session) {
  absl::Status status;
  if (session->collecting) status = session->run->Stop();
  if (session->run != nullptr) session->collected.Add(session->run->collected());
  session->run = nullptr;
  Count(session->request, -1);
  session->collecting = false;
  session->waiting_for.clear();
  session->over = true;
  session->end_ns = BootNs();
  Forget(Number(session->id));
  if (session->request.over) session->request.over();
  // The session stays listed, but its client needs no more calls.
  session->request.consumer = nullptr;
  session->request.names = nullptr;
  session->request.over = nullptr;
  return status;
}

absl::Status SessionService::Stop(uint64_t number) {
  // Ends it at once, even while a thread with the lock waits for a process to answer.
  {
    absl::MutexLock lock(&mutex_);
    if (auto run = runs_.find(number); run != runs_.end()) run->second->EndAt(BootNs());
  }
  absl::MutexLock lock(&sessions_mutex_);
  auto found = sessions_.find(number);
  if (found == sessions_.end() || found->second.over) {
    return NoSession(number);
  }
  absl::Status ended = End(&found->second);
  WakeScheduler();  // another session may have waited for this
  return ended;
}

absl::Status SessionService::Flush(uint64_t number) {
  std::shared_ptr<TargetRun> run;
  {
    absl::MutexLock lock(&sessions_mutex_);
    auto found = sessions_.find(number);
    if (found == sessions_.end() || found->second.over) return NoSession(number);
    if (found->second.collecting) run = found->second.run;
  }
  // Without the lock, because this waits for the recorder.
  return run == nullptr ? absl::OkStatus() : run->Drain();
}

absl::StatusOr<SessionService::DeviceSession> SessionService::StartDevice(
    const std::vector<std::string>& counters, const std::string& gpu_key) {
  RETURN_IF_ERROR(CheckOpen());
  // Until the device session has the counters, no session that yields may begin again.
  absl::MutexLock lock(&sessions_mutex_);
  YieldTo({});
  DeviceSession device = {++last_number_, nullptr};
  ASSIGN_OR_RETURN(device.run, runner_.StartDevice(SessionOfNumber(device.number),
                                                   counters, gpu_key));
  return device;
}

std::vector<SessionInfo> SessionService::List() {
  absl::MutexLock lock(&sessions_mutex_);
  std::vector<SessionInfo> list;
  for (const auto& [number, session] : sessions_) {
    SessionInfo info;
    info.number = number;
    info.over = session.over;
    info.active = session.collecting;
    info.begin_ns = session.begin_ns;
    info.end_ns = session.end_ns;
    info.waiting_for = session.waiting_for;
    info.refused_by_all = session.was_refused && !session.ran;
    for (const FilterSpec& filter : session.request.filters) {
      DescribeFilter(filter, &info);
    }
    info.collected = session.collected;
    if (session.run != nullptr) {
      info.collected.Add(session.run->collected());
      for (ProcessId target : session.run->Running())
        info.running.push_back(target.pid);
      for (const auto& [target, status] : session.run->Refused()) {
        info.refused[target.pid] = std::string(status.message());
      }
    }
    list.push_back(std::move(info));
  }
  return list;
}

}  // namespace rocattach
