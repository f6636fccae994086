#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "userspace/base/clock.h"
#include "userspace/base/session_status.h"
#include "userspace/base/status_macros.h"
#include "userspace/library/c_filter.h"
#include "userspace/library/c_record.h"
#include "userspace/library/rocattach_sessions.h"
#include "userspace/library/sessions_state.h"
#include "userspace/library/user_memory.h"

namespace rocattach {
namespace {

rocattach_session_status_t Result(const absl::Status& status) {
  KeepErrorDetail(status);
  return static_cast<rocattach_session_status_t>(SessionStatusOf(status));
}

// Calls `f` with the engine.
template <typename F>
rocattach_session_status_t With(F f) {
  const auto engine = UsableSessionsEngine();
  if (!engine.ok()) return Result(engine.status());
  return Result(f(**engine));
}

SessionId Id(rocattach_session_id_t id) {
  return static_cast<SessionId>(id.handle);
}
FilterId Id(rocattach_filter_id_t id) {
  return static_cast<FilterId>(id.value);
}
BufferId Id(rocattach_buffer_id_t id) {
  return static_cast<BufferId>(id.value);
}

absl::Status IsNull(absl::string_view what) {
  return SessionError(SessionStatus::kInvalidArguments, absl::StrCat(what, " is NULL"));
}

BufferCallback Wrap(rocattach_buffer_callback_t callback) {
  if (callback == nullptr) return nullptr;
  return [callback](const RecordHeader* begin, const RecordHeader* end,
                    SessionId session, BufferId buffer) {
    SetNames(begin, end);
    callback(ToC(begin), ToC(end), {static_cast<uint64_t>(session)},
             {static_cast<uint64_t>(buffer)});
  };
}

SessionLostCallback Wrap(rocattach_session_lost_callback_t callback) {
  if (callback == nullptr) return nullptr;
  return [callback](SessionId session, const absl::Status& why) {
    const std::string detail(why.message());
    callback({static_cast<uint64_t>(session)},
             static_cast<rocattach_session_status_t>(SessionStatusOf(why)),
             detail.c_str());
  };
}

SyncCallback Wrap(rocattach_sync_callback_t callback) {
  if (callback == nullptr) return nullptr;
  return [callback](const TraceRecord& record, SessionId session) {
    callback(ToC(record), {static_cast<uint64_t>(session)});
  };
}

}  // namespace

}  // namespace rocattach

using rocattach::Id;
using rocattach::IsNull;
using rocattach::Result;
using rocattach::SessionEngine;
using rocattach::SessionStatus;
using rocattach::With;
using rocattach::Wrap;

extern "C" {

rocattach_session_status_t rocattach_initialize(void) {
  const auto engine = rocattach::UsableSessionsEngine(SessionStatus::kError);
  if (!engine.ok()) return Result(engine.status());
  return Result((*engine)->Initialize());
}

rocattach_session_status_t rocattach_finalize(void) {
  const auto status = With([](SessionEngine& engine) { return engine.Finalize(); });
  if (status == ROCATTACH_SESSION_SUCCESS) rocattach::StopSessionsTicker();
  return status;
}

rocattach_session_status_t rocattach_create_session(
    rocattach_replay_mode_t replay_mode, rocattach_session_id_t* session_id) {
  return With([&](SessionEngine& engine) -> absl::Status {
    RETURN_IF_ERROR(engine.CheckInitialized());
    if (session_id == nullptr) return IsNull("session_id");
    ASSIGN_OR_RETURN(const auto id, engine.CreateSession(replay_mode));
    session_id->handle = static_cast<uint64_t>(id);
    return absl::OkStatus();
  });
}

rocattach_session_status_t rocattach_create_ready_session(
    rocattach_replay_mode_t replay_mode, rocattach_filter_kind_t filter_kind,
    rocattach_filter_data_t data, uint64_t data_count, size_t buffer_size,
    rocattach_buffer_callback_t buffer_callback, rocattach_session_id_t* session_id,
    rocattach_filter_property_t property, rocattach_sync_callback_t callback) {
  return With([&](SessionEngine& engine) -> absl::Status {
    RETURN_IF_ERROR(engine.CheckInitialized());
    if (session_id == nullptr) return IsNull("session_id");
    // The replay mode is checked before the filter's data is read.
    ASSIGN_OR_RETURN(const auto probe, engine.CreateSession(replay_mode));
    RETURN_IF_ERROR(engine.DestroySession(probe));
    ASSIGN_OR_RETURN(auto spec,
                     rocattach::ReadFilter(filter_kind, data, data_count, property));
    ASSIGN_OR_RETURN(const auto id, engine.CreateReadySession(
                                        replay_mode, std::move(spec), buffer_size,
                                        Wrap(buffer_callback), Wrap(callback)));
    session_id->handle = static_cast<uint64_t>(id);
    return absl::OkStatus();
  });
}

rocattach_session_status_t rocattach_add_session_process(
    rocattach_session_id_t session_id, int32_t pid) {
  return With([&](SessionEngine& engine) {
    return engine.AddSessionProcess(Id(session_id), pid);
  });
}

rocattach_session_status_t rocattach_start_session(rocattach_session_id_t session_id) {
  return With(
      [&](SessionEngine& engine) { return engine.StartSession(Id(session_id)); });
}

rocattach_session_status_t rocattach_terminate_session(
    rocattach_session_id_t session_id) {
  return With(
      [&](SessionEngine& engine) { return engine.TerminateSession(Id(session_id)); });
}

rocattach_session_status_t rocattach_add_session_mode(
    rocattach_session_id_t session_id, rocattach_session_mode_t session_mode) {
  return With([&](SessionEngine& engine) {
    return engine.AddSessionMode(Id(session_id),
                                 static_cast<rocattach::SessionMode>(session_mode));
  });
}

rocattach_session_status_t rocattach_check_session(rocattach_session_id_t session_id) {
  return With(
      [&](SessionEngine& engine) { return engine.CheckActive(Id(session_id)); });
}

rocattach_session_status_t rocattach_set_session_lost_callback(
    rocattach_session_id_t session_id, rocattach_session_lost_callback_t callback) {
  return With([&](SessionEngine& engine) {
    return engine.SetLostCallback(Id(session_id), Wrap(callback));
  });
}

rocattach_session_status_t rocattach_destroy_session(
    rocattach_session_id_t session_id) {
  return With(
      [&](SessionEngine& engine) { return engine.DestroySession(Id(session_id)); });
}

rocattach_session_status_t rocattach_create_filter(
    rocattach_session_id_t session_id, rocattach_filter_kind_t filter_kind,
    rocattach_filter_data_t data, uint64_t data_count, rocattach_filter_id_t* filter_id,
    rocattach_filter_property_t property) {
  return With([&](SessionEngine& engine) -> absl::Status {
    RETURN_IF_ERROR(engine.CheckSession(Id(session_id)));
    if (filter_id == nullptr) return IsNull("filter_id");
    ASSIGN_OR_RETURN(auto spec,
                     rocattach::ReadFilter(filter_kind, data, data_count, property));
    ASSIGN_OR_RETURN(const auto id,
                     engine.filters().Create(Id(session_id), std::move(spec)));
    filter_id->value = static_cast<uint64_t>(id);
    return absl::OkStatus();
  });
}

rocattach_session_status_t rocattach_session_set_filter(
    rocattach_session_id_t session_id, rocattach_filter_kind_t filter_kind,
    rocattach_filter_data_t data, uint64_t data_count, rocattach_filter_id_t* filter_id,
    rocattach_filter_property_t property) {
  return With([&](SessionEngine& engine) -> absl::Status {
    RETURN_IF_ERROR(engine.CheckSession(Id(session_id)));
    ASSIGN_OR_RETURN(auto spec,
                     rocattach::ReadFilter(filter_kind, data, data_count, property));
    ASSIGN_OR_RETURN(const auto id,
                     engine.filters().Set(Id(session_id), std::move(spec)));
    if (filter_id != nullptr) filter_id->value = static_cast<uint64_t>(id);
    return absl::OkStatus();
  });
}

rocattach_session_status_t rocattach_destroy_filter(rocattach_session_id_t session_id,
                                                    rocattach_filter_id_t filter_id) {
  return With([&](SessionEngine& engine) {
    return engine.filters().Destroy(Id(session_id), Id(filter_id));
  });
}

rocattach_session_status_t rocattach_create_buffer(
    rocattach_session_id_t session_id, rocattach_buffer_callback_t buffer_callback,
    size_t buffer_size, rocattach_buffer_id_t* buffer_id) {
  return With([&](SessionEngine& engine) -> absl::Status {
    RETURN_IF_ERROR(engine.CheckSession(Id(session_id)));
    if (buffer_id == nullptr) return IsNull("buffer_id");
    ASSIGN_OR_RETURN(const auto id,
                     engine.buffers().Create(Id(session_id), buffer_size,
                                             Wrap(buffer_callback), Id(*buffer_id)));
    buffer_id->value = static_cast<uint64_t>(id);
    return absl::OkStatus();
  });
}

rocattach_session_status_t rocattach_set_buffer_properties(
    rocattach_session_id_t session_id, rocattach_buffer_id_t buffer_id,
    rocattach_buffer_property_t* buffer_properties, uint32_t buffer_properties_count) {
  auto set = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const auto engine, rocattach::UsableSessionsEngine());
    RETURN_IF_ERROR(engine->buffers().Check(Id(session_id), Id(buffer_id)));
    const auto properties = rocattach::ReadUserArray<rocattach_buffer_property_t>(
        buffer_properties, buffer_properties_count);
    if (!properties.has_value()) {
      return rocattach::SessionError(SessionStatus::kFilterDataCorrupted,
                                     "cannot read the buffer's properties");
    }
    for (const auto& property : *properties) {
      if (property.kind != ROCATTACH_BUFFER_PROPERTY_KIND_INTERVAL_FLUSH) {
        return rocattach::SessionError(
            SessionStatus::kSessionFilterDataMismatch,
            absl::StrCat("buffer property kind ", static_cast<int>(property.kind)));
      }
    }
    // All are checked before the first one is applied.
    for (const auto& property : *properties) {
      RETURN_IF_ERROR(rocattach::SessionBuffers::CheckFlushInterval(property.value));
    }
    for (const auto& property : *properties) {
      RETURN_IF_ERROR(engine->buffers().SetFlushInterval(Id(session_id), Id(buffer_id),
                                                         property.value));
      rocattach::StartSessionsTicker(engine);
    }
    return absl::OkStatus();
  };
  return Result(set());
}

rocattach_session_status_t rocattach_destroy_buffer(rocattach_session_id_t session_id,
                                                    rocattach_buffer_id_t buffer_id) {
  return With([&](SessionEngine& engine) {
    return engine.buffers().Destroy(Id(session_id), Id(buffer_id));
  });
}

rocattach_session_status_t rocattach_set_filter_buffer(
    rocattach_session_id_t session_id, rocattach_filter_id_t filter_id,
    rocattach_buffer_id_t buffer_id) {
  return With([&](SessionEngine& engine) {
    return engine.filters().SetBuffer(Id(session_id), Id(filter_id), Id(buffer_id));
  });
}

rocattach_session_status_t rocattach_set_api_trace_sync_callback(
    rocattach_session_id_t session_id, rocattach_filter_id_t filter_id,
    rocattach_sync_callback_t callback) {
  return With([&](SessionEngine& engine) {
    return engine.filters().SetSyncCallback(Id(session_id), Id(filter_id),
                                            Wrap(callback));
  });
}

rocattach_session_status_t rocattach_flush_data(rocattach_session_id_t session_id,
                                                rocattach_buffer_id_t buffer_id) {
  return With([&](SessionEngine& engine) {
    return engine.buffers().Flush(Id(session_id), Id(buffer_id));
  });
}

rocattach_session_status_t rocattach_get_dropped_records(
    rocattach_session_id_t session_id, uint64_t* records) {
  return With([&](SessionEngine& engine) -> absl::Status {
    ASSIGN_OR_RETURN(const uint64_t dropped, engine.Dropped(Id(session_id)));
    if (records == nullptr) return IsNull("records");
    *records = dropped;
    return absl::OkStatus();
  });
}

rocattach_session_status_t rocattach_next_record(
    const rocattach_record_header_t* record, const rocattach_record_header_t** next,
    rocattach_session_id_t session_id, rocattach_buffer_id_t buffer_id) {
  return With([&](SessionEngine& engine) {
    const rocattach::RecordHeader* after = nullptr;
    absl::Status status = engine.buffers().NextRecord(rocattach::FromC(record), &after,
                                                      Id(session_id), Id(buffer_id));
    if (status.ok() && next != nullptr) *next = rocattach::ToC(after);
    return status;
  });
}

rocattach_session_status_t rocattach_query_kernel_name(
    rocattach_session_id_t session_id, int32_t pid, uint32_t kernel_id,
    const char** name) {
  return With([&](SessionEngine& engine) -> absl::Status {
    RETURN_IF_ERROR(engine.CheckSession(Id(session_id)));
    if (name == nullptr) return IsNull("name");
    ASSIGN_OR_RETURN(*name, engine.names().Kernel(Id(session_id), pid, kernel_id));
    return absl::OkStatus();
  });
}

rocattach_session_status_t rocattach_query_operation_name(
    rocattach_session_id_t session_id, int32_t pid,
    rocattach_tracer_activity_domain_t domain, uint32_t operation_id,
    const char** name) {
  return With([&](SessionEngine& engine) -> absl::Status {
    RETURN_IF_ERROR(engine.CheckSession(Id(session_id)));
    if (name == nullptr) return IsNull("name");
    ASSIGN_OR_RETURN(
        *name, engine.names().Operation(Id(session_id), pid,
                                        static_cast<rocattach::TraceDomain>(domain),
                                        operation_id));
    return absl::OkStatus();
  });
}

rocattach_session_status_t rocattach_query_agent(rocattach_session_id_t session_id,
                                                 int32_t pid, uint32_t gpu_id,
                                                 rocattach_agent_t* agent) {
  return With([&](SessionEngine& engine) -> absl::Status {
    RETURN_IF_ERROR(engine.CheckSession(Id(session_id)));
    if (agent == nullptr) return IsNull("agent");
    ASSIGN_OR_RETURN(const auto gpu, engine.names().Gpu(Id(session_id), pid, gpu_id));
    *agent = {gpu_id,           gpu.compute_units, gpu.architecture,
              gpu.product_name, gpu.uuid,          gpu.pci};
    return absl::OkStatus();
  });
}

rocattach_session_status_t rocattach_device_profiling_session_create(
    const char** counter_names, uint64_t num_counters,
    rocattach_session_id_t* session_id, int cpu_index, int gpu_index) {
  (void)cpu_index;  // the calling CPU makes no difference here
  return With([&](SessionEngine& engine) -> absl::Status {
    if (session_id == nullptr) return IsNull("session_id");
    const auto pointers = rocattach::ReadUserArray<const char*>(
        const_cast<const char* const*>(counter_names), num_counters);
    std::vector<std::string> names;
    for (const char* pointer :
         pointers.has_value() ? *pointers : std::vector<const char*>{nullptr}) {
      auto name = rocattach::ReadUserString(pointer, 4096);
      if (!name.has_value()) {
        return rocattach::SessionError(SessionStatus::kInvalidArguments,
                                       "cannot read the counter names");
      }
      names.push_back(*std::move(name));
    }
    ASSIGN_OR_RETURN(const auto id,
                     engine.devices().Create(std::move(names), gpu_index));
    session_id->handle = static_cast<uint64_t>(id);
    return absl::OkStatus();
  });
}

rocattach_session_status_t rocattach_device_profiling_session_start(
    rocattach_session_id_t session_id) {
  return With(
      [&](SessionEngine& engine) { return engine.devices().Start(Id(session_id)); });
}

rocattach_session_status_t rocattach_device_profiling_session_poll(
    rocattach_session_id_t session_id, rocattach_device_profile_metric_t* data) {
  return With([&](SessionEngine& engine) -> absl::Status {
    ASSIGN_OR_RETURN(const auto names, engine.devices().Counters(Id(session_id)));
    if (data == nullptr) return IsNull("data");
    ASSIGN_OR_RETURN(const auto values, engine.devices().Poll(Id(session_id)));
    for (size_t i = 0; i < values.size(); ++i) {
      std::memset(data[i].metric_name, 0, sizeof(data[i].metric_name));
      std::memcpy(data[i].metric_name, names[i].data(),
                  std::min(names[i].size(), sizeof(data[i].metric_name) - 1));
      data[i].value.value = values[i];
    }
    return absl::OkStatus();
  });
}

rocattach_session_status_t rocattach_device_profiling_session_stop(
    rocattach_session_id_t session_id) {
  return With(
      [&](SessionEngine& engine) { return engine.devices().Stop(Id(session_id)); });
}

rocattach_session_status_t rocattach_device_profiling_session_destroy(
    rocattach_session_id_t session_id) {
  return With(
      [&](SessionEngine& engine) { return engine.devices().Destroy(Id(session_id)); });
}

const char* rocattach_error_str(rocattach_session_status_t status) {
  return rocattach::SessionStatusText(status);
}

const char* rocattach_session_error_detail(void) {
  return rocattach::ErrorDetail();
}

rocattach_session_status_t rocattach_get_timestamp(uint64_t* timestamp) {
  return With([&](SessionEngine& engine) -> absl::Status {
    RETURN_IF_ERROR(engine.CheckInitialized());
    if (timestamp == nullptr) return IsNull("timestamp");
    *timestamp = rocattach::BootNs();
    return absl::OkStatus();
  });
}

}  // extern "C"
