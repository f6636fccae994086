// The order of the core table, compared with the header of the installed runtime, and
// the checks of API tables.

// Makes the header include other headers by their installed paths.
#define AMD_INTERNAL_BUILD
#include <hsa_api_trace.h>

#include <gtest/gtest.h>

#include <vector>

namespace installed {
using ::AmdExtTable;
using ::CoreApiTable;
}  // namespace installed

#include "userspace/collector/hsa/api_tables.h"
#include "userspace/collector/hsa/functions.h"

namespace rocattach::collector {
namespace {

#define EXPECT_SLOT(table, function, slot)             \
  EXPECT_EQ(offsetof(installed::table, function##_fn), \
            sizeof(ApiTableVersion) + 8 * size_t{slot})

TEST(ApiTablesTest, CoreSlotsAreThoseOfTheHeader) {
  EXPECT_EQ(sizeof(installed::CoreApiTable), kLeastCoreTableBytes);
  EXPECT_SLOT(CoreApiTable, hsa_init, kCoreInit);
  EXPECT_SLOT(CoreApiTable, hsa_shut_down, kCoreShutDown);
  EXPECT_SLOT(CoreApiTable, hsa_system_get_info, kCoreSystemGetInfo);
  EXPECT_SLOT(CoreApiTable, hsa_iterate_agents, kCoreIterateAgents);
  EXPECT_SLOT(CoreApiTable, hsa_agent_get_info, kCoreAgentGetInfo);
  EXPECT_SLOT(CoreApiTable, hsa_queue_create, kCoreQueueCreate);
  EXPECT_SLOT(CoreApiTable, hsa_queue_destroy, kCoreQueueDestroy);
  EXPECT_SLOT(CoreApiTable, hsa_memory_allocate, kCoreMemoryAllocate);
  EXPECT_SLOT(CoreApiTable, hsa_memory_free, kCoreMemoryFree);
  EXPECT_SLOT(CoreApiTable, hsa_memory_copy, kCoreMemoryCopy);
  EXPECT_SLOT(CoreApiTable, hsa_signal_destroy, kCoreSignalDestroy);
  EXPECT_SLOT(CoreApiTable, hsa_signal_load_relaxed, kCoreSignalLoadRelaxed);
  EXPECT_SLOT(CoreApiTable, hsa_signal_load_scacquire, kCoreSignalLoadScacquire);
  EXPECT_SLOT(CoreApiTable, hsa_signal_wait_relaxed, kCoreSignalWaitRelaxed);
  EXPECT_SLOT(CoreApiTable, hsa_signal_wait_scacquire, kCoreSignalWaitScacquire);
  EXPECT_SLOT(CoreApiTable, hsa_signal_store_relaxed, kCoreSignalStoreRelaxed);
  EXPECT_SLOT(CoreApiTable, hsa_signal_store_screlease, kCoreSignalStoreScrelease);
  EXPECT_SLOT(CoreApiTable, hsa_executable_destroy, kCoreExecutableDestroy);
  EXPECT_SLOT(CoreApiTable, hsa_executable_freeze, kCoreExecutableFreeze);
  EXPECT_SLOT(CoreApiTable, hsa_executable_symbol_get_info,
              kCoreExecutableSymbolGetInfo);
  EXPECT_SLOT(CoreApiTable, hsa_system_get_major_extension_table,
              kCoreSystemGetMajorExtensionTable);
  EXPECT_SLOT(CoreApiTable, hsa_signal_silent_store_relaxed,
              kCoreSignalSilentStoreRelaxed);
  EXPECT_SLOT(CoreApiTable, hsa_signal_silent_store_screlease,
              kCoreSignalSilentStoreScrelease);
  EXPECT_SLOT(CoreApiTable, hsa_executable_iterate_agent_symbols,
              kCoreExecutableIterateAgentSymbols);
}

// Tables of the given sizes whose entries are all distinct non-null pointers.
class Synthetic {
 public:
  explicit Synthetic(uint32_t amd_bytes, uint32_t core_bytes = kLeastCoreTableBytes)
      : core_(core_bytes / 8), amd_(amd_bytes / 8) {
    Fill(&core_, core_bytes, 0x1000000);
    Fill(&amd_, amd_bytes, 0x2000000);
    root.version = {1, sizeof(root), 0, 0};
    root.core = reinterpret_cast<ApiTable*>(core_.data());
    root.amd_ext = reinterpret_cast<ApiTable*>(amd_.data());
  }
  ApiTableRoot root;
  std::vector<uint64_t> core_, amd_;

 private:
  static void Fill(std::vector<uint64_t>* table, uint32_t bytes, uint64_t base) {
    for (size_t i = 0; i < table->size(); ++i) (*table)[i] = base + i;
    ApiTableVersion version = {1, bytes, 0, 0};
    memcpy(table->data(), &version, sizeof(version));
  }
};

TEST(ApiTablesTest, LaterCoreTablesMayBeLonger) {
  Synthetic longer(400, 1024);
  EXPECT_EQ(CheckTables(&longer.root), nullptr);
}

TEST(ApiTablesTest, ImpossibleSizesAreRefused) {
  for (uint32_t bytes : {0u, 392u, 404u, 4104u, 0xfffffff8u}) {
    Synthetic tables(400);
    tables.root.amd_ext->version.minor_id = bytes;
    EXPECT_NE(CheckTables(&tables.root), nullptr) << bytes;
  }
  EXPECT_NE(CheckTables(nullptr), nullptr);
  Synthetic core(400, 1008);
  EXPECT_NE(CheckTables(&core.root), nullptr);
  Synthetic small(400);
  small.root.version.minor_id = 24;
  EXPECT_NE(CheckTables(&small.root), nullptr);
  Synthetic none(400);
  none.root.amd_ext = nullptr;
  EXPECT_NE(CheckTables(&none.root), nullptr);
}

TEST(ApiTablesTest, ANullEntryOfTheCoreTableIsRefused) {
  Synthetic tables(608);
  HsaFunctions hsa;
  EXPECT_TRUE(hsa.Load(&tables.root, AmdSlots()));
  tables.root.core->slots[kCoreQueueCreate] = nullptr;
  EXPECT_FALSE(hsa.Load(&tables.root, AmdSlots()));
}

TEST(ApiTablesTest, AMissingFunctionFails) {
  Synthetic tables(608);
  HsaFunctions hsa;
  ASSERT_TRUE(hsa.Load(&tables.root, AmdSlots()));
  EXPECT_EQ(hsa.set_profiler_enabled(nullptr, 1), HSA_STATUS_ERROR);
  EXPECT_EQ(hsa.memory_async_copy_on_engine, nullptr);
  tables.root.amd_ext->slots[2] =
      reinterpret_cast<void*>(+[](hsa_queue_t*, int) { return HSA_STATUS_SUCCESS; });
  AmdSlots slots;
  slots.profiling_set_profiler_enabled = 2;
  ASSERT_TRUE(hsa.Load(&tables.root, slots));
  EXPECT_EQ(hsa.set_profiler_enabled(nullptr, 1), HSA_STATUS_SUCCESS);
}

}  // namespace
}  // namespace rocattach::collector
