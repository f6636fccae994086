// A small SDK with two GPUs and 900 counters, for tests of the collector's parts.
#ifndef ROCATTACH_TESTS_UNIT_COLLECTOR_SDK_FAKE_SDK_H_
#define ROCATTACH_TESTS_UNIT_COLLECTOR_SDK_FAKE_SDK_H_

#include <gtest/gtest.h>
#include <stdio.h>
#include <string.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/unit/collector/test_memory.h"
#include "userspace/collector/sdk/configs.h"

namespace rocattach::collector {

// State of the fake SDK, whose functions have no argument for it.
struct FakeSdk {
  std::set<uint64_t> without_counters;                // agents
  std::map<uint64_t, std::vector<uint64_t>> configs;  // by handle
  uint64_t next = 1;
  size_t created = 0;
  size_t limit = 8;  // counters of one config
  rocattach_sdk_status refuse = ROCATTACH_SDK_STATUS_SUCCESS;
  uint64_t instances_asked = 0;  // queries for an instance's counter
};
inline FakeSdk* g_fake = nullptr;

inline constexpr size_t kCounters = 900;
inline const char* CounterName(uint64_t id) {
  static auto* names = new std::map<uint64_t, std::string>;
  return (*names)[id].empty() ? ((*names)[id] = "C" + std::to_string(id)).c_str()
                              : (*names)[id].c_str();
}

inline rocattach_sdk_status QueryAgents(int32_t, rocattach_sdk_agents_cb callback,
                                        size_t bytes, void* data) {
  EXPECT_EQ(bytes, ROCATTACH_SDK_AGENT_BASE_BYTES);
  rocattach_sdk_agent agents[3] = {};
  const void* pointers[3];
  for (uint32_t i = 0; i < 3; ++i) {
    agents[i].size = ROCATTACH_SDK_AGENT_BASE_BYTES;
    agents[i].id = {100 + i};
    agents[i].type = i == 0 ? ROCATTACH_SDK_AGENT_CPU : ROCATTACH_SDK_AGENT_GPU;
    // Empty, as for a GPU whose render node cannot be opened.
    agents[i].name = i == 2 ? "" : "gfx90a";
    agents[i].gfx_target_version = i == 2 ? 90402 : 90010;
    agents[i].product_name = "A product";
    agents[i].location_id = i << 8;
    agents[i].node_id = 100000 + i;
    agents[i].num_xcc = i == 2 ? 6 : 1;
    if (i == 2) {
      agents[i].family_id = 141;
      agents[i].workgroup_max_size = 1024;
      agents[i].grid_max_size = UINT32_MAX;
      agents[i].workgroup_max_dim = {1024, 512, 256};
      agents[i].grid_max_dim = {9, 8, 7};
    }
    pointers[i] = &agents[i];
  }
  return callback(ROCATTACH_SDK_AGENT_INFO_VERSION_0, pointers, 3, data);
}

inline rocattach_sdk_status IterateCounters(rocattach_sdk_agent_id agent,
                                            rocattach_sdk_counters_cb callback,
                                            void* data) {
  if (g_fake->without_counters.count(agent.handle) != 0) {
    return callback(agent, nullptr, 0, data);
  }
  std::vector<rocattach_sdk_counter_id> ids;
  for (uint64_t i = 1; i <= kCounters; ++i) ids.push_back({i});
  return callback(agent, ids.data(), ids.size(), data);
}

inline rocattach_sdk_status QueryCounter(rocattach_sdk_counter_id id, int32_t,
                                         void* info) {
  auto* v0 = static_cast<rocattach_sdk_counter_info_v0*>(info);
  v0->id = id;
  v0->name = CounterName(id.handle);
  return ROCATTACH_SDK_STATUS_SUCCESS;
}

inline rocattach_sdk_status CreateConfig(rocattach_sdk_agent_id,
                                         rocattach_sdk_counter_id* ids, size_t count,
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

inline rocattach_sdk_status DestroyConfig(rocattach_sdk_counter_config_id config) {
  EXPECT_EQ(g_fake->configs.erase(config.handle), 1u);
  return ROCATTACH_SDK_STATUS_SUCCESS;
}

// The ID of an instance is counter * 1000 + position.
inline rocattach_sdk_status CounterOf(rocattach_sdk_instance_id id,
                                      rocattach_sdk_counter_id* counter) {
  ++g_fake->instances_asked;
  counter->handle = id / 1000;
  return ROCATTACH_SDK_STATUS_SUCCESS;
}

// The parts that a counted dispatch passes through, with memory of their own.
class SdkFixture : public testing::Test {
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
    plans_.Init(&memory_);
    configs_.Init(&sdk_, &agents_, &plans_);
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
  PlanSet plans_;
  SdkConfigs configs_;
  PlanState state_;
};

}  // namespace rocattach::collector

#endif  // ROCATTACH_TESTS_UNIT_COLLECTOR_SDK_FAKE_SDK_H_
