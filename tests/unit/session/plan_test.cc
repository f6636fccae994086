// Plans, as the service compiles them and as a collector evaluates them.
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/unit/session/fake_backend.h"
#include "userspace/abi/plan.h"
#include "userspace/base/session_status.h"
#include "userspace/session/compiled_plan.h"
#include "userspace/session/counter_totals.h"
#include "userspace/session/number_ranges.h"

namespace rocattach {
namespace {

class PlanTest : public ::testing::Test {
 protected:
  std::shared_ptr<const CompiledPlan> Compile(const std::vector<FilterSpec>& filters) {
    auto plan = CompilePlan(static_cast<SessionId>(5), filters, target_, catalog_);
    EXPECT_TRUE(plan.ok()) << plan.status();
    return plan.ok() ? *plan : nullptr;
  }

  TargetDescription target_ = {{MakeGpu(2, "GPU-a"), MakeGpu(3, "GPU-b", "gfx942")},
                               kEverything,
                               "",
                               MakeFunctions()};
  std::shared_ptr<const CounterCatalog> catalog_ =
      std::make_shared<CounterCatalog>(*CounterCatalog::Builtin());
};

// The target never rejects a dispatch that is wanted, and its answers are right where
// it is sure.
TEST_F(PlanTest, TargetAndServiceAgree) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    FilterSpec spec;
    Selection& selection = spec.selection;
    if (random() % 2) selection.gpus = {"gfx90a"};
    const size_t ranges = random() % 3 == 0 ? 60 : random() % 4;
    for (size_t i = 0; i < ranges; ++i) {
      const uint64_t first = 1 + random() % 400;
      selection.dispatches.push_back({first, first + random() % 5});
    }
    if (random() % 2) selection.iterations = {{2, 5}, {9, 9}};
    if (random() % 2) selection.kernel_include = {"[13579]$"};
    auto plan = Compile({spec});
    ASSERT_NE(plan, nullptr);
    rocattach_plan_selection coarse = plan->image->selections[0];
    const ExactSelection& exact = plan->selections[0];
    Demangler demangler;
    // The service knows the names of kernels 1 to 19.
    if (exact.kernels.restricts()) {
      for (uint32_t kernel = 1; kernel < 20; ++kernel) {
        if (exact.kernels.Matches("kernel" + std::to_string(kernel), &demangler)) {
          coarse.kernels[0] |= uint64_t{1} << kernel;
        }
      }
      coarse.kernels_decided = 20;
    }
    for (int i = 0; i < 300; ++i) {
      const uint32_t kernel = random() % 25, agent = random() % 5;
      const uint64_t dispatch = 1 + random() % 420, iteration = 1 + random() % 12;
      const bool wanted =
          exact.kernels.Matches("kernel" + std::to_string(kernel), &demangler) &&
          exact.SelectsBut(agent, dispatch, iteration);
      switch (rocattach_plan_selects(&coarse, kernel, agent, dispatch, iteration)) {
        case ROCATTACH_SELECTED_NO:
          // Agent 0 and kernel 0 mean "not known", but only to the target.
          EXPECT_FALSE(wanted);
          break;
        case ROCATTACH_SELECTED_YES:
          EXPECT_TRUE(wanted) << kernel << " " << agent << " " << dispatch;
          break;
        case ROCATTACH_SELECTED_UNDECIDED:
          EXPECT_TRUE(kernel == 0 || kernel >= 20 || agent == 0 || ranges > 32);
          break;
      }
    }
  }
}

TEST_F(PlanTest, HostileSelectionsStayInside) {
  std::mt19937_64 random(1);
  auto selection = std::make_unique<rocattach_plan_selection>();
  int seen[3] = {};
  for (int round = 0; round < 2000; ++round) {
    uint64_t* words = reinterpret_cast<uint64_t*>(selection.get());
    for (size_t i = 0; i < sizeof(*selection) / 8; i += 1 + random() % 64) {
      words[i] = random();
    }
    const int selected =
        rocattach_plan_selects(selection.get(), static_cast<uint32_t>(random()),
                               static_cast<uint32_t>(random()), random(), random());
    ASSERT_TRUE(selected >= 0 && selected <= 2) << selected;
    ++seen[selected];
  }
  EXPECT_GT(seen[0], 0) << "random words choose nothing at times";
  EXPECT_GT(seen[1] + seen[2], 0) << "and something at others";
}

TEST_F(PlanTest, IterationsCountEachDispatchOnceWhateverTheThreads) {
  uint64_t cell = 0;
  constexpr int kThreads = 4, kEach = 20000;
  std::vector<std::vector<char>> seen(kThreads,
                                      std::vector<char>(kThreads * kEach + 1));
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        const uint64_t iteration = rocattach_plan_next_iteration(&cell, 4);
        if (iteration < seen[t].size()) seen[t][iteration] = 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 1; i <= kThreads * kEach; ++i) {
    int times = 0;
    for (const auto& list : seen) times += list[i];
    ASSERT_EQ(times, 1) << i;
  }
  // Another session starts at 1 without anything being reset.
  EXPECT_EQ(rocattach_plan_next_iteration(&cell, 6), 1u);
  EXPECT_EQ(rocattach_plan_next_iteration(&cell, 6), 2u);
}

TEST_F(PlanTest, PassesAreMultiplexed) {
  rocattach_plan plan = {};
  plan.rotation = ROCATTACH_ROTATE_ITERATIONS;
  plan.rotation_interval = 2;
  std::vector<uint32_t> due;
  for (uint64_t i = 1; i <= 8; ++i) {
    due.push_back(rocattach_plan_due_pass(&plan, 3, i, 0));
  }
  EXPECT_EQ(due, (std::vector<uint32_t>{0, 0, 1, 1, 2, 2, 0, 0}));
  plan.rotation = ROCATTACH_ROTATE_TIME;
  plan.rotation_interval = 100;
  plan.start_ns = 1000;
  EXPECT_EQ(rocattach_plan_due_pass(&plan, 3, 9, 1099), 0u);
  EXPECT_EQ(rocattach_plan_due_pass(&plan, 3, 9, 1100), 1u);
  EXPECT_EQ(rocattach_plan_due_pass(&plan, 3, 9, 1399), 0u);
  EXPECT_EQ(rocattach_plan_due_pass(&plan, 3, 9, 10), 0u);
  plan.rotation_interval = 0;  // overwritten: no division by zero
  EXPECT_LT(rocattach_plan_due_pass(&plan, 3, 9, 5000), 3u);
  EXPECT_EQ(rocattach_plan_due_pass(&plan, 0, 9, 5000), 0u);
  plan.rotation = 77;
  EXPECT_EQ(rocattach_plan_due_pass(&plan, 3, 9, 5000), 0u);
}

TEST_F(PlanTest, ApiFunctionsAreChosenByName) {
  FilterSpec spec;
  spec.kind = FilterKind::kApiTrace;
  spec.api_domains = {TraceDomain::kHsaApi, TraceDomain::kMarkers,
                      TraceDomain::kMemoryCopies};
  spec.selection.hsa_functions = {"hsa_queue_create"};
  auto plan = Compile({spec});
  ASSERT_NE(plan, nullptr);
  const rocattach_plan* image = plan->image.get();
  EXPECT_TRUE(rocattach_plan_traces(image, ROCATTACH_PLAN_API_HSA, 17));
  EXPECT_FALSE(rocattach_plan_traces(image, ROCATTACH_PLAN_API_HSA, 0));
  EXPECT_FALSE(rocattach_plan_traces(image, ROCATTACH_PLAN_API_HSA, 5000));
  EXPECT_TRUE(rocattach_plan_traces(image, ROCATTACH_PLAN_API_MARKER, 5000));
  EXPECT_FALSE(rocattach_plan_traces(image, ROCATTACH_PLAN_API_HIP, 70));
  EXPECT_FALSE(rocattach_plan_traces(image, 9, 0));
  EXPECT_TRUE(image->record_kinds & ROCATTACH_PLAN_RECORD_COPIES);
}

TEST_F(PlanTest, ApiFunctionsHaveTheNumbersOfTheProcess) {
  FilterSpec spec;
  spec.kind = FilterKind::kApiTrace;
  spec.api_domains = {TraceDomain::kHsaApi};
  spec.selection.hsa_functions = {"hsa_queue_create"};
  const auto here = Compile({spec});
  // The same function has another number in another version of the SDK.
  target_.functions = {{ROCATTACH_PLAN_API_HIP, 17, "hsa_queue_create"},
                       {ROCATTACH_PLAN_API_HSA, 17, "hsa_queue_destroy"},
                       {ROCATTACH_PLAN_API_HSA, 19, "hsa_queue_create"}};
  const auto there = Compile({spec});
  ASSERT_TRUE(here != nullptr && there != nullptr);
  EXPECT_TRUE(rocattach_plan_traces(here->image.get(), ROCATTACH_PLAN_API_HSA, 17));
  EXPECT_FALSE(rocattach_plan_traces(here->image.get(), ROCATTACH_PLAN_API_HSA, 19));
  EXPECT_FALSE(rocattach_plan_traces(there->image.get(), ROCATTACH_PLAN_API_HSA, 17));
  EXPECT_TRUE(rocattach_plan_traces(there->image.get(), ROCATTACH_PLAN_API_HSA, 19));
  target_.functions = {{ROCATTACH_PLAN_API_HSA, 17, "hsa_queue_destroy"}};
  const auto older = CompilePlan(static_cast<SessionId>(5), {spec}, target_, catalog_);
  EXPECT_EQ(SessionStatusOf(older.status()), SessionStatus::kInvalidOperationId);
}

TEST_F(PlanTest, UnsupportedOptionalDomainsAreLeftOut) {
  FilterSpec spec;
  spec.kind = FilterKind::kApiTrace;
  spec.api_domains = {TraceDomain::kHsaApi, TraceDomain::kMemoryAllocations,
                      TraceDomain::kScratchMemory, TraceDomain::kRcclApi};
  spec.arguments = true;
  target_.record_kinds = ROCATTACH_PLAN_RECORD_API | ROCATTACH_PLAN_RECORD_MEMORY;
  target_.functions = {{ROCATTACH_PLAN_API_HSA, 1, "hsa_init"}};
  EXPECT_EQ(
      SessionStatusOf(CompilePlan(SessionId{5}, {spec}, target_, catalog_).status()),
      SessionStatus::kFilterNotSupported)
      << "scratch memory was asked for";
  spec.optional_domains = {TraceDomain::kScratchMemory, TraceDomain::kRcclApi};
  const auto some = Compile({spec});
  ASSERT_NE(some, nullptr);
  EXPECT_EQ(some->image->record_kinds,
            ROCATTACH_PLAN_RECORD_API | ROCATTACH_PLAN_RECORD_MEMORY);
  EXPECT_EQ(some->left_out.size(), 2u) << "scratch memory, and arguments";
  target_.record_kinds = ROCATTACH_PLAN_RECORD_MEMORY;
  target_.missing_reason = "it came late";
  spec.optional_domains.push_back(TraceDomain::kHsaApi);
  const auto without_calls = Compile({spec});
  ASSERT_NE(without_calls, nullptr);
  EXPECT_EQ(without_calls->image->record_kinds, ROCATTACH_PLAN_RECORD_MEMORY);
  ASSERT_FALSE(without_calls->left_out.empty());
  EXPECT_EQ(without_calls->left_out[0].what, "calls of the HSA API");
  EXPECT_EQ(without_calls->left_out[0].why, "it came late");
  EXPECT_FALSE(rocattach_plan_traces(some->image.get(), ROCATTACH_PLAN_API_RCCL, 0));
  target_.record_kinds = UINT32_MAX;
  target_.functions.push_back({ROCATTACH_PLAN_API_RCCL, 0, "ncclAllReduce"});
  spec.optional_domains.clear();
  const auto all = Compile({spec});
  ASSERT_NE(all, nullptr);
  EXPECT_EQ(all->image->record_kinds,
            ROCATTACH_PLAN_RECORD_API | ROCATTACH_PLAN_RECORD_MEMORY |
                ROCATTACH_PLAN_RECORD_SCRATCH | ROCATTACH_PLAN_RECORD_ARGUMENTS);
  EXPECT_TRUE(rocattach_plan_traces(all->image.get(), ROCATTACH_PLAN_API_RCCL, 0));
  EXPECT_TRUE(all->left_out.empty());
}

TEST(SessionBackendTest, FunctionsAreUnknownOnlyIfATargetCanTell) {
  FakeBackend backend;
  auto known = [&](const char* name) {
    return backend.MayHaveApiFunction(TraceDomain::kHsaApi, name);
  };
  EXPECT_TRUE(known("hsa_nonsense")) << "nobody is there who could say";
  const ProcessId target = backend.AddProcess(1, {});
  EXPECT_FALSE(known("hsa_nonsense"));
  EXPECT_FALSE(known("hipMalloc")) << "it is of another domain";
  EXPECT_TRUE(known("hsa_init"));
  backend.process(target).description.functions.clear();
  EXPECT_TRUE(known("hsa_nonsense")) << "it has said nothing yet";
}

TEST_F(PlanTest, GpusHaveManyNames) {
  target_.gpus.clear();
  for (uint32_t i = 0; i < 8; ++i) {
    TargetGpu gpu = MakeGpu(2 + i, absl::StrCat("GPU-0123456789abcde", i));
    gpu.uuid = gpu.key;
    gpu.pci = absl::StrCat("0000:c", i, ":00.0");
    target_.gpus.push_back(gpu);
  }
  auto chosen = [&](std::vector<std::string> names) {
    FilterSpec spec;
    spec.kind = FilterKind::kCounters;
    spec.counters = {{"SQ_WAVES"}};
    spec.selection.gpus = std::move(names);
    const auto plan = CompilePlan(static_cast<SessionId>(5), {spec}, target_, catalog_);
    return plan.ok() ? (*plan)->selections[ROCATTACH_PLAN_SELECTION_COUNTERS].agents
                     : std::vector<uint32_t>();
  };
  using Agents = std::vector<uint32_t>;
  EXPECT_EQ(chosen({"5"}), Agents{7});
  EXPECT_EQ(chosen({"gpu-0123456789ABCDE3"}), Agents{5});
  EXPECT_EQ(chosen({"0000:C7:00.0"}), Agents{9});
  EXPECT_EQ(chosen({"7", "0000:c0:00.0"}), (Agents{2, 9}));
  EXPECT_EQ(chosen({"gfx90a"}).size(), 8u);
  EXPECT_EQ(chosen({"MI210"}).size(), 8u);
  for (const char* none : {"8", "-1", "gfx90", "0000:d0:00.0", "GPU-01234567"}) {
    EXPECT_TRUE(chosen({none}).empty()) << none;
  }
}

TEST_F(PlanTest, EachArchitectureHasItsOwnPasses) {
  FilterSpec spec;
  spec.kind = FilterKind::kCounters;
  spec.counters = {{"FETCH_SIZE", "SQ_WAVES"}};
  auto plan = Compile({spec});
  ASSERT_NE(plan, nullptr);
  ASSERT_EQ(plan->architectures.size(), 2u);
  EXPECT_EQ(plan->Architecture(2)->counters->name(), "gfx90a");
  EXPECT_EQ(plan->Architecture(3)->counters->name(), "gfx942");
  EXPECT_EQ(plan->Architecture(9), nullptr);
  EXPECT_EQ(plan->counter_gpus, (std::vector<std::string>{"GPU-a", "GPU-b"}));
  auto names = [&](const rocattach_plan_architecture& architecture) {
    std::vector<std::string> list;
    const rocattach_plan& image = *plan->image;
    for (uint32_t p = 0; p < architecture.dispatch_passes; ++p) {
      const rocattach_plan_pass& pass =
          image.pass[architecture.dispatch_first_pass + p];
      for (uint32_t i = 0; i < pass.counters; ++i) {
        list.push_back(image.counter_name[image.pass_counters[pass.first_counter + i]]);
      }
    }
    return list;
  };
  const auto old = names(plan->image->architecture[0]);
  const auto recent = names(plan->image->architecture[1]);
  EXPECT_EQ(std::count(old.begin(), old.end(), "TCC_EA_RDREQ"), 1);
  EXPECT_EQ(std::count(recent.begin(), recent.end(), "TCC_EA0_RDREQ"), 1);
  EXPECT_EQ(std::count(old.begin(), old.end(), "TCC_EA0_RDREQ"), 0);
}

TEST_F(PlanTest, EveryCounterOfAGpuFitsThePlan) {
  FilterSpec spec;
  spec.kind = FilterKind::kCounters;
  spec.counters.emplace_back();
  for (const HardwareCounter& counter : catalog_->Find("gfx90a")->counters()) {
    if (!counter.follows) spec.counters[0].push_back(counter.name);
  }
  target_.gpus.resize(1);
  auto plan = Compile({spec});
  ASSERT_NE(plan, nullptr);
  EXPECT_EQ(plan->image->counters, spec.counters[0].size());
}

TEST_F(PlanTest, TotalsCountTheDispatchesOfEachValue) {
  FilterSpec spec;
  spec.kind = FilterKind::kCounters;
  spec.counters = {{"GRBM_COUNT", "GRBM_GUI_ACTIVE", "GRBM_CP_BUSY", "GPUBusy"}};
  target_.gpus.resize(1);
  auto plan = Compile({spec});
  ASSERT_NE(plan, nullptr);
  const PlanArchitecture& architecture = plan->architectures[0];
  ASSERT_EQ(architecture.dispatch.passes.size(), 2u);
  CounterTotals totals(*plan, architecture, plan->target.gpus[0]);
  const std::map<std::string, double> truth = {
      {"GRBM_COUNT", 100}, {"GRBM_GUI_ACTIVE", 25}, {"GRBM_CP_BUSY", 7}};
  auto dispatch = [&](uint32_t kernel, uint32_t pass) {
    std::vector<rocattach_counter_value> readings;
    for (const std::string& name : architecture.dispatch.passes[pass].counters) {
      const auto& names = plan->counter_names;
      const auto index = std::find(names.begin(), names.end(), name) - names.begin();
      const double value = truth.at(name);
      readings.push_back({static_cast<uint16_t>(index), 0, 1, value, value, value});
    }
    totals.Add(kernel, pass, readings);
  };
  for (uint32_t i = 0; i < 10; ++i) dispatch(1, i % 2);
  dispatch(2, 0);
  totals.Add(2, 99, {});  // no such pass
  EXPECT_EQ(totals.Kernels(), (std::vector<uint32_t>{1, 2}));
  EXPECT_TRUE(totals.Complete(1));
  EXPECT_FALSE(totals.Complete(2));  // too few dispatches
  EXPECT_EQ(totals.Passes(1), (std::vector<uint64_t>{5, 5}));
  for (const KernelValue& value : totals.Values(1)) {
    if (value.metric) {
      EXPECT_EQ(value.mean, 25.0);
      EXPECT_FALSE(value.mixed);
      EXPECT_GE(value.dispatches, 5u);
      continue;
    }
    EXPECT_EQ(value.mean, truth.at(value.name)) << value.name;
    EXPECT_EQ(value.total,
              truth.at(value.name) * static_cast<double>(value.dispatches));
    EXPECT_GE(value.dispatches, 5u);
  }
  size_t missing = 0;
  for (const KernelValue& value : totals.Values(2)) missing += !value.mean.has_value();
  EXPECT_GT(missing, 0u);  // absent, not 0
  EXPECT_TRUE(totals.Values(3).empty());
}

}  // namespace
}  // namespace rocattach
