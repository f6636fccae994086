// A small model of the documented behaviour of sessions, to be compared to the engine.
#ifndef ROCATTACH_TESTS_UNIT_LIBRARY_SESSION_MODEL_H_
#define ROCATTACH_TESTS_UNIT_LIBRARY_SESSION_MODEL_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "userspace/base/session_status.h"
#include "userspace/session/session_record.h"

namespace rocattach {

using S = SessionStatus;

inline constexpr size_t kRecord = sizeof(DispatchRecord);
inline constexpr size_t kTracer = sizeof(TraceRecord);
inline constexpr size_t kValue = sizeof(RecordValue);

enum Kind { kTimes = 1, kCounts = 2, kUnsupported = 4, kApi = 6 };

struct ModelBuffer {
  size_t capacity = 0;
  size_t used = 0;
  std::vector<uint64_t> waiting;    // correlation IDs
  std::vector<uint64_t> delivered;  // … of the whole test
};

struct ModelFilter {
  Kind kind = kTimes;
  uint64_t buffer = 0;
  bool sync = false;
};

struct ModelSession {
  std::set<pid_t> targets;
  std::map<uint64_t, ModelFilter> filters;
  std::map<uint64_t, ModelBuffer> buffers;
  bool active = false;
  // Set by a start.
  std::set<pid_t> running;
  std::set<Kind> plan;
  std::set<int> gpus;  // with counters measured here
};

struct ModelProcess {
  int gpu = 0;
  bool counts = true;  // its runtime supports counters
};

class Model {
 public:
  bool initialized = false;
  std::map<uint64_t, ModelSession> sessions;
  std::map<pid_t, ModelProcess> processes;
  std::vector<uint64_t> sync_calls;

  S Find(uint64_t id, ModelSession** session) {
    if (!initialized) return S::kNotInitialized;
    auto found = sessions.find(id);
    if (found == sessions.end()) return S::kSessionNotFound;
    *session = &found->second;
    return S::kSuccess;
  }

  void Deliver(ModelBuffer& buffer) {
    buffer.delivered.insert(buffer.delivered.end(), buffer.waiting.begin(),
                            buffer.waiting.end());
    buffer.waiting.clear();
    buffer.used = 0;
  }

  void Append(ModelBuffer& buffer, uint64_t correlation, size_t bytes) {
    if (buffer.used + bytes > buffer.capacity) Deliver(buffer);
    buffer.waiting.push_back(correlation);
    buffer.used += bytes;
    if (buffer.used + bytes > buffer.capacity) Deliver(buffer);
  }

  S Start(uint64_t id) {
    ModelSession* session = nullptr;
    if (S status = Find(id, &session); status != S::kSuccess) return status;
    if (session->filters.empty()) return S::kSessionMissingFilter;
    for (const auto& [f, filter] : session->filters) {
      if (filter.buffer == 0 && !filter.sync) return S::kSessionMissingBuffer;
    }
    if (session->active) return S::kHasActiveSession;
    std::set<pid_t> wanted = session->targets;
    const bool all = wanted.empty();
    if (all) {
      for (const auto& [pid, process] : processes) wanted.insert(pid);
    }
    std::set<int> gpus_taken;
    for (const auto& [other_id, other] : sessions) {
      if (!other.active) continue;
      if (other.targets.empty()) return S::kHasActiveSession;
      for (pid_t pid : wanted) {
        if (other.running.count(pid)) return S::kHasActiveSession;
      }
      gpus_taken.insert(other.gpus.begin(), other.gpus.end());
    }
    ModelSession next = *session;
    next.plan.clear();
    next.gpus.clear();
    for (const auto& [f, filter] : session->filters) next.plan.insert(filter.kind);
    S first = S::kSuccess;
    for (pid_t pid : wanted) {
      const S status = StartOn(pid, next, gpus_taken);
      if (status == S::kSuccess) continue;
      if (!all || status == S::kHasActiveSession) return status;
      if (first == S::kSuccess) first = status;
    }
    if (next.running.empty() && first != S::kSuccess) return first;
    next.active = true;
    *session = next;
    return S::kSuccess;
  }

  S StartOn(pid_t pid, ModelSession& session, const std::set<int>& gpus_taken) {
    auto process = processes.find(pid);
    if (process == processes.end()) return S::kError;
    if (session.plan.count(kCounts)) {
      if (!process->second.counts) return S::kFilterNotSupported;
      if (gpus_taken.count(process->second.gpu)) return S::kHasActiveSession;
      session.gpus.insert(process->second.gpu);
    }
    session.running.insert(pid);
    return S::kSuccess;
  }

  void Stop(ModelSession& session) {
    session.active = false;
    session.running.clear();
    session.plan.clear();
    session.gpus.clear();
    DeliverAll(session);
  }

  void DeliverAll(ModelSession& session) {
    for (auto& [id, buffer] : session.buffers) Deliver(buffer);
  }

  ModelSession* RecordingSession(pid_t pid) {
    for (auto& [id, session] : sessions) {
      if (session.active && session.running.count(pid)) return &session;
    }
    return nullptr;
  }

  const ModelFilter* FilterOf(const ModelSession& session, Kind kind) {
    for (const auto& [id, filter] : session.filters) {
      if (filter.kind == kind) return &filter;
    }
    return nullptr;
  }

  void Arrive(pid_t pid) {
    for (auto& [id, session] : sessions) {
      if (!session.active || !session.targets.empty()) continue;
      std::set<int> gpus_taken;
      for (const auto& [other_id, other] : sessions) {
        if (other_id != id) gpus_taken.insert(other.gpus.begin(), other.gpus.end());
      }
      StartOn(pid, session, gpus_taken);
    }
  }

  void Dispatch(pid_t pid, uint64_t correlation) {
    ModelSession* session = RecordingSession(pid);
    if (session == nullptr) return;
    const ModelFilter* times = FilterOf(*session, kTimes);
    const ModelFilter* counts = FilterOf(*session, kCounts);
    const uint64_t times_buffer = times == nullptr ? 0 : times->buffer;
    const uint64_t counts_buffer = counts == nullptr ? 0 : counts->buffer;
    const bool both = session->plan.count(kTimes) && session->plan.count(kCounts);
    if (session->plan.count(kTimes) && times_buffer != 0 &&
        !(both && times_buffer == counts_buffer)) {
      Append(session->buffers.at(times_buffer), correlation, kRecord);
    }
    if (session->plan.count(kCounts) && counts_buffer != 0) {
      Append(session->buffers.at(counts_buffer), correlation, kRecord);
    }
  }

  void ApiCall(pid_t pid, uint64_t correlation) {
    ModelSession* session = RecordingSession(pid);
    if (session == nullptr || !session->plan.count(kApi)) return;
    const ModelFilter* filter = FilterOf(*session, kApi);
    if (filter == nullptr) return;
    if (filter->sync) sync_calls.push_back(correlation);
    if (filter->buffer != 0) {
      Append(session->buffers.at(filter->buffer), correlation, kTracer);
    }
  }

  void End(pid_t pid) {
    if (ModelSession* session = RecordingSession(pid)) {
      for (const auto& [id, filter] : session->filters) {
        if (filter.buffer != 0) Deliver(session->buffers.at(filter.buffer));
      }
      session->running.erase(pid);
    }
    processes.erase(pid);
  }
};

}  // namespace rocattach

#endif  // ROCATTACH_TESTS_UNIT_LIBRARY_SESSION_MODEL_H_
