// The layouts of the API tables, against the header of the installed runtime and
// against synthetic tables of every known size.

// Makes the header include its neighbours as they are installed.
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

constexpr uint32_t kKnownSizes[] = {400, 424, 456, 552, 560, 576, 584, 608};

#define EXPECT_SLOT(table, function, slot)             \
  EXPECT_EQ(offsetof(installed::table, function##_fn), \
            sizeof(ApiTableVersion) + 8 * size_t{slot})

TEST(ApiTablesTest, CoreSlotsAreThoseOfTheHeader) {
  EXPECT_EQ(sizeof(installed::CoreApiTable), kCoreTableBytes);
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

TEST(ApiTablesTest, AmdSlotsOf400BytesAreThoseOfTheHeader) {
  if (sizeof(installed::AmdExtTable) != 400) {
    GTEST_SKIP() << "the installed header has a table of "
                 << sizeof(installed::AmdExtTable) << " bytes";
  }
  AmdSlots s;
  ASSERT_TRUE(AmdSlotsForSize(400, &s));
  EXPECT_SLOT(AmdExtTable, hsa_amd_profiling_set_profiler_enabled,
              s.profiling_set_profiler_enabled);
  EXPECT_SLOT(AmdExtTable, hsa_amd_profiling_async_copy_enable,
              s.profiling_async_copy_enable);
  EXPECT_SLOT(AmdExtTable, hsa_amd_profiling_get_async_copy_time,
              s.profiling_get_async_copy_time);
  EXPECT_SLOT(AmdExtTable, hsa_amd_profiling_convert_tick_to_system_domain,
              s.profiling_convert_tick_to_system_domain);
  EXPECT_SLOT(AmdExtTable, hsa_amd_memory_pool_get_info, s.memory_pool_get_info);
  EXPECT_SLOT(AmdExtTable, hsa_amd_agent_iterate_memory_pools,
              s.agent_iterate_memory_pools);
  EXPECT_SLOT(AmdExtTable, hsa_amd_memory_pool_allocate, s.memory_pool_allocate);
  EXPECT_SLOT(AmdExtTable, hsa_amd_memory_pool_free, s.memory_pool_free);
  EXPECT_SLOT(AmdExtTable, hsa_amd_memory_async_copy, s.memory_async_copy);
  EXPECT_SLOT(AmdExtTable, hsa_amd_agents_allow_access, s.agents_allow_access);
  EXPECT_SLOT(AmdExtTable, hsa_amd_pointer_info, s.pointer_info);
  EXPECT_SLOT(AmdExtTable, hsa_amd_queue_intercept_create, s.queue_intercept_create);
  EXPECT_SLOT(AmdExtTable, hsa_amd_queue_intercept_register,
              s.queue_intercept_register);
  EXPECT_SLOT(AmdExtTable, hsa_amd_memory_async_copy_rect, s.memory_async_copy_rect);
  EXPECT_EQ(s.memory_async_copy_on_engine, kNoSlot);
}

TEST(ApiTablesTest, TwoFunctionsWereInsertedAt456Bytes) {
  for (uint32_t bytes : kKnownSizes) {
    AmdSlots s;
    ASSERT_TRUE(AmdSlotsForSize(bytes, &s)) << bytes;
    uint32_t moved = bytes >= 456 ? 2 : 0;
    EXPECT_EQ(s.memory_async_copy, 15u);
    EXPECT_EQ(s.memory_async_copy_on_engine, bytes >= 456 ? 16u : kNoSlot);
    EXPECT_EQ(s.agents_allow_access, 17 + moved);
    EXPECT_EQ(s.queue_intercept_create, 35 + moved);
    EXPECT_EQ(s.memory_async_copy_rect, 38 + moved);
    EXPECT_EQ(s.intercept_overflow_asserts, bytes <= 456);
    EXPECT_LE(sizeof(ApiTableVersion) + 8 * (s.memory_async_copy_rect + 1), bytes);
  }
}

// Tables of the given sizes whose entries are all distinct non-null pointers.
class Synthetic {
 public:
  explicit Synthetic(uint32_t amd_bytes, uint32_t core_bytes = kCoreTableBytes)
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

TEST(ApiTablesTest, ReadsEveryKnownSize) {
  for (uint32_t bytes : kKnownSizes) {
    Synthetic tables(bytes);
    AmdSlots slots;
    ASSERT_EQ(CheckTables(&tables.root, &slots), nullptr) << bytes;
    HsaFunctions hsa;
    ASSERT_TRUE(hsa.Load(&tables.root, slots));
    uint64_t moved = bytes >= 456 ? 2 : 0;
    EXPECT_EQ(reinterpret_cast<uint64_t>(hsa.queue_intercept_create),
              0x2000000u + 2 + 35 + moved);
    EXPECT_EQ(reinterpret_cast<uint64_t>(hsa.signal_store_screlease),
              0x1000000u + 2 + 42);
    EXPECT_EQ(hsa.memory_async_copy_on_engine != nullptr, bytes >= 456);
  }
}

TEST(ApiTablesTest, RefusesWhatItDoesNotKnow) {
  AmdSlots slots;
  for (uint32_t bytes : {0u, 392u, 408u, 448u, 464u, 544u, 592u, 600u, 616u, 4096u}) {
    Synthetic tables(bytes < 16 ? 16 : bytes);
    tables.root.amd_ext->version.minor_id = bytes;
    EXPECT_NE(CheckTables(&tables.root, &slots), nullptr) << bytes;
  }
  EXPECT_NE(CheckTables(nullptr, &slots), nullptr);
  Synthetic core(400, 1024);
  EXPECT_NE(CheckTables(&core.root, &slots), nullptr);
  Synthetic major(400);
  major.root.core->version.major_id = 3;
  EXPECT_NE(CheckTables(&major.root, &slots), nullptr);
  Synthetic small(400);
  small.root.version.minor_id = 24;
  EXPECT_NE(CheckTables(&small.root, &slots), nullptr);
  Synthetic none(400);
  none.root.amd_ext = nullptr;
  EXPECT_NE(CheckTables(&none.root, &slots), nullptr);
}

TEST(ApiTablesTest, ANullEntryIsRefused) {
  Synthetic tables(608);
  AmdSlots slots;
  ASSERT_EQ(CheckTables(&tables.root, &slots), nullptr);
  tables.root.core->slots[kCoreQueueCreate] = nullptr;
  HsaFunctions hsa;
  EXPECT_FALSE(hsa.Load(&tables.root, slots));
}

}  // namespace
}  // namespace rocattach::collector
