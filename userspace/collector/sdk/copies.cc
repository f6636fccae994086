#include "userspace/collector/sdk/copies.h"

namespace rocattach::collector {
namespace {

// Room for some 10,000 copies. If it is full, the runtime's thread that notes the ends
// of copies waits for the delivery. With a discarding buffer it would not wait, but the
// SDK would have room only in every second delivery, and would not count what it loses.
constexpr size_t kBufferBytes = 1 << 20;

uint16_t Direction(rocattach_sdk_operation operation) {
  switch (operation) {
    case ROCATTACH_SDK_COPY_HOST_TO_HOST:
      return ROCATTACH_COPY_HOST_TO_HOST;
    case ROCATTACH_SDK_COPY_HOST_TO_DEVICE:
      return ROCATTACH_COPY_HOST_TO_DEVICE;
    case ROCATTACH_SDK_COPY_DEVICE_TO_HOST:
      return ROCATTACH_COPY_DEVICE_TO_HOST;
    case ROCATTACH_SDK_COPY_DEVICE_TO_DEVICE:
      return ROCATTACH_COPY_DEVICE_TO_DEVICE;
    default:
      return ROCATTACH_COPY_UNKNOWN;
  }
}

}  // namespace

rocattach_sdk_status SdkCopies::Configure(const rocattach_sdk_functions* sdk,
                                          rocattach_sdk_context_id context,
                                          const SdkAgents* agents, Memory* memory,
                                          RingSet* rings, uint64_t* next_correlation,
                                          const SdkStreams* streams) {
  sdk_ = sdk;
  agents_ = agents;
  memory_ = memory;
  rings_ = rings;
  next_correlation_ = next_correlation;
  streams_ = streams;
  rocattach_sdk_buffer_id buffer = {0};
  rocattach_sdk_status status =
      sdk->create_buffer(context, kBufferBytes, kBufferBytes / 2,
                         ROCATTACH_SDK_POLICY_LOSSLESS, &OnBuffer, this, &buffer);
  if (status != ROCATTACH_SDK_STATUS_SUCCESS) return status;
  status = sdk->configure_buffer_tracing(context, ROCATTACH_SDK_BUFFER_MEMORY_COPY,
                                         nullptr, 0, buffer);
  if (status == ROCATTACH_SDK_STATUS_SUCCESS) buffer_ = buffer;
  return status;
}

void SdkCopies::Flush() {
  // A buffer that is busy is already being delivered.
  if (configured()) sdk_->flush_buffer(buffer_);
}

uint64_t SdkCopies::Missing(uint64_t submitted, uint64_t uncertain) const {
  const uint64_t known = LoadAcquire(&delivered_) + uncertain;
  return submitted > known ? submitted - known : 0;
}

void SdkCopies::WriteOff(uint64_t missing, RingHandle* ring) {
  ring->Count(&rocattach_ring::copies_seen, missing);
  __atomic_fetch_add(&memory_->control()->other_dropped, missing, __ATOMIC_RELAXED);
  __atomic_fetch_add(&written_off_, missing, __ATOMIC_RELAXED);
  __atomic_fetch_add(&delivered_, missing, __ATOMIC_RELEASE);
}

void SdkCopies::OnBuffer(rocattach_sdk_context_id, rocattach_sdk_buffer_id,
                         rocattach_sdk_record_header** headers, size_t count,
                         void* self_pointer, uint64_t dropped) {
  auto* self = static_cast<SdkCopies*>(self_pointer);
  RingHandle ring = self->rings_->Mine();
  uint16_t flags = LoadAcquire(&self->flags_);
  for (size_t i = 0; i < count; ++i) {
    if (headers[i]->category != ROCATTACH_SDK_CATEGORY_TRACING ||
        headers[i]->kind != ROCATTACH_SDK_BUFFER_MEMORY_COPY) {
      continue;
    }
    auto* record =
        static_cast<const rocattach_sdk_memory_copy_record*>(headers[i]->payload);
    __atomic_fetch_add(&self->delivered_, uint64_t{1}, __ATOMIC_RELEASE);
    if (flags != 0 &&
        ROCATTACH_SDK_HAS(rocattach_sdk_memory_copy_record, record, bytes)) {
      self->Publish(*record, flags, &ring);
    }
  }
  // One buffer is delivered by one thread at a time.
  if (dropped > self->dropped_) {
    // Copies that were not counted as seen: the SDK's buffer was full.
    ring.Count(&rocattach_ring::copies_seen, dropped - self->dropped_);
    __atomic_fetch_add(&self->memory_->control()->other_dropped,
                       dropped - self->dropped_, __ATOMIC_RELAXED);
    __atomic_fetch_add(&self->delivered_, dropped - self->dropped_, __ATOMIC_RELEASE);
    self->dropped_ = dropped;
  }
}

void SdkCopies::Publish(const rocattach_sdk_memory_copy_record& from, uint16_t flags,
                        RingHandle* ring) {
  auto agent_id = [&](rocattach_sdk_agent_id id) {
    uint32_t index = agents_->Find(id);
    return index != SdkAgents::kNone ? agents_->at(index).dictionary_id : uint16_t{0};
  };
  rocattach_copy copy = {};
  copy.kind = ROCATTACH_RECORD_COPY;
  copy.flags = flags;
  copy.src_agent_id = agent_id(from.src_agent_id);
  copy.dst_agent_id = agent_id(from.dst_agent_id);
  copy.correlation_id = __atomic_fetch_add(next_correlation_, 1u, __ATOMIC_RELAXED);
  copy.start_ns = ToServiceNs(from.start_timestamp);
  copy.end_ns = ToServiceNs(from.end_timestamp);
  if (copy.start_ns == 0 || copy.end_ns < copy.start_ns) {
    copy.start_ns = copy.end_ns = 0;
    copy.flags = static_cast<uint16_t>(copy.flags | ROCATTACH_DISPATCH_UNTIMED);
  }
  copy.enqueue_ns = copy.start_ns;  // the SDK does not report it
  copy.bytes = from.bytes;
  copy.tid = static_cast<uint32_t>(from.thread_id);
  copy.direction = Direction(from.operation);
  copy.engine = ROCATTACH_ENGINE_ASYNC;
  copy.hip_stream = streams_->OfCopy(from.correlation_id);
  if (ROCATTACH_SDK_HAS(rocattach_sdk_memory_copy_record, &from, src_address)) {
    copy.src_address = from.src_address.value;
    copy.dst_address = from.dst_address.value;
  }
  // One buffer is delivered by one thread at a time.
  if (LoadRelaxed(&written_off_) != 0) {
    __atomic_fetch_sub(&written_off_, uint64_t{1}, __ATOMIC_RELAXED);
    __atomic_fetch_sub(&delivered_, uint64_t{1}, __ATOMIC_RELEASE);
    __atomic_fetch_sub(&memory_->control()->other_dropped, uint64_t{1},
                       __ATOMIC_RELAXED);
  } else {
    ring->Count(&rocattach_ring::copies_seen, uint64_t{1});
  }
  ring->PushCopy(copy);
}

}  // namespace rocattach::collector
