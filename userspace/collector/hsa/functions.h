// The runtime's own functions, as in its tables before ours replaced them.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_HSA_FUNCTIONS_H_
#define ROCATTACH_USERSPACE_COLLECTOR_HSA_FUNCTIONS_H_

#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>

#include "userspace/collector/hsa/api_tables.h"
#include "userspace/collector/hsa/batch_copy.h"
#include "userspace/collector/hsa/elf_object.h"

namespace rocattach::collector {

// The type of hsa_amd_memory_async_copy_on_engine; not in the headers of ROCm 5.2.
using AsyncCopyOnEngine = hsa_status_t (*)(void* dst, hsa_agent_t dst_agent,
                                           const void* src, hsa_agent_t src_agent,
                                           size_t size, uint32_t num_dep_signals,
                                           const hsa_signal_t* dep_signals,
                                           hsa_signal_t completion_signal,
                                           int engine_id, bool force_copy_on_sdma);
// hsa_amd_queue_create, which HIP uses since ROCm 10: several queues at once. As in
// hsa_ext_amd.h of interface 1.31.
struct QueueDescriptor {
  static constexpr uint8_t kCompute = 0;        // engine_type; else copy engines, AIE
  static constexpr uint16_t kRingInDevice = 1;  // flags

  uint16_t version;
  uint16_t flags;
  uint8_t engine_type;
  uint8_t reserved1[3];
  uint32_t queue_bytes;
  uint32_t priority;
  void (*callback)(hsa_status_t status, hsa_queue_t* source, void* data);
  void* data;
  hsa_queue_t* queue;  // out; nullptr if it was not created
  uint8_t engine[32];
  uint32_t traffic_class;
  uint8_t reserved2[20];
};
static_assert(sizeof(QueueDescriptor) == 96, "as the runtime has it");
// True if the descriptor, after the queue's creation, describes the queue correctly. A
// descriptor of an unknown version may have another layout.
bool DescribesQueue(const QueueDescriptor& descriptor);
using AmdQueueCreate = hsa_status_t (*)(hsa_agent_t agent, QueueDescriptor* descriptors,
                                        uint32_t count);
// hsa_amd_queue_get_info, ROCm 6.4: attributes are appended.
enum QueueInfo : uint32_t {
  kQueueInfoAgent = 0,
  kQueueInfoMetadataRing = 8,  // address of a ring beside that of the packets, or null
  kQueueInfoEngineType = 10,   // as QueueDescriptor::engine_type
};
using QueueGetInfo = hsa_status_t (*)(hsa_queue_t* queue, uint32_t attribute,
                                      void* value);
// Tools-only functions, declared in no C header.
using InterceptWriter = void (*)(const void* packets, uint64_t count);
using InterceptHandler = void (*)(const void* packets, uint64_t count,
                                  uint64_t user_packet_index, void* data,
                                  InterceptWriter writer);
using QueueInterceptCreate = hsa_status_t (*)(
    hsa_agent_t agent, uint32_t size, hsa_queue_type32_t type,
    void (*callback)(hsa_status_t status, hsa_queue_t* source, void* data), void* data,
    uint32_t private_segment_size, uint32_t group_segment_size, hsa_queue_t** queue);
using QueueInterceptRegister = hsa_status_t (*)(hsa_queue_t* queue,
                                                InterceptHandler handler, void* data);

struct HsaFunctions {
  decltype(&::hsa_init) init;
  decltype(&::hsa_shut_down) shut_down;
  decltype(&::hsa_system_get_info) system_get_info;
  decltype(&::hsa_iterate_agents) iterate_agents;
  decltype(&::hsa_agent_get_info) agent_get_info;
  decltype(&::hsa_queue_create) queue_create;
  decltype(&::hsa_queue_destroy) queue_destroy;
  decltype(&::hsa_queue_store_write_index_relaxed) queue_store_write_index_relaxed;
  decltype(&::hsa_queue_store_write_index_screlease) queue_store_write_index_screlease;
  decltype(&::hsa_queue_cas_write_index_scacq_screl) queue_cas_write_index_scacq_screl;
  decltype(&::hsa_queue_cas_write_index_scacquire) queue_cas_write_index_scacquire;
  decltype(&::hsa_queue_cas_write_index_relaxed) queue_cas_write_index_relaxed;
  decltype(&::hsa_queue_cas_write_index_screlease) queue_cas_write_index_screlease;
  decltype(&::hsa_queue_add_write_index_scacq_screl) queue_add_write_index_scacq_screl;
  decltype(&::hsa_queue_add_write_index_scacquire) queue_add_write_index_scacquire;
  decltype(&::hsa_queue_add_write_index_relaxed) queue_add_write_index_relaxed;
  decltype(&::hsa_queue_add_write_index_screlease) queue_add_write_index_screlease;
  decltype(&::hsa_memory_allocate) memory_allocate;
  decltype(&::hsa_memory_free) memory_free;
  decltype(&::hsa_memory_copy) memory_copy;
  decltype(&::hsa_signal_destroy) signal_destroy;
  decltype(&::hsa_signal_load_relaxed) signal_load_relaxed;
  decltype(&::hsa_signal_load_scacquire) signal_load_scacquire;
  decltype(&::hsa_signal_wait_relaxed) signal_wait_relaxed;
  decltype(&::hsa_signal_wait_scacquire) signal_wait_scacquire;
  decltype(&::hsa_signal_store_relaxed) signal_store_relaxed;
  decltype(&::hsa_signal_store_screlease) signal_store_screlease;
  decltype(&::hsa_signal_silent_store_relaxed) signal_silent_store_relaxed;
  decltype(&::hsa_signal_silent_store_screlease) signal_silent_store_screlease;
  decltype(&::hsa_executable_destroy) executable_destroy;
  decltype(&::hsa_executable_freeze) executable_freeze;
  decltype(&::hsa_executable_symbol_get_info) executable_symbol_get_info;
  decltype(&::hsa_system_get_major_extension_table) system_get_major_extension_table;
  decltype(&::hsa_executable_iterate_agent_symbols) executable_iterate_agent_symbols;

  decltype(&::hsa_amd_profiling_set_profiler_enabled) set_profiler_enabled;
  decltype(&::hsa_amd_profiling_async_copy_enable) async_copy_enable;
  decltype(&::hsa_amd_profiling_get_async_copy_time) get_async_copy_time;
  decltype(&::hsa_amd_profiling_convert_tick_to_system_domain) convert_tick;
  decltype(&::hsa_amd_memory_pool_get_info) memory_pool_get_info;
  decltype(&::hsa_amd_agent_iterate_memory_pools) agent_iterate_memory_pools;
  decltype(&::hsa_amd_memory_pool_allocate) memory_pool_allocate;
  decltype(&::hsa_amd_memory_pool_free) memory_pool_free;
  decltype(&::hsa_amd_memory_async_copy) memory_async_copy;
  AsyncCopyOnEngine memory_async_copy_on_engine;  // nullptr if the runtime has none
  AmdQueueCreate amd_queue_create;                // the same
  AsyncBatchCopy memory_async_batch_copy;         // the same
  QueueGetInfo queue_get_info;                    // the same
  decltype(&::hsa_amd_agents_allow_access) agents_allow_access;
  decltype(&::hsa_amd_pointer_info) pointer_info;
  QueueInterceptCreate queue_intercept_create;
  QueueInterceptRegister queue_intercept_register;
  decltype(&::hsa_amd_memory_async_copy_rect) memory_async_copy_rect;

  // Reads all of them. False if a slot of the core table is null. A missing function of
  // the AMD extension table is replaced by one that fails; it is nullptr only where the
  // member's comment says so.
  bool Load(const ApiTableRoot* root, const AmdSlots& slots);
  // Copies from `later`, which was read from the same tables, those functions that are
  // the runtime's own. The others may be ours, or call ours.
  void CopyRuntimeFunctions(const HsaFunctions& later, const ElfObject& runtime);
  // True if `function` is one of these functions.
  bool Has(const void* function) const;
};

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_HSA_FUNCTIONS_H_
