#include "userspace/collector/sdk/memory_trace.h"

namespace rocattach::collector {
namespace {

// Room for some 3,000 records. If it is full, a call waits for the delivery. A buffer
// that discards does not count what it loses: see copies.cc.
constexpr size_t kBufferBytes = 256 << 10;

uint16_t AllocationOperation(rocattach_sdk_operation operation) {
  switch (operation) {
    case ROCATTACH_SDK_ALLOCATION_ALLOCATE:
      return ROCATTACH_MEMORY_ALLOCATE;
    case ROCATTACH_SDK_ALLOCATION_VMEM_ALLOCATE:
      return ROCATTACH_MEMORY_VMEM_ALLOCATE;
    case ROCATTACH_SDK_ALLOCATION_FREE:
      return ROCATTACH_MEMORY_FREE;
    case ROCATTACH_SDK_ALLOCATION_VMEM_FREE:
      return ROCATTACH_MEMORY_VMEM_FREE;
    default:
      return ROCATTACH_MEMORY_UNKNOWN;
  }
}

uint16_t ScratchOperation(rocattach_sdk_operation operation) {
  switch (operation) {
    case ROCATTACH_SDK_SCRATCH_ALLOC:
      return ROCATTACH_MEMORY_SCRATCH_ALLOCATE;
    case ROCATTACH_SDK_SCRATCH_FREE:
      return ROCATTACH_MEMORY_SCRATCH_FREE;
    case ROCATTACH_SDK_SCRATCH_ASYNC_RECLAIM:
      return ROCATTACH_MEMORY_SCRATCH_RECLAIM;
    default:
      return ROCATTACH_MEMORY_UNKNOWN;
  }
}

template <typename Record>
void ReadCommon(const Record& record, rocattach_memory* out) {
  out->correlation_id = record.correlation_id.internal;
  out->tid = static_cast<uint32_t>(record.thread_id);
  out->start_ns = ToServiceNs(record.start_timestamp);
  out->end_ns = ToServiceNs(record.end_timestamp);
  // A record without an end becomes an instant.
  if (out->end_ns < out->start_ns) out->end_ns = out->start_ns;
}

}  // namespace

rocattach_sdk_status SdkMemoryTrace::Configure(const Parts& parts,
                                               rocattach_sdk_context_id context,
                                               rocattach_sdk_buffer_kind kind) {
  parts_ = parts;
  kind_ = kind;
  rocattach_sdk_buffer_id buffer = {0};
  rocattach_sdk_status status =
      parts.sdk->create_buffer(context, kBufferBytes, kBufferBytes / 2,
                               ROCATTACH_SDK_POLICY_LOSSLESS, &OnBuffer, this, &buffer);
  if (status != ROCATTACH_SDK_STATUS_SUCCESS) return status;
  status = parts.sdk->configure_buffer_tracing(context, kind, nullptr, 0, buffer);
  if (status == ROCATTACH_SDK_STATUS_SUCCESS) buffer_ = buffer;
  return status;
}

bool SdkMemoryTrace::Read(const void* payload, rocattach_memory* out) {
  if (kind_ == ROCATTACH_SDK_BUFFER_MEMORY_ALLOCATION) {
    auto* record = static_cast<const rocattach_sdk_memory_allocation_record*>(payload);
    if (!ROCATTACH_SDK_HAS(rocattach_sdk_memory_allocation_record, record,
                           allocation_size)) {
      return false;
    }
    ReadCommon(*record, out);
    out->operation = AllocationOperation(record->operation);
    out->agent_id = AgentId(record->agent_id);
    out->address = record->address.value;
    out->bytes = record->allocation_size;
    return true;
  }
  auto* record = static_cast<const rocattach_sdk_scratch_memory_record*>(payload);
  if (!ROCATTACH_SDK_HAS(rocattach_sdk_scratch_memory_record, record, flags)) {
    return false;
  }
  ReadCommon(*record, out);
  out->operation = ScratchOperation(record->operation);
  out->agent_id = AgentId(record->agent_id);
  out->queue_id = parts_.dispatches->QueueId(record->queue_id, out->agent_id);
  out->scratch_flags = static_cast<uint16_t>(record->flags);
  if (ROCATTACH_SDK_HAS(rocattach_sdk_scratch_memory_record, record, allocation_size)) {
    out->bytes = record->allocation_size;
  }
  return true;
}

void SdkMemoryTrace::OnBuffer(rocattach_sdk_context_id, rocattach_sdk_buffer_id,
                              rocattach_sdk_record_header** headers, size_t count,
                              void* self_pointer, uint64_t dropped) {
  auto* self = static_cast<SdkMemoryTrace*>(self_pointer);
  RingHandle ring = self->parts_.rings->Mine();
  for (size_t i = 0; i < count; ++i) {
    rocattach_memory record = {};
    record.kind = ROCATTACH_RECORD_MEMORY;
    record.plan_tag = LoadAcquire(&self->plan_tag_);
    if (headers[i]->category != ROCATTACH_SDK_CATEGORY_TRACING ||
        headers[i]->kind != static_cast<uint32_t>(self->kind_) ||
        !self->Read(headers[i]->payload, &record)) {
      continue;
    }
    ring.Count(&rocattach_ring::memory_seen, uint64_t{1});
    if (!ring.Push(&record)) ring.Count(&rocattach_ring::memory_dropped, uint64_t{1});
  }
  // One buffer is delivered by one thread at a time.
  if (dropped > self->dropped_) {
    ring.Count(&rocattach_ring::memory_seen, dropped - self->dropped_);
    ring.Count(&rocattach_ring::memory_dropped, dropped - self->dropped_);
    self->dropped_ = dropped;
  }
}

}  // namespace rocattach::collector
