// Memory that the application allocates and frees, and scratch memory of its queues.
#include <hsa/hsa_ext_amd.h>

#include <cstdlib>
#include <mutex>
#include <unordered_map>

#include "tests/simrocm/call_log.h"
#include "tests/simrocm/environment.h"
#include "tests/simrocm/sdk/agents.h"
#include "tests/simrocm/sdk/buffer.h"
#include "tests/simrocm/sdk/dispatch.h"
#include "tests/simrocm/sdk/hsa.h"
#include "tests/simrocm/sdk/scratch_memory.h"

namespace simrocm::sdk {
namespace {

void Emit(int32_t kind, int32_t operation, const void* record, size_t bytes) {
  auto active = ActiveContexts();
  for (Context* context : *active) {
    const BufferTracing* tracing = context->FindBufferTracing(kind, operation);
    if (tracing == nullptr) continue;
    tracing->buffer->Emplace(ROCATTACH_SDK_CATEGORY_TRACING,
                             static_cast<uint32_t>(kind), record, bytes);
  }
}

// Lives from the call to its return.
class Operation {
 public:
  explicit Operation(int32_t operation) {
    record_.size = sizeof(record_);
    record_.kind = ROCATTACH_SDK_BUFFER_MEMORY_ALLOCATION;
    record_.operation = operation;
    record_.correlation_id.internal =
        CurrentCall() != 0 ? CurrentCall() : NextCorrelation();
    record_.thread_id = ThreadId();
    record_.start_timestamp = Now();
  }

  void End(hsa_status_t status, void* address, uint64_t bytes) {
    record_.end_timestamp = Now();
    if (status != HSA_STATUS_SUCCESS || FiniStatus() != 0) return;
    record_.address.ptr = address;
    record_.allocation_size = bytes;
    if (record_.operation == ROCATTACH_SDK_ALLOCATION_ALLOCATE) {
      hsa_amd_pointer_info_t info{};
      info.size = sizeof(info);
      AmdExt().hsa_amd_pointer_info_fn(address, &info, nullptr, nullptr, nullptr);
      if (const auto* agent = AgentOf(info.agentOwner)) record_.agent_id = agent->id;
    }
    Emit(record_.kind, record_.operation, &record_, sizeof(record_));
  }

 private:
  rocattach_sdk_memory_allocation_record record_{};
};

hsa_status_t PoolAllocate(hsa_amd_memory_pool_t pool, size_t size, uint32_t flags,
                          void** address) {
  Operation operation(ROCATTACH_SDK_ALLOCATION_ALLOCATE);
  const hsa_status_t status =
      AmdExt().hsa_amd_memory_pool_allocate_fn(pool, size, flags, address);
  operation.End(status, address != nullptr ? *address : nullptr, size);
  return status;
}

hsa_status_t PoolFree(void* address) {
  Operation operation(ROCATTACH_SDK_ALLOCATION_FREE);
  const hsa_status_t status = AmdExt().hsa_amd_memory_pool_free_fn(address);
  operation.End(status, address, 0);
  return status;
}

hsa_status_t Allocate(hsa_region_t region, size_t size, void** address) {
  Operation operation(ROCATTACH_SDK_ALLOCATION_ALLOCATE);
  const hsa_status_t status = Core().hsa_memory_allocate_fn(region, size, address);
  operation.End(status, address != nullptr ? *address : nullptr, size);
  return status;
}

hsa_status_t Free(void* address) {
  Operation operation(ROCATTACH_SDK_ALLOCATION_FREE);
  const hsa_status_t status = Core().hsa_memory_free_fn(address);
  operation.End(status, address, 0);
  return status;
}

struct Scratch {
  std::mutex mutex;
  std::unordered_map<const hsa_queue_t*, rocattach_sdk_scratch_memory_record> queues;
};

Scratch& GetScratch() {
  static auto* scratch = new Scratch;
  return *scratch;
}

uint64_t ScratchBytes() {
  static const uint64_t bytes =
      strtoull(GetString("SIMROCM_SCRATCH_BYTES").c_str(), nullptr, 10);
  return bytes;
}

}  // namespace

void InstallMemoryAllocations(HsaApiTable* table) {
  Log("sdk.hsa step=memory_allocation");
  if (!AnyContextTraces(ROCATTACH_SDK_BUFFER_MEMORY_ALLOCATION,
                        ROCATTACH_SDK_CALLBACK_MEMORY_ALLOCATION)) {
    return;
  }
  table->amd_ext_->hsa_amd_memory_pool_allocate_fn = &PoolAllocate;
  table->amd_ext_->hsa_amd_memory_pool_free_fn = &PoolFree;
  table->core_->hsa_memory_allocate_fn = &Allocate;
  table->core_->hsa_memory_free_fn = &Free;
}

void AllocateScratch(const hsa_queue_t* queue, rocattach_sdk_agent_id agent) {
  if (ScratchBytes() == 0) return;
  rocattach_sdk_scratch_memory_record record{};
  {
    std::lock_guard lock(GetScratch().mutex);
    auto [known, is_new] = GetScratch().queues.try_emplace(queue);
    if (!is_new) return;
    record.size = sizeof(record);
    record.kind = ROCATTACH_SDK_BUFFER_SCRATCH_MEMORY;
    record.operation = ROCATTACH_SDK_SCRATCH_ALLOC;
    record.agent_id = agent;
    record.queue_id.handle = queue->id;
    record.thread_id = ThreadId();
    record.start_timestamp = Now();
    record.end_timestamp = record.start_timestamp + 1000;
    record.flags = 1;
    record.allocation_size = ScratchBytes();
    known->second = record;
  }
  Emit(record.kind, record.operation, &record, sizeof(record));
}

void FreeScratch(const hsa_queue_t* queue) {
  rocattach_sdk_scratch_memory_record record{};
  {
    std::lock_guard lock(GetScratch().mutex);
    auto known = GetScratch().queues.find(queue);
    if (known == GetScratch().queues.end()) return;
    record = known->second;
    GetScratch().queues.erase(known);
  }
  record.operation = ROCATTACH_SDK_SCRATCH_FREE;
  record.thread_id = ThreadId();
  record.start_timestamp = Now();
  record.end_timestamp = record.start_timestamp + 1000;
  record.allocation_size = 0;
  Emit(record.kind, record.operation, &record, sizeof(record));
}

}  // namespace simrocm::sdk
