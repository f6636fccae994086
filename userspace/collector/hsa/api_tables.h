// Layouts of the HSA runtime's API tables, ROCm 4.5 and later.
//
// A tool gets pointers to two tables of function pointers, each after a version header
// whose minor_id is the table's size in bytes. The core table has been 1016 bytes
// throughout. The AMD extension table is not append-only: at 456 bytes (ROCm 5.6) two
// functions were inserted at slot 16, and everything after them moved by two. So slots
// are looked up by the size, never through a struct of a header file.
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

// What OnLoad receives. More tables may follow.
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
  kCoreSignalDestroy = 38,
  kCoreSignalLoadRelaxed = 39,
  kCoreSignalStoreRelaxed = 41,
  kCoreSignalStoreScrelease = 42,
  kCoreExecutableDestroy = 84,
  kCoreExecutableFreeze = 86,
  kCoreExecutableSymbolGetInfo = 93,
  kCoreSystemGetMajorExtensionTable = 98,
  kCoreSignalSilentStoreRelaxed = 102,
  kCoreSignalSilentStoreScrelease = 103,
  kCoreExecutableIterateAgentSymbols = 123,
};
constexpr uint32_t kCoreTableBytes = 1016;

// Slots of the AMD extension table in one runtime. kNoSlot where it lacks the function.
constexpr uint32_t kNoSlot = UINT32_MAX;
struct AmdSlots {
  uint32_t profiling_set_profiler_enabled = 2;
  uint32_t profiling_async_copy_enable = 3;
  uint32_t profiling_get_async_copy_time = 5;
  uint32_t profiling_convert_tick_to_system_domain = 6;
  uint32_t async_function = 8;
  uint32_t memory_pool_get_info = 11;
  uint32_t agent_iterate_memory_pools = 12;
  uint32_t memory_pool_allocate = 13;
  uint32_t memory_pool_free = 14;
  uint32_t memory_async_copy = 15;
  uint32_t memory_async_copy_on_engine = kNoSlot;
  uint32_t agents_allow_access = 17;
  uint32_t pointer_info = 26;
  uint32_t queue_intercept_create = 35;
  uint32_t queue_intercept_register = 36;
  uint32_t memory_async_copy_rect = 38;
  // ROCr up to 5.7 asserts when a wrapped hardware queue overflows twice.
  bool intercept_overflow_asserts = true;
};

// Looks `amd_ext_bytes` up. False: a size that no known runtime has.
bool AmdSlotsForSize(uint32_t amd_ext_bytes, AmdSlots* slots);

// Checks the root and both tables' versions and sizes, and reads nothing else. nullptr
// if all are known, else the reason in words.
const char* CheckTables(const ApiTableRoot* root, AmdSlots* slots);

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_HSA_API_TABLES_H_
