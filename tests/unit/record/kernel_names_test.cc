#include "userspace/record/drain/kernel_names.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace rocattach {
namespace {

bool Add(KernelNames* names, uint32_t id, const std::string& name) {
  v1::Kernel kernel;
  kernel.set_id(id);
  kernel.set_name(name);
  return names->Add(kernel);
}

// A plan whose first selection takes kernels that match `dispatches`, and whose second
// selection takes those that match `counters`.
ActivePlan PlanOf(const std::string& dispatches, const std::string& counters) {
  auto compiled = std::make_shared<CompiledPlan>();
  compiled->selections[ROCATTACH_PLAN_SELECTION_DISPATCHES].kernels =
      *KernelFilter::Create({dispatches}, {});
  compiled->selections[ROCATTACH_PLAN_SELECTION_COUNTERS].kernels =
      *KernelFilter::Create({counters}, {});
  ActivePlan plan;
  plan.plan = std::move(compiled);
  return plan;
}

TEST(KernelNames, KeepsNoMoreThanPlansCanName) {
  KernelNames names;
  EXPECT_TRUE(Add(&names, ROCATTACH_PLAN_MAX_KERNELS - 1, "last"));
  EXPECT_FALSE(Add(&names, ROCATTACH_PLAN_MAX_KERNELS, "beyond"));
  EXPECT_TRUE(names.Contains(ROCATTACH_PLAN_MAX_KERNELS - 1));
  EXPECT_FALSE(names.Contains(ROCATTACH_PLAN_MAX_KERNELS));
}

TEST(KernelNames, TheFirstMissingIsTheFirstGap) {
  KernelNames names;
  EXPECT_EQ(names.FirstMissing(1), 1u);
  EXPECT_FALSE(names.Contains(1));
  Add(&names, 1, "one");
  Add(&names, 2, "two");
  EXPECT_EQ(names.FirstMissing(1), 3u);
  Add(&names, 4, "four");
  EXPECT_EQ(names.FirstMissing(1), 3u);
  EXPECT_EQ(names.FirstMissing(4), 5u);
  Add(&names, 3, "three");
  EXPECT_EQ(names.FirstMissing(1), 5u);
  EXPECT_EQ(names.FirstMissing(9), 9u);
}

TEST(KernelNames, EachSelectionHasItsOwnAnswer) {
  KernelNames names;
  Add(&names, 1, "gemm");
  Add(&names, 2, "reduce");
  ActivePlan plan = PlanOf("gemm", "reduce");
  for (int again = 0; again < 2; ++again) {
    EXPECT_TRUE(names.Selects(&plan, ROCATTACH_PLAN_SELECTION_DISPATCHES, 1));
    EXPECT_FALSE(names.Selects(&plan, ROCATTACH_PLAN_SELECTION_DISPATCHES, 2));
    EXPECT_FALSE(names.Selects(&plan, ROCATTACH_PLAN_SELECTION_COUNTERS, 1));
    EXPECT_TRUE(names.Selects(&plan, ROCATTACH_PLAN_SELECTION_COUNTERS, 2));
  }
}

TEST(KernelNames, ANameIsMatchedInItsDemangledFormToo) {
  KernelNames names;
  Add(&names, 1, "_Z4gemmIfEvPT_");
  ActivePlan plan = PlanOf("gemm<float>", "_Z4gemm");
  EXPECT_TRUE(names.Selects(&plan, ROCATTACH_PLAN_SELECTION_DISPATCHES, 1));
  EXPECT_TRUE(names.Selects(&plan, ROCATTACH_PLAN_SELECTION_COUNTERS, 1));
}

// Matching users' expressions takes time, and there may be millions of dispatches.
TEST(KernelNames, APlanIsEvaluatedOnceForEachKernel) {
  KernelNames names;
  Add(&names, 1, "gemm");
  ActivePlan plan = PlanOf("gemm", "gemm");
  EXPECT_TRUE(names.Selects(&plan, ROCATTACH_PLAN_SELECTION_DISPATCHES, 1));
  Add(&names, 1, "reduce");
  EXPECT_TRUE(names.Selects(&plan, ROCATTACH_PLAN_SELECTION_DISPATCHES, 1));
  // Another plan has not been evaluated yet.
  ActivePlan other = PlanOf("gemm", "gemm");
  EXPECT_FALSE(names.Selects(&other, ROCATTACH_PLAN_SELECTION_DISPATCHES, 1));
}

TEST(KernelNames, AnAnswerThatIsForgottenIsAskedForAgain) {
  KernelNames names;
  Add(&names, 1, "gemm");
  Add(&names, 2, "gemm");
  RecentPlans plans;
  plans.Add(std::make_shared<ActivePlan>(PlanOf("gemm", "gemm")));
  ActivePlan* plan = plans.ByGeneration(0).get();
  EXPECT_TRUE(names.Selects(plan, ROCATTACH_PLAN_SELECTION_COUNTERS, 1));
  EXPECT_TRUE(names.Selects(plan, ROCATTACH_PLAN_SELECTION_COUNTERS, 2));
  Add(&names, 1, "reduce");
  Add(&names, 2, "reduce");
  plans.ForgetAnswers(1);
  EXPECT_FALSE(names.Selects(plan, ROCATTACH_PLAN_SELECTION_COUNTERS, 1));
  EXPECT_TRUE(names.Selects(plan, ROCATTACH_PLAN_SELECTION_COUNTERS, 2));
  // A kernel that was added after answers about others were kept.
  Add(&names, 3, "gemm");
  plans.ForgetAnswers(3);
  EXPECT_TRUE(names.Selects(plan, ROCATTACH_PLAN_SELECTION_COUNTERS, 3));
}

}  // namespace
}  // namespace rocattach
