#include "userspace/service/session_service.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "userspace/base/clock.h"
#include "userspace/base/session_status.h"
#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

// For programs: as much as goes over the socket at once, and how long it waits for
// more.
constexpr size_t kClientBufferBytes = 256 << 10;
constexpr uint64_t kClientFlushMs = 10;
constexpr uint64_t kNumberMask = 0xffffffffff;
// Sessions that are over and still listed.
constexpr size_t kListedSessions = 1000;

uint64_t NumberOf(SessionId id) {
  return static_cast<uint64_t>(id) & kNumberMask;
}

absl::Status CheckTimes(const SessionRequest& request) {
  bool too_long = request.duration_ns > kLongestTimeNs;
  for (const CollectionPeriod& period : request.periods) {
    if (period.duration_ns == 0) {
      return absl::InvalidArgumentError("a period without a duration");
    }
    too_long |= period.delay_ns > kLongestTimeNs || period.duration_ns > kLongestTimeNs;
  }
  return too_long ? absl::InvalidArgumentError("a time of more than nine years")
                  : absl::OkStatus();
}

void Describe(const FilterSpec& filter, SessionInfo* info) {
  for (std::string& name : filter.CounterList()) {
    info->counters.push_back(std::move(name));
  }
  const auto add = [&](const char* what) { info->collects.push_back(what); };
  if (filter.kind == FilterKind::kDispatchTimestamps) add("dispatches");
  if (filter.kind == FilterKind::kCounters) add("counters of dispatches");
  if (filter.kind == FilterKind::kCountersSampler) add("counters of whole GPUs");
  for (TraceDomain domain : filter.api_domains) {
    if (domain == TraceDomain::kHsaApi) add("HSA calls");
    if (domain == TraceDomain::kHipApi) add("HIP calls");
    if (domain == TraceDomain::kMemoryCopies) add("memory copies");
    if (domain == TraceDomain::kMarkers) add("markers");
  }
}

}  // namespace

bool NeedsSdk(const std::vector<FilterSpec>& filters) {
  return std::any_of(filters.begin(), filters.end(), [](const FilterSpec& filter) {
    return filter.kind == FilterKind::kCounters ||
           filter.kind == FilterKind::kCountersSampler ||
           (filter.kind == FilterKind::kApiTrace &&
            std::any_of(filter.api_domains.begin(), filter.api_domains.end(),
                        [](TraceDomain domain) {
                          return domain != TraceDomain::kMemoryCopies;
                        }));
  });
}

SessionService::SessionService(
    std::shared_ptr<const CounterCatalog> catalog,
    std::function<void(pid_t, const std::string&)> on_refused)
    : catalog_(std::move(catalog)), on_refused_(std::move(on_refused)) {
  backend_ = std::make_shared<RecorderBackend>(
      [this](TargetId target, bool waiting) { Arrived(target, waiting); });
  engine_ = std::make_unique<SessionEngine>(backend_, catalog_);
  engine_->Initialize().IgnoreError();  // it is new
  thread_ = std::thread([this] { Run(); });
}

SessionService::~SessionService() {
  Close();
}

void SessionService::Close() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (std::exchange(stopping_, true)) return;
  }
  changed_.notify_all();
  thread_.join();
  std::lock_guard<std::mutex> serving(serving_);
  for (auto& [number, session] : sessions_) {
    if (!session.over) End(&session).IgnoreError();  // nobody is left to tell
  }
  engine_->Finalize().IgnoreError();
}

void SessionService::Arrived(TargetId target, bool waiting) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    arrivals_.emplace_back(target, waiting);
  }
  changed_.notify_all();
}

void SessionService::Run() {
  (void)pthread_setname_np(pthread_self(), "rwa-sessions");
  uint64_t wake_ns = UINT64_MAX;
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stopping_) {
    if (!arrivals_.empty()) {
      auto [target, waiting] = arrivals_.front();
      arrivals_.pop_front();
      lock.unlock();
      Serve(target, waiting);
      lock.lock();
      continue;
    }
    const uint64_t now = BootNs();
    if (look_again_ || now >= wake_ns) {
      look_again_ = false;
      lock.unlock();
      wake_ns = ServeTime(now);
      lock.lock();
      continue;
    }
    if (wake_ns == UINT64_MAX) {
      changed_.wait(lock);
    } else {
      changed_.wait_for(lock, std::chrono::nanoseconds(wake_ns - now));
    }
  }
}

void SessionService::Serve(TargetId target, bool waiting) {
  std::lock_guard<std::mutex> serving(serving_);
  engine_->TargetArrived(target);
  for (auto& [number, session] : sessions_) {
    if (std::exchange(session.awaits_first, false)) {
      session.begin_ns = BootNs();
      LookAgain();
    }
    // One that nobody could collect for so far may find its process in this one.
    if (!session.waiting_for.empty()) Begin(&session);
  }
  if (waiting) backend_->LetGo(target);
  for (auto& [number, session] : sessions_) {
    if (session.collecting) NotifyRefused(&session);
  }
}

void SessionService::NotifyRefused(Session* session) {
  auto report = engine_->Report(session->id);
  if (!report.ok()) return;
  session->ran |= !report->running.empty();
  session->was_refused |= !report->refused.empty();
  for (const auto& [target, status] : report->refused) {
    Notify(*session, target, std::string(status.message()));
  }
}

void SessionService::Notify(const Session& session, TargetId target,
                            const std::string& why) {
  const uint64_t number = NumberOf(session.id);
  auto [entry, is_new] = notified_.try_emplace({number, target});
  const bool other = is_new || entry->second.why != why;
  if (!other && entry->second.period == session.period) return;
  entry->second = {why, session.period};
  // Each period that is lost stands in the stream; people are told once.
  backend_->NoteRefusal(target, number, why);
  if (other && on_refused_) on_refused_(target.pid, why);
}

void SessionService::Forget(uint64_t number) {
  std::erase_if(notified_,
                [&](const auto& entry) { return entry.first.first == number; });
}

void SessionService::Begin(Session* session) {
  const absl::Status started = engine_->StartSession(session->id);
  session->collecting = started.ok();
  session->waiting_for = started.ok() ? "" : std::string(started.message());
  NotifyRefused(session);
  if (started.ok()) return;
  // The engine names the processes that refuse; if another session is in the way, it
  // stops at the first.
  session->was_refused = true;
  const auto report = engine_->Report(session->id);
  for (TargetId target : TargetsOf(*session)) {
    if (report.ok() && report->refused.contains(target)) continue;
    Notify(*session, target, session->waiting_for);
  }
}

std::vector<TargetId> SessionService::TargetsOf(const Session& session) {
  std::vector<TargetId> targets = session.request.targets;
  if (session.request.pids.empty() && targets.empty()) return backend_->Targets();
  for (pid_t pid : session.request.pids) {
    if (auto target = backend_->FindTarget(pid); target.ok()) {
      targets.push_back(*target);
    }
  }
  return targets;
}

void SessionService::NotifyLate(Session* session, uint64_t elapsed_ns, bool due) {
  const uint64_t begun = session->schedule.Begun(elapsed_ns);
  const uint64_t in_time = session->begun + (due ? 1 : 0);
  session->begun = begun;
  if (begun <= in_time) return;
  session->period += begun - in_time;
  for (TargetId target : TargetsOf(*session)) {
    Notify(*session, target,
           absl::StrCat(begun - in_time,
                        " periods were over before the service came to them"));
  }
}

void SessionService::LookAgain() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    look_again_ = true;
  }
  changed_.notify_all();
}

uint64_t SessionService::ServeTime(uint64_t now_ns) {
  std::lock_guard<std::mutex> serving(serving_);
  uint64_t wake_ns = UINT64_MAX;
  for (bool released = true; std::exchange(released, false);) {
    wake_ns = UINT64_MAX;
    for (auto& [number, session] : sessions_) {
      if (session.over) continue;
      wake_ns = std::min(wake_ns, ServeSession(&session, now_ns, &released));
    }
  }
  return wake_ns;
}

uint64_t SessionService::ServeSession(Session* session, uint64_t now_ns,
                                      bool* released) {
  if (session->awaits_first) return UINT64_MAX;
  const uint64_t elapsed = now_ns - std::min(now_ns, session->begin_ns);
  const CollectionSchedule::Step step = session->schedule.At(elapsed);
  const uint64_t duration = session->request.duration_ns;
  NotifyLate(session, elapsed, step.collect);
  if (step.over || (duration != 0 && elapsed >= duration)) {
    *released |= session->collecting;
    End(session).IgnoreError();  // the stream tells
    return UINT64_MAX;
  }
  const bool was_due = session->collecting || !session->waiting_for.empty();
  if (step.collect && !session->collecting) Begin(session);
  if (!step.collect && was_due) {
    if (session->collecting) {
      engine_->TerminateSession(session->id).IgnoreError();  // the stream tells
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

// Filters, buffers and processes.
absl::Status SessionService::Complete(const SessionRequest& request, Session* session) {
  const SessionId id = session->id;
  for (const FilterSpec& spec : request.filters) {
    ASSIGN_OR_RETURN(const FilterId filter, engine_->filters().Create(id, spec));
    if (session->buffer != BufferId()) {
      // The one that the first filter got.
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
    ASSIGN_OR_RETURN(const TargetId target, backend_->FindTarget(pid));
    RETURN_IF_ERROR(engine_->AddSessionTarget(id, target));
  }
  for (TargetId target : request.targets) {
    RETURN_IF_ERROR(engine_->AddSessionTarget(id, target));
  }
  return absl::OkStatus();
}

void SessionService::Count(const SessionRequest& request, int change) {
  if (!request.pids.empty() || !request.targets.empty()) return;
  all_sessions_ += change;
  if (NeedsSdk(request.filters)) sdk_sessions_ += change;
}

absl::StatusOr<uint64_t> SessionService::Start(SessionRequest request) {
  RETURN_IF_ERROR(CheckTimes(request));
  std::lock_guard<std::mutex> serving(serving_);
  Session session;
  RETURN_IF_ERROR(Create(request, &session));
  const SessionId id = session.id;
  session.schedule = CollectionSchedule(request.periods);
  session.begin_ns = BootNs();
  session.awaits_first = request.from_first_process && backend_->Targets().empty();
  session.collecting = session.schedule.At(0).collect;
  session.begun = session.schedule.Begun(0);
  Count(request, 1);
  if (session.collecting) {
    const absl::Status started = engine_->StartSession(id);
    session.request = request;
    NotifyRefused(&session);
    if (!started.ok()) {
      Count(request, -1);
      engine_->DestroySession(id).IgnoreError();
      Forget(NumberOf(id));
      return started;
    }
  }
  session.request = std::move(request);
  if (sessions_.size() >= kListedSessions) {
    auto over = std::find_if(sessions_.begin(), sessions_.end(),
                             [](const auto& entry) { return entry.second.over; });
    if (over != sessions_.end()) sessions_.erase(over);
  }
  sessions_[NumberOf(id)] = std::move(session);
  LookAgain();
  return NumberOf(id);
}

absl::Status SessionService::End(Session* session) {
  absl::Status status;
  if (session->collecting) status = engine_->TerminateSession(session->id);
  engine_->DestroySession(session->id).IgnoreError();
  Count(session->request, -1);
  session->collecting = false;
  session->waiting_for.clear();
  session->over = true;
  session->end_ns = BootNs();
  Forget(NumberOf(session->id));
  if (session->request.over) session->request.over();
  // The session stays listed; who waited for its records is done.
  session->request.records = nullptr;
  session->request.process_ended = nullptr;
  session->request.over = nullptr;
  return status;
}

absl::Status SessionService::Stop(uint64_t number) {
  std::lock_guard<std::mutex> serving(serving_);
  auto found = sessions_.find(number);
  if (found == sessions_.end() || found->second.over) {
    return SessionError(SessionStatus::kSessionNotFound,
                        absl::StrCat("no session ", number, " is under way"));
  }
  absl::Status ended = End(&found->second);
  LookAgain();  // another one may have waited for this
  return ended;
}

absl::Status SessionService::Flush(uint64_t number) {
  SessionId id = {};
  BufferId buffer = {};
  {
    std::lock_guard<std::mutex> serving(serving_);
    auto found = sessions_.find(number);
    if (found != sessions_.end() && !found->second.over) {
      id = found->second.id;
      buffer = found->second.buffer;
    }
  }
  // Without the lock: the recorder is waited for.
  return engine_->buffers().Flush(id, buffer);
}

std::vector<SessionInfo> SessionService::List() {
  std::lock_guard<std::mutex> serving(serving_);
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
      Describe(filter, &info);
    }
    if (auto report = engine_->Report(session.id); report.ok()) {
      for (TargetId target : report->running) info.running.push_back(target.pid);
      for (const auto& [target, status] : report->refused) {
        info.refused[target.pid] = std::string(status.message());
      }
    }
    list.push_back(std::move(info));
  }
  return list;
}

}  // namespace rocattach
