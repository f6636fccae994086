#include "tests/integration/collector/sdk_checks.h"

#include <gtest/gtest.h>

#include <set>

namespace rocattach {
namespace {

using simrocm::CounterTotal;

void ExpectTrueValue(const rocattach_counter_value& value, const std::string& name,
                     const rocattach_dispatch& dispatch) {
  const uint64_t total = CounterTotal(name, ShapeOf(dispatch));
  ASSERT_GE(value.instances, 1u) << name;
  const uint64_t smallest = total / value.instances;
  const uint64_t largest = smallest + (total % value.instances != 0 ? 1 : 0);
  ASSERT_EQ(value.sum, static_cast<double>(total))
      << name << " of dispatch " << dispatch.dispatch_id;
  ASSERT_EQ(value.minimum, static_cast<double>(smallest)) << name;
  ASSERT_EQ(value.maximum, static_cast<double>(largest)) << name;
}

// Returns the names of the counters in an architecture's pass.
std::multiset<std::string> PassNames(const rocattach_plan& image,
                                     const std::string& arch, uint32_t pass) {
  for (uint32_t a = 0; a < image.architectures; ++a) {
    if (arch != image.architecture[a].name) continue;
    const auto& p = image.pass[image.architecture[a].dispatch_first_pass + pass];
    std::multiset<std::string> names;
    for (uint32_t i = 0; i < p.counters; ++i) {
      names.insert(image.counter_name[image.pass_counters[p.first_counter + i]]);
    }
    return names;
  }
  return {};
}

}  // namespace

void ExpectCleanRun(const SdkResult& result) {
  const CollectorResult& run = result.run;
  ASSERT_EQ(run.exit_status, 0) << run.errors << run.output;
  EXPECT_EQ(run.errors, "");
  EXPECT_NE(run.output.find("result=ok"), std::string::npos) << run.output;
  EXPECT_EQ(run.account.ring_dropped, 0u);
  EXPECT_EQ(run.account.other_dropped, 0u);
  EXPECT_EQ(run.account.dictionary_dropped, 0u);
  EXPECT_EQ(run.account.values_dropped, 0u);
  EXPECT_EQ(run.account.produced, run.account.delivered);
  EXPECT_EQ(run.account.inflight, 0u);
  EXPECT_EQ(run.account.dispatches_seen, run.dispatches.size());
  EXPECT_EQ(run.account.copies_seen, run.copies.size());
  EXPECT_EQ(run.stray_values, 0u);
  EXPECT_TRUE(run.unfinished.empty());
}

size_t ExpectTrueValues(const CollectorResult& run, const CompiledPlan& plan,
                        uint64_t generation) {
  size_t count = 0;
  std::set<uint64_t> seen;
  for (const rocattach_dispatch& dispatch : run.dispatches) {
    EXPECT_TRUE(seen.insert(dispatch.dispatch_id).second)
        << "dispatch " << dispatch.dispatch_id << " twice";
    auto found = run.values.find(dispatch.correlation_id);
    const bool counted = (dispatch.flags & ROCATTACH_DISPATCH_COUNTED) != 0;
    EXPECT_EQ(counted, found != run.values.end());
    if (!counted || found == run.values.end()) continue;
    EXPECT_LT(dispatch.start_ns, dispatch.end_ns);
    EXPECT_LE(dispatch.enqueue_ns, dispatch.start_ns);
    std::multiset<std::string> names;
    for (const rocattach_values& slot : found->second) {
      EXPECT_EQ(slot.plan_generation, generation);
      EXPECT_EQ(slot.slots, found->second.size());
      EXPECT_EQ(slot.agent_id, dispatch.agent_id);
      EXPECT_EQ(slot.pass, found->second.front().pass);
      for (uint32_t i = 0; i < slot.count && i < ROCATTACH_VALUES_PER_SLOT; ++i) {
        const std::string& name = plan.counter_names.at(slot.value[i].counter);
        names.insert(name);
        ExpectTrueValue(slot.value[i], name, dispatch);
        ++count;
      }
    }
    const TargetGpu* gpu = plan.Gpu(dispatch.agent_id);
    EXPECT_NE(gpu, nullptr);
    if (gpu == nullptr) return count;
    EXPECT_EQ(names,
              PassNames(*plan.image, gpu->architecture, found->second.front().pass));
    if (testing::Test::HasFailure()) return count;
  }
  return count;
}

size_t CountFlag(const CollectorResult& run, uint32_t flag) {
  size_t count = 0;
  for (const auto& dispatch : run.dispatches) count += (dispatch.flags & flag) != 0;
  return count;
}

}  // namespace rocattach
