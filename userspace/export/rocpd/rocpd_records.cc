// The records of a rocpd database, with their events.
#include "absl/strings/str_cat.h"
#include "userspace/abi/hip_stream.h"
#include "userspace/base/status_macros.h"
#include "userspace/export/common/json_text.h"
#include "userspace/export/common/launch_links.h"
#include "userspace/export/common/upstream_names.h"
#include "userspace/export/rocpd/rocpd_tables.h"

namespace rocattach {
namespace {

constexpr absl::string_view kUnknownTimes = R"({"times":"unknown"})";

// An operation whose times are not known is placed where it was submitted.
struct Span {
  uint64_t start, end;
  absl::string_view extdata;
};

template <typename Operation>
Span SpanOf(const Operation& r) {
  if (HasTimes(r)) {
    return {r.start_ns, r.end_ns, "{}"};
  }
  return {r.enqueue_ns, r.enqueue_ns, kUnknownTimes};
}

}  // namespace

absl::StatusOr<int64_t> RocpdTables::WriteEvent(EventClass of, uint64_t number,
                                                absl::string_view category,
                                                uint64_t stack_id,
                                                uint64_t parent_stack_id,
                                                absl::string_view extdata) {
  if (category != category_) {
    ASSIGN_OR_RETURN(category_id_, StringId(category));
    category_ = std::string(category);
  }
  const int64_t id = static_cast<int64_t>(number * 3 + static_cast<uint64_t>(of));
  rows_in_transaction_ += 2;  // the event, and the row that it belongs to
  RETURN_IF_ERROR(inserts_->event->Integer(id)
                      .Integer(category_id_)
                      .Number(stack_id)
                      .Number(parent_stack_id)
                      .Text(extdata)
                      .EndRow());
  return id;
}

absl::Status RocpdTables::WriteDispatch(const ExportProcess& process,
                                        const rocattach_dispatch& r) {
  RETURN_IF_ERROR(NeedThread(process, r.tid));
  RETURN_IF_ERROR(NeedQueue(r.queue_id));
  RETURN_IF_ERROR(NeedStream(HipStreamId(r)));
  RETURN_IF_ERROR(NeedKernel(r.kernel_id));
  ASSIGN_OR_RETURN(const int64_t agent, NeedAgent(process, r.agent_id));
  ASSIGN_OR_RETURN(const int64_t event,
                   WriteEvent(EventClass::kDispatch, r.dispatch_id, kKernelDispatchKind,
                              r.correlation_id, r.correlation_id, kNoExtData));
  const Span span = SpanOf(r);
  return inserts_->dispatch->Number(r.dispatch_id)
      .Integer(r.tid)
      .Integer(agent)
      .Integer(r.kernel_id)
      .Number(r.dispatch_id)
      .Integer(r.queue_id)
      .Integer(HipStreamId(r))
      .Number(span.start)
      .Number(span.end)
      .Integer(r.scratch_bytes)
      .Integer(r.lds_bytes)
      .Integer(r.workgroup_x)
      .Integer(r.workgroup_y)
      .Integer(r.workgroup_z)
      .Integer(r.grid_x)
      .Integer(r.grid_y)
      .Integer(r.grid_z)
      .Integer(event)
      .Text(span.extdata)
      .EndRow();
}

absl::Status RocpdTables::WriteCopy(const ExportProcess& process,
                                    const rocattach_copy& r) {
  RETURN_IF_ERROR(NeedThread(process, r.tid));
  // Host memory that no agent owns is that of the first CPU.
  const v1::Agent* cpu = process.FirstCpu();
  const uint32_t host = cpu == nullptr ? 0 : cpu->id();
  const auto agent_of = [&](uint32_t id) {
    return NeedAgent(process, id == 0 ? host : id);
  };
  ASSIGN_OR_RETURN(const int64_t dst, agent_of(r.dst_agent_id));
  ASSIGN_OR_RETURN(const int64_t src, agent_of(r.src_agent_id));
  ASSIGN_OR_RETURN(const int64_t name, StringId(CopyDirectionName(r.direction)));
  const uint64_t number = ++copies_;
  ASSIGN_OR_RETURN(const int64_t event,
                   WriteEvent(EventClass::kCopy, number, kMemoryCopyKind,
                              r.correlation_id, r.correlation_id, kNoExtData));
  const Span span = SpanOf(r);
  return inserts_->copy->Number(number)
      .Integer(r.tid)
      .Number(span.start)
      .Number(span.end)
      .Integer(name)
      .Integer(dst)
      .Number(r.dst_address)
      .Integer(src)
      .Number(r.src_address)
      .Number(r.bytes)
      .Integer(HipStreamId(r))
      .Integer(event)
      .Text(span.extdata)
      .EndRow();
}

absl::Status RocpdTables::WriteValues(const ExportProcess& process, int64_t event,
                                      absl::Span<const CounterRecord> values) {
  std::string extdata;
  for (const CounterRecord& value : values) {
    ASSIGN_OR_RETURN(const int64_t pmc, PmcId(process, value));
    extdata.clear();
    JsonObject(&extdata)
        .Begin()
        .Number("instances", value.instances)
        .Real("minimum", value.minimum)
        .Real("maximum", value.maximum)
        .Number("pass", value.pass)
        .Number("session", value.session)
        .End();
    if (value.each == nullptr) {
      RETURN_IF_ERROR(WriteValue(event, pmc, value.sum, nullptr, extdata));
      continue;
    }
    for (const CounterInstance& instance : *value.each) {
      const InstancePlace place = PlaceOf(instance.position);
      extdata.clear();
      JsonObject(&extdata)
          .Begin()
          .Number("xcc", place.xcc)
          .Number("aid", place.aid)
          .Number("shader_engine", place.shader_engine)
          .Number("shader_array", place.shader_array)
          .Number("wgp", place.wgp)
          .Number("instance", place.instance)
          .Number("pass", value.pass)
          .Number("session", value.session)
          .End();
      RETURN_IF_ERROR(WriteValue(event, pmc, instance.value, &place, extdata));
    }
  }
  return absl::OkStatus();
}

// `place`: null for a sum over all instances.
absl::Status RocpdTables::WriteValue(int64_t event, int64_t pmc, double value,
                                     const InstancePlace* place,
                                     absl::string_view extdata) {
  ++rows_in_transaction_;
  SqliteRows& insert = *inserts_->pmc_event;
  insert.Integer(event).Integer(pmc).Real(value);
  if (schema_.has_spm()) {
    if (place == nullptr) {
      insert.Null().Null().Null();
    } else {
      insert.Integer(place->xcc).Integer(place->shader_engine).Integer(place->instance);
    }
  }
  return insert.Text(extdata).EndRow();
}

absl::Status RocpdTables::WriteArguments(int64_t event, const ApiCallRecord& record) {
  int64_t position = 0;
  for (const ApiArgument& argument : ArgumentsOf(record)) {
    ++rows_in_transaction_;
    RETURN_IF_ERROR(inserts_->arg->Integer(event)
                        .Integer(position++)
                        .Text("")
                        .Text(argument.name)
                        .Text(argument.value)
                        .EndRow());
  }
  return absl::OkStatus();
}

absl::Status RocpdTables::WriteMemory(const ExportProcess& process,
                                      const MemoryRecord& r) {
  RETURN_IF_ERROR(NeedThread(process, r.tid));
  RETURN_IF_ERROR(NeedQueue(r.queue_id));
  const bool scratch = IsScratch(r.operation);
  ASSIGN_OR_RETURN(const int64_t event,
                   WriteEvent(EventClass::kOther, ++others_,
                              scratch ? kScratchMemoryKind : kMemoryAllocationKind,
                              r.correlation_id, r.correlation_id, kNoExtData));
  absl::string_view type = "FREE";
  if (r.operation == ROCATTACH_MEMORY_ALLOCATE ||
      r.operation == ROCATTACH_MEMORY_VMEM_ALLOCATE ||
      r.operation == ROCATTACH_MEMORY_SCRATCH_ALLOCATE) {
    type = "ALLOC";
  } else if (r.operation == ROCATTACH_MEMORY_SCRATCH_RECLAIM) {
    type = "RECLAIM";
  }
  const bool handle = r.operation == ROCATTACH_MEMORY_VMEM_ALLOCATE ||
                      r.operation == ROCATTACH_MEMORY_VMEM_FREE;
  SqliteRows& insert = *inserts_->memory;
  std::string extdata(kNoExtData);
  if (scratch) {
    extdata.clear();
    JsonObject(&extdata).Begin().Number("flags", r.scratch_flags).End();
  }
  int64_t agent = 0;
  if (r.agent_id != 0) {
    ASSIGN_OR_RETURN(agent, NeedAgent(process, r.agent_id));
  }
  insert.Integer(r.tid);
  if (r.agent_id != 0) {
    insert.Integer(agent);
  } else {
    insert.Null();
  }
  return insert.Text(type)
      .Text(scratch  ? "SCRATCH"
            : handle ? "VIRTUAL"
                     : "REAL")
      .Number(r.begin_ns)
      .Number(r.end_ns)
      .Number(r.address)
      .Number(r.bytes)
      .Integer(r.queue_id)
      .Integer(event)
      .Text(extdata)
      .EndRow();
}

absl::Status RocpdTables::WriteCounted(const ExportProcess& process,
                                       const CountedDispatch& counted) {
  int64_t event;
  if (counted.dispatch != nullptr) {
    event = static_cast<int64_t>(counted.dispatch->dispatch_id * 3 +
                                 static_cast<uint64_t>(EventClass::kDispatch));
  } else {
    const uint64_t id = counted.correlation_id;
    ASSIGN_OR_RETURN(event, WriteEvent(EventClass::kOther, ++others_,
                                       kKernelDispatchKind, id, id, kNoExtData));
  }
  return WriteValues(process, event, counted.values);
}

absl::Status RocpdTables::WriteSamples(const ExportProcess& process,
                                       absl::Span<const CounterRecord> records) {
  while (!records.empty()) {
    size_t count = 1;
    while (count < records.size() && records[count].operation == records[0].operation &&
           records[count].session == records[0].session) {
      ++count;
    }
    const CounterRecord& first = records[0];
    ASSIGN_OR_RETURN(const int64_t agent, NeedAgent(process, first.agent_id));
    ASSIGN_OR_RETURN(
        const int64_t track,
        TrackId(process, process.pid(), absl::StrCat("GPU counters, agent ", agent)));
    // Readers demand a message of every sample.
    std::string extdata;
    JsonObject(&extdata)
        .Begin()
        .Text("message", "")
        .Number("begin", first.begin_ns)
        .Number("end", first.end_ns)
        .End();
    ASSIGN_OR_RETURN(
        const int64_t event,
        WriteEvent(EventClass::kOther, ++others_, "DEVICE_COUNTERS",
                   LaunchLinks::kSampleCount | first.operation, 0, extdata));
    RETURN_IF_ERROR(inserts_->sample->Null()
                        .Integer(track)
                        .Number(first.end_ns)
                        .Integer(event)
                        .EndRow());
    RETURN_IF_ERROR(WriteValues(process, event, records.subspan(0, count)));
    records.remove_prefix(count);
  }
  return absl::OkStatus();
}

absl::Status RocpdTables::WriteApiCall(const ExportProcess& process,
                                       const ApiCallRecord& r) {
  RETURN_IF_ERROR(NeedThread(process, r.tid));
  std::string extdata(kNoExtData);
  if (!r.text.empty() && (r.flags & kApiCallArguments) == 0) {
    extdata.clear();
    JsonObject(&extdata).Begin().Text("message", r.text).End();
  }
  const absl::string_view function = process.FunctionName(r.domain, r.function);
  ASSIGN_OR_RETURN(
      const int64_t event,
      WriteEvent(EventClass::kOther, ++others_, ApiKindName(r.domain, r.function),
                 r.correlation_id, r.ancestor_id, extdata));
  RETURN_IF_ERROR(WriteArguments(event, r));
  if (r.begin_ns == r.end_ns) {
    const bool room = tracks_.size() <= kMostKnownIds;
    ASSIGN_OR_RETURN(const int64_t track,
                     TrackId(process, room ? r.tid : process.pid(), function));
    return inserts_->sample->Number(r.correlation_id)
        .Integer(track)
        .Number(r.begin_ns)
        .Integer(event)
        .EndRow();
  }
  ASSIGN_OR_RETURN(const int64_t name, StringId(function));
  return inserts_->region->Number(r.correlation_id)
      .Integer(r.tid)
      .Number(r.begin_ns)
      .Number(r.end_ns)
      .Integer(name)
      .Integer(event)
      .EndRow();
}

}  // namespace rocattach
