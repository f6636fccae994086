// The slots of functions in the API tables, read from the code of runtimes of every
// known order, and of some unknown ones.
#include "userspace/collector/hsa/live_table.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/unit/collector/hsa/table_runtime/table_runtime.h"

namespace rocattach::collector {
namespace {

#define EXPECT_PROVEN(name) EXPECT_EQ(tables.slots.name, SlotOf(truth, #name)) << #name

uint32_t SlotOf(const std::map<std::string, uint32_t>& slots, const char* name) {
  auto found = slots.find(name);
  return found == slots.end() ? kNoSlot : found->second;
}

class LiveTableTest : public testing::TestWithParam<const char*> {};

class EveryOrderTest : public LiveTableTest {};

TEST_P(EveryOrderTest, EachFunctionIsWhereTheRuntimeHasIt) {
  const TableRuntime runtime(GetParam());
  ASSERT_TRUE(runtime.loaded()) << dlerror();
  LiveTables tables;
  ASSERT_STREQ(FindLiveTables(runtime.window(), &tables), nullptr);
  EXPECT_EQ(tables.root.core, runtime.root().core);
  EXPECT_EQ(tables.root.amd_ext, runtime.root().amd_ext);
  EXPECT_EQ(tables.unproven, 0u);
  const std::map<std::string, uint32_t> truth = runtime.Slots();
  EXPECT_PROVEN(profiling_set_profiler_enabled);
  EXPECT_PROVEN(profiling_async_copy_enable);
  EXPECT_PROVEN(profiling_get_async_copy_time);
  EXPECT_PROVEN(profiling_convert_tick_to_system_domain);
  EXPECT_PROVEN(async_function);
  EXPECT_PROVEN(memory_pool_get_info);
  EXPECT_PROVEN(agent_iterate_memory_pools);
  EXPECT_PROVEN(memory_pool_allocate);
  EXPECT_PROVEN(memory_pool_free);
  EXPECT_PROVEN(memory_async_copy);
  EXPECT_PROVEN(memory_async_copy_on_engine);
  EXPECT_PROVEN(agents_allow_access);
  EXPECT_PROVEN(pointer_info);
  EXPECT_PROVEN(queue_intercept_create);
  EXPECT_PROVEN(queue_intercept_register);
  EXPECT_PROVEN(memory_async_copy_rect);
  EXPECT_PROVEN(queue_create);
  EXPECT_EQ(tables.intercept_overflow_asserts,
            truth.count("vmem_address_reserve") == 0);
  EXPECT_EQ(tables.intercept_batches, truth.count("ais_file_write") != 0);
}

INSTANTIATE_TEST_SUITE_P(Releases, EveryOrderTest,
                         testing::Values("400", "424", "456", "552", "560", "568",
                                         "576", "584", "592", "600", "608", "624",
                                         "640", "648", "656", "664", "672", "688",
                                         "704", "712", "728", "744", "752"));
INSTANTIATE_TEST_SUITE_P(Branches, EveryOrderTest,
                         testing::Values("branch_672", "branch_704", "branch_720",
                                         "later"));
INSTANTIATE_TEST_SUITE_P(OtherCode, EveryOrderTest,
                         testing::Values("tracepoints", "endbr64", "unoptimised"));

TEST_F(LiveTableTest, TablesThatAreNotTheRuntimesAreRefused) {
  for (const char* name : {"overlap", "foreign_table", "no_size"}) {
    const TableRuntime runtime(name);
    ASSERT_TRUE(runtime.loaded()) << dlerror();
    LiveTables tables;
    EXPECT_NE(FindLiveTables(runtime.window(), &tables), nullptr) << name;
  }
}

TEST_F(LiveTableTest, AFunctionThatIsNotUnderstoodAffectsNoOther) {
  for (const char* name : {"foreign_code", "no_entry"}) {
    SCOPED_TRACE(name);
    const TableRuntime runtime(name);
    ASSERT_TRUE(runtime.loaded()) << dlerror();
    LiveTables tables;
    ASSERT_STREQ(FindLiveTables(runtime.window(), &tables), nullptr);
    EXPECT_EQ(tables.slots.pointer_info, kNoSlot);
    EXPECT_EQ(tables.slots.memory_async_copy, 15u);
    ASSERT_EQ(__builtin_popcount(tables.unproven), 1);
    EXPECT_STREQ(UnprovenName(static_cast<uint32_t>(__builtin_ctz(tables.unproven))),
                 "hsa_amd_pointer_info");
  }
}

TEST_F(LiveTableTest, PassedTablesMustBeTheLiveOnes) {
  const TableRuntime runtime("608"), other("752");
  ASSERT_TRUE(runtime.loaded() && other.loaded()) << dlerror();
  LiveTables tables;
  ApiTableRoot root = runtime.root();
  EXPECT_STREQ(ProveTables(&root, &tables), nullptr);
  EXPECT_EQ(tables.slots.queue_intercept_create, 37u);
  root.amd_ext = other.root().amd_ext;
  EXPECT_NE(ProveTables(&root, &tables), nullptr);
  // A copy of the table, through which nothing is called.
  root = runtime.root();
  alignas(8) static char copy[kLeastCoreTableBytes];
  __builtin_memcpy(copy, root.core, sizeof(copy));
  root.core = reinterpret_cast<ApiTable*>(copy);
  EXPECT_NE(ProveTables(&root, &tables), nullptr);
  EXPECT_NE(ProveTables(nullptr, &tables), nullptr);
  EXPECT_NE(FindLiveTables(nullptr, &tables), nullptr);
}

}  // namespace
}  // namespace rocattach::collector
