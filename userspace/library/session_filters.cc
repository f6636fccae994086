#include "userspace/library/session_filters.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "userspace/base/session_status.h"
#include "userspace/base/status_macros.h"
#include "userspace/library/engine_state.h"
#include "userspace/session/filter_check.h"

namespace rocattach {
namespace {

absl::Status NoFilter(FilterId id) {
  return SessionError(
      SessionStatus::kFilterNotFound,
      absl::StrCat("the session has no filter ", static_cast<uint64_t>(id)));
}

// This is SESSION_MODE_FILTER_MISMATCH in the documentation.
absl::Status CheckMode(const Session& session, FilterKind kind) {
  if (session.modes == 0) return absl::OkStatus();
  const auto mode = static_cast<uint32_t>(ModeOf(kind));
  if ((session.modes & mode) != 0) return absl::OkStatus();
  return SessionError(SessionStatus::kSessionFilterDataMismatch,
                      absl::StrCat(HandleName(session.id),
                                   " does not have the mode of filters of kind ",
                                   static_cast<int>(kind)));
}

// INCORRECT_SIZE if the buffer cannot hold one record of the filter.
absl::Status CheckSize(const RecordBuffer& buffer, const FilterSpec& filter) {
  const size_t needed = RecordBytes(filter);
  const size_t present = buffer.bytes();
  if (present >= needed) return absl::OkStatus();
  return SessionError(
      SessionStatus::kIncorrectSize,
      absl::StrCat("the buffer holds ", present,
                   " bytes and a record of this filter takes ", needed));
}

}  // namespace

absl::StatusOr<FilterId> SessionFilters::Create(SessionId id, FilterSpec filter) {
  {
    absl::MutexLock lock(&state_->mutex);
    RETURN_IF_ERROR(state_->Find(id).status());
  }
  // Without the lock: expressions are compiled, and the runner may call a service.
  RETURN_IF_ERROR(state_->runner->CheckFilter(filter));
  absl::MutexLock lock(&state_->mutex);
  ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, state_->Find(id));
  RETURN_IF_ERROR(CheckMode(*session, filter.kind));
  for (const auto& [other_id, other] : session->filters) {
    if (other.spec.kind == filter.kind) {
      return SessionError(SessionStatus::kSessionFilterDataMismatch,
                          absl::StrCat(HandleName(id), " has a filter of kind ",
                                       static_cast<int>(filter.kind)));
    }
  }
  const auto filter_id = static_cast<FilterId>(state_->filter_handles.Next());
  session->filters[filter_id].spec = std::move(filter);
  return filter_id;
}

absl::StatusOr<FilterId> SessionFilters::Set(SessionId id, FilterSpec filter) {
  {
    absl::MutexLock lock(&state_->mutex);
    RETURN_IF_ERROR(state_->Find(id).status());
  }
  RETURN_IF_ERROR(state_->runner->CheckFilter(filter));
  {
    absl::MutexLock lock(&state_->mutex);
    ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, state_->Find(id));
    for (auto& [filter_id, present] : session->filters) {
      if (present.spec.kind != filter.kind) continue;
      auto buffer = session->buffers.find(present.buffer);
      if (buffer != session->buffers.end()) {
        RETURN_IF_ERROR(CheckSize(*buffer->second.records, filter));
      }
      present.spec = std::move(filter);
      return filter_id;
    }
  }
  return Create(id, std::move(filter));
}

absl::Status SessionFilters::Destroy(SessionId id, FilterId filter) {
  absl::MutexLock lock(&state_->mutex);
  ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, state_->Find(id));
  if (session->filters.erase(filter) == 0) return NoFilter(filter);
  state_->UpdateRoutes(*session);
  return absl::OkStatus();
}

absl::Status SessionFilters::SetBuffer(SessionId id, FilterId filter, BufferId buffer) {
  absl::MutexLock lock(&state_->mutex);
  ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, state_->Find(id));
  auto found_buffer = session->buffers.find(buffer);
  if (found_buffer == session->buffers.end()) return NoBuffer(buffer);
  auto found_filter = session->filters.find(filter);
  if (found_filter == session->filters.end()) return NoFilter(filter);
  RETURN_IF_ERROR(CheckSize(*found_buffer->second.records, found_filter->second.spec));
  found_filter->second.buffer = buffer;
  state_->UpdateRoutes(*session);
  return absl::OkStatus();
}

absl::Status SessionFilters::SetSyncCallback(SessionId id, FilterId filter,
                                             SyncCallback callback) {
  absl::MutexLock lock(&state_->mutex);
  ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, state_->Find(id));
  auto found = session->filters.find(filter);
  if (found == session->filters.end()) return NoFilter(filter);
  if (found->second.spec.kind != FilterKind::kApiTrace) {
    return SessionError(SessionStatus::kFilterNotSupported,
                        "synchronous callbacks are for API tracing");
  }
  found->second.sync = std::move(callback);
  state_->UpdateRoutes(*session);
  return absl::OkStatus();
}

}  // namespace rocattach
