#include "userspace/library/c_record.h"

#include <bit>
#include <cstddef>

namespace rocattach {
namespace {

#define ROCATTACH_SAME_FIELD(ours, field, c_type, c_field)            \
  static_assert(offsetof(ours, field) == offsetof(c_type, c_field) && \
                sizeof(ours::field) == sizeof(c_type::c_field))

static_assert(sizeof(RecordHeader) == sizeof(rocattach_record_header_t));
ROCATTACH_SAME_FIELD(RecordHeader, kind, rocattach_record_header_t, kind);
ROCATTACH_SAME_FIELD(RecordHeader, bytes, rocattach_record_header_t, bytes);
ROCATTACH_SAME_FIELD(RecordHeader, id, rocattach_record_header_t, id);

static_assert(sizeof(RecordTimes) == sizeof(rocattach_record_timestamps_t));
ROCATTACH_SAME_FIELD(RecordTimes, begin_ns, rocattach_record_timestamps_t, begin);
ROCATTACH_SAME_FIELD(RecordTimes, end_ns, rocattach_record_timestamps_t, end);

static_assert(sizeof(RecordValue) == sizeof(rocattach_record_counter_t));
ROCATTACH_SAME_FIELD(RecordValue, counter, rocattach_record_counter_t, counter);
ROCATTACH_SAME_FIELD(RecordValue, pad, rocattach_record_counter_t, pad);
ROCATTACH_SAME_FIELD(RecordValue, value, rocattach_record_counter_t, value);

static_assert(sizeof(DispatchRecord) == sizeof(rocattach_record_profiler_t));
ROCATTACH_SAME_FIELD(DispatchRecord, header, rocattach_record_profiler_t, header);
ROCATTACH_SAME_FIELD(DispatchRecord, pid, rocattach_record_profiler_t, pid);
ROCATTACH_SAME_FIELD(DispatchRecord, tid, rocattach_record_profiler_t, tid);
ROCATTACH_SAME_FIELD(DispatchRecord, gpu_id, rocattach_record_profiler_t, gpu_id);
ROCATTACH_SAME_FIELD(DispatchRecord, queue_id, rocattach_record_profiler_t, queue_id);
ROCATTACH_SAME_FIELD(DispatchRecord, kernel_id, rocattach_record_profiler_t, kernel_id);
ROCATTACH_SAME_FIELD(DispatchRecord, pass, rocattach_record_profiler_t, pass);
ROCATTACH_SAME_FIELD(DispatchRecord, correlation_id, rocattach_record_profiler_t,
                     correlation_id);
ROCATTACH_SAME_FIELD(DispatchRecord, times, rocattach_record_profiler_t, timestamps);
ROCATTACH_SAME_FIELD(DispatchRecord, grid_size, rocattach_record_profiler_t, grid_size);
ROCATTACH_SAME_FIELD(DispatchRecord, workgroup_size, rocattach_record_profiler_t,
                     workgroup_size);
ROCATTACH_SAME_FIELD(DispatchRecord, lds_bytes, rocattach_record_profiler_t, lds_bytes);
ROCATTACH_SAME_FIELD(DispatchRecord, scratch_bytes, rocattach_record_profiler_t,
                     scratch_bytes);
ROCATTACH_SAME_FIELD(DispatchRecord, selected_by, rocattach_record_profiler_t,
                     selected_by);
ROCATTACH_SAME_FIELD(DispatchRecord, values, rocattach_record_profiler_t,
                     counters_count);

static_assert(sizeof(TraceRecord) == sizeof(rocattach_record_tracer_t));
ROCATTACH_SAME_FIELD(TraceRecord, header, rocattach_record_tracer_t, header);
ROCATTACH_SAME_FIELD(TraceRecord, pid, rocattach_record_tracer_t, pid);
ROCATTACH_SAME_FIELD(TraceRecord, tid, rocattach_record_tracer_t, tid);
ROCATTACH_SAME_FIELD(TraceRecord, domain, rocattach_record_tracer_t, domain);
ROCATTACH_SAME_FIELD(TraceRecord, operation_id, rocattach_record_tracer_t,
                     operation_id);
ROCATTACH_SAME_FIELD(TraceRecord, correlation_id, rocattach_record_tracer_t,
                     correlation_id);
ROCATTACH_SAME_FIELD(TraceRecord, times, rocattach_record_tracer_t, timestamps);
ROCATTACH_SAME_FIELD(TraceRecord, source_gpu_id, rocattach_record_tracer_t,
                     source_gpu_id);
ROCATTACH_SAME_FIELD(TraceRecord, target_gpu_id, rocattach_record_tracer_t,
                     target_gpu_id);
ROCATTACH_SAME_FIELD(TraceRecord, bytes, rocattach_record_tracer_t, bytes);
ROCATTACH_SAME_FIELD(TraceRecord, text, rocattach_record_tracer_t, name);
ROCATTACH_SAME_FIELD(TraceRecord, text_bytes, rocattach_record_tracer_t, name_bytes);

static_assert(sizeof(SampleRecord) == sizeof(rocattach_record_counters_sampler_t));
ROCATTACH_SAME_FIELD(SampleRecord, header, rocattach_record_counters_sampler_t, header);
ROCATTACH_SAME_FIELD(SampleRecord, pid, rocattach_record_counters_sampler_t, pid);
ROCATTACH_SAME_FIELD(SampleRecord, gpu_id, rocattach_record_counters_sampler_t, gpu_id);
ROCATTACH_SAME_FIELD(SampleRecord, pass, rocattach_record_counters_sampler_t, pass);
ROCATTACH_SAME_FIELD(SampleRecord, values, rocattach_record_counters_sampler_t,
                     num_counters);
ROCATTACH_SAME_FIELD(SampleRecord, times, rocattach_record_counters_sampler_t,
                     timestamps);

#undef ROCATTACH_SAME_FIELD

static_assert(static_cast<int>(SessionRecordKind::kDispatch) ==
              ROCATTACH_PROFILER_RECORD);
static_assert(static_cast<int>(SessionRecordKind::kTrace) == ROCATTACH_TRACER_RECORD);
static_assert(static_cast<int>(SessionRecordKind::kSample) ==
              ROCATTACH_COUNTERS_SAMPLER_RECORD);
static_assert(kNoGpu == ROCATTACH_NO_GPU);
static_assert(kSelectedByTimestamps == ROCATTACH_SELECTED_BY_TIMESTAMPS);
static_assert(kSelectedByCounters == ROCATTACH_SELECTED_BY_COUNTERS);

}  // namespace

rocattach_record_tracer_t ToC(const TraceRecord& record) {
  auto result = std::bit_cast<rocattach_record_tracer_t>(record);
  result.name = TextOf(record);
  return result;
}

void SetNames(const RecordHeader* begin, const RecordHeader* end) {
  const char* at = reinterpret_cast<const char*>(begin);
  while (at != reinterpret_cast<const char*>(end)) {
    const auto* header = reinterpret_cast<const RecordHeader*>(at);
    at += header->bytes;
    if (header->kind != SessionRecordKind::kTrace) continue;
    auto* record = const_cast<TraceRecord*>(&RecordAs<TraceRecord>(header));
    record->text = TextOf(*record);
  }
}

}  // namespace rocattach
