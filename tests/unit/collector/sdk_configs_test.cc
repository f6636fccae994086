// Counter configs and values against a small SDK of our own.
#include "userspace/collector/sdk_configs.h"

#include <gtest/gtest.h>
#include <string.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/unit/collector/test_memory.h"
#include "userspace/collector/sdk_api.h"
#include "userspace/collector/sdk_values.h"

namespace rocattach::collector {
namespace {

// What the SDK's functions, which have no data of their own, work on.
struct FakeSdk {
  std::map<uint64_t, std::vector<uint64_t>> configs;  // by handle
  uint64_t next = 1;
  size_t created = 0;
  size_t limit = 8;  // counters of one config
  rocattach_sdk_status refuse = ROCATTACH_SDK_STATUS_SUCCESS;
};
FakeSdk* g_fake = nullptr;

constexpr size_t kCounters = 900;
const char* CounterName(uint64_t id) {
  static auto* names = new std::map<uint64_t, std::string>;
  return (*names)[id].empty() ? ((*names)[id] = "C" + std::to_string(id)).c_str()
                              : (*names)[id].c_str();
}

rocattach_sdk_status QueryAgents(int32_t, rocattach_sdk_agents_cb callback,
                                 size_t bytes, void* data) {
  EXPECT_EQ(bytes, ROCATTACH_SDK_AGENT_BASE_BYTES);
  rocattach_sdk_agent agents[3] = {};
  const void* pointers[3];
  for (uint32_t i = 0; i < 3; ++i) {
    agents[i].size = ROCATTACH_SDK_AGENT_BASE_BYTES;
    agents[i].id = {100 + i};
    agents[i].type = i == 0 ? ROCATTACH_SDK_AGENT_CPU : ROCATTACH_SDK_AGENT_GPU;
    agents[i].name = i == 2 ? "gfx942" : "gfx90a";
    agents[i].product_name = "A product";
    agents[i].location_id = i << 8;
    agents[i].node_id = 100000 + i;
    pointers[i] = &agents[i];
  }
  return callback(ROCATTACH_SDK_AGENT_INFO_VERSION_0, pointers, 3, data);
}

rocattach_sdk_status IterateCounters(rocattach_sdk_agent_id agent,
                                     rocattach_sdk_counters_cb callback, void* data) {
  std::vector<rocattach_sdk_counter_id> ids;
  for (uint64_t i = 1; i <= kCounters; ++i) ids.push_back({i});
  return callback(agent, ids.data(), ids.size(), data);
}

rocattach_sdk_status QueryCounter(rocattach_sdk_counter_id id, int32_t, void* info) {
  auto* v0 = static_cast<rocattach_sdk_counter_info_v0*>(info);
  v0->id = id;
  v0->name = CounterName(id.handle);
  return ROCATTACH_SDK_STATUS_SUCCESS;
}

rocattach_sdk_status CreateConfig(rocattach_sdk_agent_id, rocattach_sdk_counter_id* ids,
                                  size_t count,
                                  rocattach_sdk_counter_config_id* config) {
  if (g_fake->refuse != ROCATTACH_SDK_STATUS_SUCCESS) return g_fake->refuse;
  if (count > g_fake->limit) return ROCATTACH_SDK_STATUS_ERROR_EXCEEDS_HW_LIMIT;
  config->handle = g_fake->next++;
  ++g_fake->created;
  for (size_t i = 0; i < count; ++i) {
    g_fake->configs[config->handle].push_back(ids[i].handle);
  }
  return ROCATTACH_SDK_STATUS_SUCCESS;
}

rocattach_sdk_status DestroyConfig(rocattach_sdk_counter_config_id config) {
  EXPECT_EQ(g_fake->configs.erase(config.handle), 1u);
  return ROCATTACH_SDK_STATUS_SUCCESS;
}

// Instances are counter * 1000 + position.
rocattach_sdk_status CounterOf(rocattach_sdk_instance_id id,
                               rocattach_sdk_counter_id* counter) {
  counter->handle = id / 1000;
  return ROCATTACH_SDK_STATUS_SUCCESS;
}

class SdkConfigsTest : public testing::Test {
 protected:
  void SetUp() override {
    g_fake = &fake_;
    auto config = SmallConfig();
    ASSERT_EQ(memory_.Create(config), 0);
    dictionary_.Init(&memory_);
    sdk_.query_available_agents = QueryAgents;
    sdk_.iterate_agent_supported_counters = IterateCounters;
    sdk_.query_counter_info = QueryCounter;
    sdk_.create_counter_config = CreateConfig;
    sdk_.destroy_counter_config = DestroyConfig;
    sdk_.query_record_counter_id = CounterOf;
    ASSERT_EQ(agents_.Load(&sdk_, &dictionary_), ROCATTACH_SDK_STATUS_SUCCESS);
    configs_.Init(&sdk_, &agents_);
  }
  void TearDown() override { memory_.Discard(); }

  // A plan that counts `passes` on gfx90a.
  PlanState* Plan(uint64_t generation,
                  const std::vector<std::vector<uint64_t>>& passes) {
    state_ = PlanState();
    state_.generation = generation;
    rocattach_plan& plan = state_.plan;
    plan.record_kinds = ROCATTACH_PLAN_RECORD_COUNTERS;
    plan.architectures = 1;
    strcpy(plan.architecture[0].name, "gfx90a");
    plan.architecture[0].dispatch_passes = static_cast<uint16_t>(passes.size());
    for (const auto& pass : passes) {
      rocattach_plan_pass& out = plan.pass[plan.passes++];
      out.first_counter = static_cast<uint16_t>(plan.pass_counters_used);
      for (uint64_t id : pass) {
        snprintf(plan.counter_name[plan.counters], ROCATTACH_PLAN_NAME_BYTES, "C%d",
                 static_cast<int>(id));
        plan.pass_counters[plan.pass_counters_used++] =
            static_cast<uint16_t>(plan.counters++);
        ++out.counters;
      }
    }
    return &state_;
  }

  FakeSdk fake_;
  Memory memory_;
  Dictionary dictionary_;
  rocattach_sdk_functions sdk_ = {};
  SdkAgents agents_;
  SdkConfigs configs_;
  PlanState state_;
};

TEST_F(SdkConfigsTest, AgentsBecomeDictionaryEntries) {
  ASSERT_EQ(agents_.count(), 3u);
  EXPECT_FALSE(agents_.at(0).gpu);
  EXPECT_STREQ(agents_.at(2).name, "gfx942");
  EXPECT_EQ(agents_.Find({102}), 2u);
  EXPECT_EQ(agents_.Find({7}), SdkAgents::kNone);
  const auto* entry = reinterpret_cast<const rocattach_agent_entry*>(
      memory_.base() + memory_.layout().dictionary_offset);
  EXPECT_EQ(entry->entry.kind, ROCATTACH_ENTRY_AGENT);
  EXPECT_EQ(entry->type, 1u);
  const std::string text(reinterpret_cast<const char*>(entry + 1),
                         entry->entry.text_bytes);
  EXPECT_EQ(text, std::string("gfx90a\0A product", 16));
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

TEST_F(SdkConfigsTest, ForgetsWhatNobodyUsesAndNeverWhatThePlanNeeds) {
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
  EXPECT_EQ(configs_.Build(*Plan(2, {{1, 999}}), &result), nullptr);
  EXPECT_EQ(result.error, ROCATTACH_PLAN_ERROR_NO_COUNTER);
  EXPECT_NE(strstr(result.text, "C999"), nullptr) << result.text;
  // So many names that they do not fit.
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

TEST_F(SdkConfigsTest, InstancesBecomeOneValue) {
  PlanResult result;
  const SdkPassTable* table = configs_.Build(*Plan(2, {{5, 6, 7}}), &result);
  ASSERT_NE(table, nullptr);
  const SdkConfig& config = configs_.at(table->config[1][0]);
  CounterReducer reducer(&sdk_, config);
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
  // C6 never came: it is left out, and not zero.
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
