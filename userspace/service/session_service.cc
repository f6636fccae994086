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

// For client programs: number of bytes that are sent over the socket at once, and
// maximum time to wait for more.
constexpr size_t kClientBufferBytes = 256 << 10;
constexpr uint64_t kClientFlushMs = 10;
// Number of listed sessions from which on those that are over are removed.
constexpr size_t kListedSessions = 1000;

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

SessionService::SessionService(
    std::shared_ptr<const CounterCatalog> catalog,
    std::function<void(pid_t, const std::string&)> on_refused,
    std::function<void(pid_t, const std::vector<LeftOut>&)> on_left_out,
    std::function<void(pid_t, uint64_t)> on_skipped)
    : catalog_(std::move(catalog)),
      on_refused_(std::move(on_refused)),
      on_left_out_(std::move(on_left_out)),
      on_skipped_(std::move(on_skipped)) {
  targets_ = std::make_shared<SessionTargets>(
      [this](ProcessId target, bool waiting) {
        OnArrival({target, waiting});
      },
      [this](ProcessId target) {
        OnArrival({target, false, /*missed=*/true});
      });
  engine_ = std::make_unique<SessionEngine>(targets_, catalog_);
  engine_->Initialize().IgnoreError();  // it is new
  thread_ = std::thread([this] { Run(); });
}

SessionService::~SessionService() {
  Close();
}

void SessionService::Close() {
  {
    absl::MutexLock lock(&mutex_);
    if (std::exchange(stopping_, true)) return;
  }
  changed_.Signal();
  // The thread may be waiting for a process that does not answer.
  engine_->EndAllNow();
  thread_.join();
  absl::MutexLock lock(&sessions_mutex_);
  for (auto& [number, session] : sessions_) {
    if (!session.over) End(&session).IgnoreError();  // there is no client to report to
  }
  engine_->Finalize().IgnoreError();
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
    engine_->EndSessionAt(session.id, EndOfPeriod(session));
    WakeScheduler();
  }
  engine_->TargetArrived(arrival.target);
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
  auto report = engine_->Report(session->id);
  if (!report.ok()) return;
  session->ran |= !report->running.empty();
  for (const auto& [target, status] : report->refused) {
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
  std::erase_if(session->left_out, [&report](ProcessId target) {
    return !report->left_out.contains(target);  // it has ended
  });
  for (const auto& [target, what] : report->left_out) {
    const bool is_new = !what.empty() && session->left_out.insert(target).second;
    if (is_new && on_left_out_) on_left_out_(target.pid, what);
  }
}

void SessionService::ReportRefusal(const Session& session, ProcessId target,
                                   const std::string& why) {
  const uint64_t number = Number(session.id);
  const RefusalNotices::Due due = notices_.Add(number, target, why, session.period);
  if (due.stream) targets_->WriteRefusal(target, number, why);
  if (due.people && on_refused_) on_refused_(target.pid, why);
}

void SessionService::Yield() {
  absl::MutexLock lock(&sessions_mutex_);
  YieldTo({});
}

void SessionService::YieldTo(const SessionRequest& request) {
  if (request.yields) return;
  for (auto& [number, session] : sessions_) {
    if (!session.request.yields || !session.collecting) continue;
    engine_->TerminateSession(session.id).IgnoreError();  // the stream has its data
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
  const absl::Status started =
      engine_->StartSession(session->id, EndOfPeriod(*session));
  session->collecting = started.ok();
  session->waiting_for = started.ok() ? "" : std::string(started.message());
  ReportRefusals(session);
  if (started.ok() || session->request.yields) return;
  // The engine names the processes that refuse; if another session conflicts, it stops
  // at the first.
  session->was_refused = true;
  const auto report = engine_->Report(session->id);
  for (ProcessId target : TargetsOf(*session)) {
    if (report.ok() && report->refused.contains(target)) continue;
    ReportRefusal(*session, target, session->waiting_for);
  }
}

std::vector<ProcessId> SessionService::TargetsOf(const Session& session) {
  if (IsForAllProcesses(session.request)) return targets_->Targets();
  std::vector<ProcessId> targets = session.request.targets;
  for (pid_t pid : session.request.pids) {
    if (auto target = targets_->FindTarget(pid); target.ok()) {
      targets.push_back(*target);
    }
  }
  return targets;
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
  const uint64_t number = Number(session.id);
  const auto notice = skip_notices_.Add(number, target, "", session.period);
  if (notice.stream) {
    targets_->WriteRefusal(target, number, SkippedPeriodsText(periods));
  }
  if (notice.people && on_skipped_) on_skipped_(target.pid, periods);
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
      engine_->TerminateSession(session->id).IgnoreError();  // the stream has its data
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

absl::Status SessionService::Create(const SessionRequest& request, Session* session) {
  if (request.filters.empty()) {
    return SessionError(SessionStatus::kSessionMissingFilter, "nothing to collect");
  }
  ASSIGN_OR_RETURN(session->id, engine_->CreateSession(kNoReplay));
  absl::Status status = Complete(request, session);
  if (!status.ok()) engine_->DestroySession(session->id).IgnoreError();
  return status;
}

absl::Status SessionService::Complete(const SessionRequest& request, Session* session) {
  const SessionId id = session->id;
  for (const FilterSpec& spec : request.filters) {
    ASSIGN_OR_RETURN(const FilterId filter, engine_->filters().Create(id, spec));
    if (session->buffer != BufferId()) {
      // Uses the buffer of the first filter.
    } else if (!request.records) {
      ASSIGN_OR_RETURN(session->buffer, engine_->buffers().CreateUnread(id));
    } else {
      ASSIGN_OR_RETURN(session->buffer, engine_->buffers().Create(
                                            id, kClientBufferBytes, request.records));
      RETURN_IF_ERROR(
          engine_->buffers().SetFlushInterval(id, session->buffer, kClientFlushMs));
    }
    RETURN_IF_ERROR(engine_->filters().SetBuffer(id, filter, session->buffer));
  }
  if (request.process_ended) {
    RETURN_IF_ERROR(engine_->SetProcessEndedCallback(id, request.process_ended));
  }
  for (pid_t pid : request.pids) {
    ASSIGN_OR_RETURN(const ProcessId target, targets_->FindTarget(pid));
    RETURN_IF_ERROR(engine_->AddSessionTarget(id, target));
  }
  for (ProcessId target : request.targets) {
    RETURN_IF_ERROR(engine_->AddSessionTarget(id, target));
  }
  return absl::OkStatus();
}

void SessionService::Count(const SessionRequest& request, int change) {
  if (!IsForAllProcesses(request) || request.yields) return;
  all_sessions_ += change;
  if (NeedsSdk(request.filters)) sdk_sessions_ += change;
}

absl::StatusOr<uint64_t> SessionService::Start(SessionRequest request) {
  RETURN_IF_ERROR(CheckTimes(request));
  absl::MutexLock lock(&sessions_mutex_);
  YieldTo(request);
  Session session;
  RETURN_IF_ERROR(Create(request, &session));
  const SessionId id = session.id;
  session.schedule = CollectionSchedule(request.periods);
  session.begin_ns = BootNs();
  session.awaits_first = request.from_first_process && targets_->Targets().empty();
  session.collecting = session.schedule.At(0).collect;
  session.begun = session.schedule.Begun(0);
  session.request = std::move(request);
  Count(session.request, 1);
  if (session.collecting) {
    const absl::Status started = engine_->StartSession(id, EndOfPeriod(session));
    ReportRefusals(&session);
    if (!started.ok()) {
      Count(session.request, -1);
      engine_->DestroySession(id).IgnoreError();
      notices_.Forget(Number(id));
      return started;
    }
  }
  if (sessions_.size() >= kListedSessions) {
    auto over = std::find_if(sessions_.begin(), sessions_.end(),
                             [](const auto& entry) { return entry.second.over; });
    if (over != sessions_.end()) sessions_.erase(over);
  }
  sessions_[Number(id)] = std::move(session);
  WakeScheduler();
  return Number(id);
}

absl::Status SessionService::End(Session* session) {
  absl::Status status;
  if (session->collecting) status = engine_->TerminateSession(session->id);
  if (auto report = engine_->Report(session->id); report.ok()) {
    session->collected = report->collected;
  }
  engine_->DestroySession(session->id).IgnoreError();
  Count(session->request, -1);
  session->collecting = false;
  session->waiting_for.clear();
  session->over = true;
  session->end_ns = BootNs();
  notices_.Forget(Number(session->id));
  skip_notices_.Forget(Number(session->id));
  if (session->request.over) session->request.over();
  // The session stays listed, but its client needs no more calls.
  session->request.records = nullptr;
  session->request.process_ended = nullptr;
  session->request.over = nullptr;
  return status;
}

absl::Status SessionService::Stop(uint64_t number) {
  // Ends it at once, even while a thread with the lock waits for a process to answer.
  engine_->EndSessionAt(SessionOfNumber(number), BootNs());
  absl::MutexLock lock(&sessions_mutex_);
  auto found = sessions_.find(number);
  if (found == sessions_.end() || found->second.over) {
    return SessionError(SessionStatus::kSessionNotFound,
                        absl::StrCat("no session ", number, " is active"));
  }
  absl::Status ended = End(&found->second);
  WakeScheduler();  // another session may have waited for this
  return ended;
}

absl::Status SessionService::Flush(uint64_t number) {
  SessionId id = {};
  BufferId buffer = {};
  {
    absl::MutexLock lock(&sessions_mutex_);
    auto found = sessions_.find(number);
    if (found != sessions_.end() && !found->second.over) {
      id = found->second.id;
      buffer = found->second.buffer;
    }
  }
  // Without the lock, because this waits for the recorder.
  return engine_->buffers().Flush(id, buffer);
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
    if (auto report = engine_->Report(session.id); report.ok() && !session.over) {
      info.collected = report->collected;
      for (ProcessId target : report->running) info.running.push_back(target.pid);
      for (const auto& [target, status] : report->refused) {
        info.refused[target.pid] = std::string(status.message());
      }
    }
    list.push_back(std::move(info));
  }
  return list;
}

}  // namespace rocattach
