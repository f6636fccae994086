// The HSA runtime's API tables, ROCm 4.5 and later.
//
// A tool gets pointers to two tables of function pointers, each after a version header
// whose minor_id is the table's size in bytes. The order of the core table has never
// changed. The order of the AMD extension table has: in ROCm 5.6 two functions were
// inserted at slot 16, and development branches order its end in different ways. So the
// slot of each of its functions is read from the runtime's own code (live_table.h), and
// never inferred from the table's size, its version or a struct of a header file.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_HSA_API_TABLES_H_
#define ROCATTACH_USERSPACE_COLLECTOR_HSA_API_TABLES_H_

#include <stddef.h>
#include <stdint.h>

namespace rocattach::collector {

struct ApiTableVersion {
  uint32_t major_id;
  uint32_t minor_id;  // bytes of the table, this header included
  uint32_t step_id;
  uint32_t reserved;
};

// A table in the runtime's memory.
struct ApiTable {
  ApiTableVersion version;
  void* slots[];
};

// The argument of OnLoad. More tables may follow.
struct ApiTableRoot {
  ApiTableVersion version;
  ApiTable* core;
  ApiTable* amd_ext;
};

// Slots of the core table that we use.
enum CoreSlot : uint32_t {
  kCoreInit = 0,
  kCoreShutDown = 1,
  kCoreSystemGetInfo = 2,
  kCoreIterateAgents = 5,
  kCoreAgentGetInfo = 6,
  kCoreQueueCreate = 7,
  kCoreQueueDestroy = 9,
  kCoreQueueStoreWriteIndexRelaxed = 15,
  kCoreQueueStoreWriteIndexScrelease = 16,
  kCoreQueueCasWriteIndexScacqScrel = 17,
  kCoreQueueCasWriteIndexScacquire = 18,
  kCoreQueueCasWriteIndexRelaxed = 19,
  kCoreQueueCasWriteIndexScrelease = 20,
  kCoreQueueAddWriteIndexScacqScrel = 21,
  kCoreQueueAddWriteIndexScacquire = 22,
  kCoreQueueAddWriteIndexRelaxed = 23,
  kCoreQueueAddWriteIndexScrelease = 24,
  kCoreMemoryAllocate = 33,
  kCoreMemoryFree = 34,
  kCoreMemoryCopy = 35,
  kCoreSignalCreate = 37,
  kCoreSignalDestroy = 38,
  kCoreSignalLoadRelaxed = 39,
  kCoreSignalLoadScacquire = 40,
  kCoreSignalStoreRelaxed = 41,
  kCoreSignalStoreScrelease = 42,
  kCoreSignalWaitRelaxed = 43,
  kCoreSignalWaitScacquire = 44,
  kCoreExecutableDestroy = 84,
  kCoreExecutableFreeze = 86,
  kCoreExecutableSymbolGetInfo = 93,
  kCoreSystemGetMajorExtensionTable = 98,
  kCoreSignalSilentStoreRelaxed = 102,
  kCoreSignalSilentStoreScrelease = 103,
  kCoreExecutableIterateAgentSymbols = 123,
};
// Up to hsa_executable_iterate_agent_symbols and three more; later runtimes may append.
constexpr uint32_t kLeastCoreTableBytes = 1016;
// ROCm 4.5.
constexpr uint32_t kLeastAmdTableBytes = 400;
// Far larger than any table.
constexpr uint32_t kMostTableBytes = 4096;

// Slots of the AMD extension table in one runtime. kNoSlot if the runtime lacks the
// function, or if its slot could not be proven.
constexpr uint32_t kNoSlot = UINT32_MAX;
struct AmdSlots {
  uint32_t profiling_set_profiler_enabled = kNoSlot;
  uint32_t profiling_async_copy_enable = kNoSlot;
  uint32_t profiling_get_async_copy_time = kNoSlot;
  uint32_t profiling_convert_tick_to_system_domain = kNoSlot;
  uint32_t async_function = kNoSlot;
  uint32_t memory_pool_get_info = kNoSlot;
  uint32_t agent_iterate_memory_pools = kNoSlot;
  uint32_t memory_pool_allocate = kNoSlot;
  uint32_t memory_pool_free = kNoSlot;
  uint32_t memory_async_copy = kNoSlot;
  uint32_t memory_async_copy_on_engine = kNoSlot;
  uint32_t agents_allow_access = kNoSlot;
  uint32_t pointer_info = kNoSlot;
  uint32_t queue_intercept_create = kNoSlot;
  uint32_t queue_intercept_register = kNoSlot;
  uint32_t memory_async_copy_rect = kNoSlot;
  uint32_t memory_async_batch_copy = kNoSlot;
  uint32_t queue_get_info = kNoSlot;
  uint32_t queue_create = kNoSlot;  // ROCm 10
};

// Checks the root and both tables' sizes, and reads nothing else. Returns nullptr if
// they are plausible, otherwise the reason as text.
const char* CheckTables(const ApiTableRoot* root);

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_HSA_API_TABLES_H_
