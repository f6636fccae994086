// Counter configs and values, with a small fake SDK.
#include "userspace/collector/sdk/configs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/unit/collector/sdk/fake_sdk.h"
#include "userspace/collector/sdk/api.h"
#include "userspace/collector/sdk/values.h"

namespace rocattach::collector {
namespace {

using ::testing::ElementsAre;
using SdkConfigsTest = SdkFixture;

TEST_F(SdkConfigsTest, AgentsBecomeDictionaryEntries) {
  ASSERT_EQ(agents_.count(), 3u);
  EXPECT_FALSE(agents_.at(0).gpu);
  EXPECT_STREQ(agents_.at(2).name, "gfx942");
  EXPECT_EQ(agents_.Find({102}), 2u);
  EXPECT_EQ(agents_.Find({7}), SdkAgents::kNone);
  const auto* entry = reinterpret_cast<const rocattach_agent_entry*>(
      memory_.base() + memory_.geometry().dictionary_offset);
  EXPECT_EQ(entry->entry.kind, ROCATTACH_ENTRY_AGENT);
  EXPECT_EQ(entry->type, 1u);
  const std::string text(reinterpret_cast<const char*>(entry + 1),
                         entry->entry.text_bytes);
  EXPECT_EQ(text, std::string("gfx90a\0A product", 16));
  // The number of dies of a GPU is the SDK's; a CPU has none.
  EXPECT_EQ(entry->xccs, 0u);
  const auto* second = reinterpret_cast<const rocattach_agent_entry*>(
      reinterpret_cast<const uint8_t*>(entry) + entry->entry.bytes);
  EXPECT_EQ(second->xccs, 1u);
  const auto* third = reinterpret_cast<const rocattach_agent_entry*>(
      reinterpret_cast<const uint8_t*>(second) + second->entry.bytes);
  EXPECT_EQ(third->xccs, 6u);
  EXPECT_EQ(third->family_id, 141u);
  EXPECT_EQ(third->workgroup_max_size, 1024u);
  EXPECT_EQ(third->grid_max_size, UINT32_MAX);
  EXPECT_THAT(third->workgroup_max, ElementsAre(1024, 512, 256));
  EXPECT_THAT(third->grid_max, ElementsAre(9, 8, 7));
  EXPECT_EQ(agents_.FindCounter(1, "C77").handle, 77u);
  EXPECT_EQ(agents_.FindCounter(1, "C901").handle, 0u);
}

TEST_F(SdkConfigsTest, MakesEachSetOnceAndKeepsItForLaterPlans) {
  PlanResult result;
  const SdkPassTable* table = configs_.Build(*Plan(2, {{1, 2}, {3}}), &result);
  ASSERT_NE(table, nullptr) << result.text;
  EXPECT_EQ(table->generation, 2u);
  EXPECT_EQ(table->dispatch_passes[1], 2u);
  EXPECT_EQ(table->dispatch_passes[2], 0u);  // another architecture
  EXPECT_EQ(fake_.created, 2u);
  const SdkConfig& config = configs_.at(table->config[1][0]);
  EXPECT_EQ(fake_.configs[config.handle], (std::vector<uint64_t>{1, 2}));
  ASSERT_NE(configs_.Build(*Plan(4, {{3}, {1, 2}, {2, 1}}), &result), nullptr);
  EXPECT_EQ(fake_.created, 3u);
}

TEST_F(SdkConfigsTest, AGpuThatCannotBeMeasuredIsLeftOut) {
  fake_.without_counters = {102};
  PlanState* plan = Plan(2, {{1, 2}});
  plan->plan.architectures = 2;
  plan->plan.architecture[1] = plan->plan.architecture[0];
  strcpy(plan->plan.architecture[1].name, "gfx942");
  PlanResult result;
  const SdkPassTable* table = configs_.Build(*plan, &result);
  ASSERT_NE(table, nullptr) << result.text;
  EXPECT_TRUE(result.ok());
  EXPECT_NE(std::string(result.text).find("gfx942"), std::string::npos) << result.text;
  EXPECT_EQ(table->dispatch_passes[1], 1u);
  EXPECT_EQ(table->dispatch_passes[2], 0u);
  // A GPU that was asked for by name is not left out: the plan is refused.
  rocattach_plan_selection selection = {};
  const uint32_t agent = agents_.at(2).dictionary_id;
  selection.flags = ROCATTACH_SELECT_AGENTS;
  EXPECT_NE(configs_.Build(*plan, &result, &selection), nullptr);
  selection.agents[agent / 64] = uint64_t{1} << (agent % 64);
  EXPECT_EQ(configs_.Build(*plan, &result, &selection), nullptr);
  EXPECT_EQ(result.error, ROCATTACH_PLAN_ERROR_NO_COUNTER);
  EXPECT_NE(std::string(result.text).find("gfx942) that was asked for"),
            std::string::npos)
      << result.text;
  result = PlanResult();
  // The plan is refused if no other GPU can be measured.
  strcpy(plan->plan.architecture[0].name, "gfx908");
  EXPECT_EQ(configs_.Build(*plan, &result), nullptr);
  EXPECT_EQ(result.error, ROCATTACH_PLAN_ERROR_NO_COUNTER);
}

TEST_F(SdkConfigsTest, ForgetsUnusedConfigsAndKeepsThoseOfThePlan) {
  PlanResult result;
  uint64_t generation = 2;
  for (uint64_t i = 1; i <= kCounters; ++i, generation += 2) {
    ASSERT_NE(configs_.Build(*Plan(generation, {{i}, {1, 2, 3}}), &result), nullptr);
    EXPECT_LE(fake_.configs.size(), 257u);
  }
  // More passes in one plan than are otherwise kept.
  std::vector<std::vector<uint64_t>> passes;
  for (uint64_t i = 1; i <= 256; ++i) passes.push_back({i, i + 300});
  const SdkPassTable* table = configs_.Build(*Plan(generation, passes), &result);
  ASSERT_NE(table, nullptr) << result.text;
  std::set<uint64_t> handles;
  for (uint32_t pass = 0; pass < 256; ++pass) {
    const SdkConfig& config = configs_.at(table->config[1][pass]);
    EXPECT_EQ(fake_.configs[config.handle], passes[pass]);
    handles.insert(config.handle);
  }
  EXPECT_EQ(handles.size(), 256u);
}

TEST_F(SdkConfigsTest, RefusalsNameTheCounters) {
  PlanResult result;
  EXPECT_EQ(configs_.Build(*Plan(2, {{1, 2, 3, 4, 5, 6, 7, 8, 9}}), &result), nullptr);
  EXPECT_EQ(result.error, ROCATTACH_PLAN_ERROR_HW_LIMIT);
  EXPECT_EQ(result.code, ROCATTACH_SDK_STATUS_ERROR_EXCEEDS_HW_LIMIT);
  EXPECT_NE(strstr(result.text, "gfx90a"), nullptr);
  EXPECT_NE(strstr(result.text, "C1 C2 C3 C4 C5 C6 C7 C8 C9"), nullptr) << result.text;
  EXPECT_EQ(result.counter, 0u);
  const auto unknown = Plan(2, {{1, 999}});
  EXPECT_EQ(configs_.Build(*unknown, &result), nullptr);
  EXPECT_EQ(result.error, ROCATTACH_PLAN_ERROR_NO_COUNTER);
  ASSERT_NE(result.counter, 0u);
  EXPECT_STREQ(unknown->plan.counter_name[result.counter - 1], "C999");
  EXPECT_NE(strstr(result.text, "C999"), nullptr) << result.text;
  // More names than fit into the text.
  std::vector<uint64_t> many;
  for (uint64_t i = 100; i < 228; ++i) many.push_back(i);
  EXPECT_EQ(configs_.Build(*Plan(2, {many}), &result), nullptr);
  EXPECT_NE(strstr(result.text, "..."), nullptr) << result.text;
  EXPECT_LT(strlen(result.text), sizeof(result.text) - 1);
  const std::map<rocattach_sdk_status, rocattach_plan_error> errors = {
      {ROCATTACH_SDK_STATUS_ERROR_FINALIZED, ROCATTACH_PLAN_ERROR_ENDED},
      {ROCATTACH_SDK_STATUS_ERROR_CONTEXT_CONFLICT, ROCATTACH_PLAN_ERROR_CONFLICT},
      {ROCATTACH_SDK_STATUS_ERROR_METRIC_NOT_VALID_FOR_AGENT,
       ROCATTACH_PLAN_ERROR_NO_COUNTER},
      {ROCATTACH_SDK_STATUS_ERROR_PERMISSION_DENIED, ROCATTACH_PLAN_ERROR_SDK},
  };
  for (const auto& [status, error] : errors) {
    fake_.refuse = status;
    EXPECT_EQ(configs_.Build(*Plan(2, {{5}}), &result), nullptr);
    EXPECT_EQ(result.error, error);
    EXPECT_EQ(result.code, status);
  }
}

// The SDK is asked for each instance's counter once, and again if the order differs.
TEST_F(SdkConfigsTest, InstancesAreQueriedOnceUntilTheirOrderChanges) {
  PlanResult result;
  const SdkPassTable* table = configs_.Build(*Plan(2, {{5, 6, 7}}), &result);
  ASSERT_NE(table, nullptr);
  const uint32_t place = table->config[1][0];
  const auto sums = [&](std::vector<uint64_t> instances, uint64_t* asked) {
    std::vector<rocattach_sdk_counter_record> records(instances.size());
    for (size_t i = 0; i < instances.size(); ++i) {
      records[i].id = instances[i];
      records[i].counter_value = static_cast<double>(instances[i] % 1000);
    }
    CounterReducer reducer(&sdk_, configs_.at(place), configs_.order(place));
    const uint64_t before = fake_.instances_asked;
    EXPECT_TRUE(reducer.AddAll(records.data(), records.size()));
    *asked = fake_.instances_asked - before;
    return std::vector<double>{reducer.at(0).sum, reducer.at(1).sum, reducer.at(2).sum};
  };
  uint64_t asked = 0;
  EXPECT_EQ(sums({7001, 7002, 5001, 6003}, &asked), (std::vector<double>{1, 3, 3}));
  EXPECT_EQ(asked, 4u);
  EXPECT_EQ(sums({7001, 7002, 5001, 6003}, &asked), (std::vector<double>{1, 3, 3}));
  EXPECT_EQ(asked, 0u);
  // Two instances have changed places, and there is one more.
  EXPECT_EQ(sums({7002, 7001, 5001, 6003, 6001}, &asked),
            (std::vector<double>{1, 4, 3}));
  EXPECT_EQ(asked, 3u);
  // More instances than are stored.
  EXPECT_EQ(sums(std::vector<uint64_t>(InstanceOrder::kMost + 2, 6001), &asked)[1],
            InstanceOrder::kMost + 2.0);
}

// Whatever order has been stored, the values are the same as without one, to the last
// bit.
TEST_F(SdkConfigsTest, AKnownOrderChangesNoValue) {
  // The first order of each list is the one that is stored.
  const std::vector<std::vector<std::vector<uint64_t>>> lists = {
      {{7001, 7002, 7003, 5001, 6001, 6002},
       {7001, 7002, 7003, 5001, 6001, 6002},
       {7001, 7002, 7003, 5001, 6002, 6001},
       {7003, 7002, 7001, 5001, 6001, 6002},
       {7001, 7002, 7003, 5001, 6001},
       {7001, 7002},
       {7001, 7002, 7003, 5001, 6001, 6002, 7004, 5002},
       {6001, 5001, 7001, 6002},
       {}},
      // The counters have the same number of instances, and are added up together.
      {{7001, 7002, 7003, 5001, 5002, 5003, 6001, 6002, 6003},
       {7001, 7002, 7003, 5001, 5002, 5003, 6001, 6002, 6003},
       {7001, 7002, 7003, 5001, 5003, 5002, 6001, 6002, 6003},
       {7001, 7003, 7002, 5001, 5002, 5003, 6001, 6002, 6003},
       {7001, 7002, 7003, 5001, 5002, 5003, 6001, 6002, 6004},
       {7001, 7002, 7003, 5001, 5002},
       {7001, 7002, 7003}},
      // One counter twice in a row and once again later: its values have an order.
      {{7001, 7002, 5001, 5002, 7003, 7004, 7001, 7002},
       {7001, 7002, 5001, 5002, 7003, 7004, 7001, 7002},
       {7001, 7002, 5001, 5002, 7004, 7003, 7001, 7002}}};
  const double kValues[] = {-0.0, 0.1, 1e300, -7, 3, 1e-9, 0.3, 4096};
  PlanResult result;
  const SdkPassTable* table = configs_.Build(*Plan(2, {{5, 6, 7}}), &result);
  ASSERT_NE(table, nullptr);
  const uint32_t place = table->config[1][0];
  for (const auto& orders : lists) {
    configs_.order(place)->Forget();
    for (size_t shift = 0; shift < 8; ++shift) {
      for (const std::vector<uint64_t>& order : orders) {
        std::vector<rocattach_sdk_counter_record> records(order.size());
        for (size_t i = 0; i < order.size(); ++i) {
          records[i].id = order[i];
          records[i].counter_value = kValues[(i + shift) % 8];
        }
        CounterReducer with(&sdk_, configs_.at(place), configs_.order(place));
        CounterReducer without(&sdk_, configs_.at(place), nullptr);
        EXPECT_TRUE(with.AddAll(records.data(), records.size()));
        EXPECT_TRUE(without.AddAll(records.data(), records.size()));
        for (uint32_t i = 0; i < 3; ++i) {
          ASSERT_EQ(with.at(i).instances, without.at(i).instances);
          if (with.at(i).instances == 0) continue;
          for (const auto value :
               {&rocattach_counter_value::sum, &rocattach_counter_value::minimum,
                &rocattach_counter_value::maximum}) {
            EXPECT_EQ(std::bit_cast<uint64_t>(with.at(i).*value),
                      std::bit_cast<uint64_t>(without.at(i).*value));
          }
        }
      }
    }
  }
}

TEST_F(SdkConfigsTest, InstancesBecomeOneValue) {
  PlanResult result;
  const SdkPassTable* table = configs_.Build(*Plan(2, {{5, 6, 7}}), &result);
  ASSERT_NE(table, nullptr);
  const SdkConfig& config = configs_.at(table->config[1][0]);
  CounterReducer reducer(&sdk_, config, nullptr);
  for (uint64_t instance : {7001, 7002, 5001, 7003, 9001}) {
    const uint32_t place = reducer.Find(instance);
    if (instance / 1000 == 9) {
      EXPECT_EQ(place, CounterReducer::kNone);
    } else {
      ASSERT_NE(place, CounterReducer::kNone);
      reducer.Add(place, static_cast<double>(instance % 1000));
    }
  }
  rocattach_values head = {};
  head.kind = ROCATTACH_RECORD_VALUES;
  head.correlation_id = 4711;
  rocattach_values slots[kMaxValueSlots];
  uint32_t total = 0;
  // C6 has no values: it is left out, and not reported as zero.
  EXPECT_EQ(PackValues(reducer, config, state_.plan, state_.plan.pass[0], head, slots,
                       &total),
            1u);
  EXPECT_EQ(total, 2u);
  EXPECT_EQ(slots[0].count, 2u);
  EXPECT_EQ(slots[0].slots, 1u);
  EXPECT_EQ(slots[0].correlation_id, 4711u);
  EXPECT_EQ(slots[0].value[0].counter, 0u);
  EXPECT_EQ(slots[0].value[0].sum, 1);
  const rocattach_counter_value& c7 = slots[0].value[1];
  EXPECT_EQ(c7.counter, 2u);
  EXPECT_EQ(c7.instances, 3u);
  EXPECT_EQ(c7.sum, 6);
  EXPECT_EQ(c7.minimum, 1);
  EXPECT_EQ(c7.maximum, 3);
}

TEST(SdkApiTest, FunctionsOfADomainHaveOneNumberEach) {
  rocattach_plan_api domain;
  uint32_t function = 0;
  ASSERT_TRUE(
      ApiFunctionOf(ROCATTACH_SDK_CALLBACK_HSA_AMD_EXT_API, 3, &domain, &function));
  EXPECT_EQ(domain, ROCATTACH_PLAN_API_HSA);
  EXPECT_EQ(function, 259u);
  ASSERT_TRUE(
      ApiFunctionOf(ROCATTACH_SDK_CALLBACK_HIP_COMPILER_API, 2, &domain, &function));
  EXPECT_EQ(domain, ROCATTACH_PLAN_API_HIP);
  EXPECT_EQ(function, 770u);
  EXPECT_FALSE(
      ApiFunctionOf(ROCATTACH_SDK_CALLBACK_HIP_RUNTIME_API, 768, &domain, &function));
  EXPECT_FALSE(
      ApiFunctionOf(ROCATTACH_SDK_CALLBACK_HSA_CORE_API, -1, &domain, &function));
  EXPECT_FALSE(
      ApiFunctionOf(ROCATTACH_SDK_CALLBACK_CODE_OBJECT, 1, &domain, &function));
}

}  // namespace
}  // namespace rocattach::collector
