#include "userspace/collector/common/plan_set.h"

#include <gtest/gtest.h>
#include <string.h>

#include <atomic>
#include <memory>
#include <thread>

#include "tests/unit/collector/test_memory.h"

namespace rocattach::collector {
namespace {

class PlanSetTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(memory_.Create(SmallConfig()), 0);
    gate_.Init(&memory_);
  }
  void TearDown() override { memory_.Discard(); }

  static std::unique_ptr<rocattach_plan> Image() {
    auto image = std::make_unique<rocattach_plan>();
    image->magic = ROCATTACH_PLAN_MAGIC;
    image->version = ROCATTACH_PLAN_VERSION;
    image->bytes = sizeof(rocattach_plan);
    image->record_kinds = ROCATTACH_PLAN_RECORD_DISPATCHES;
    image->rotation_interval = 1;
    return image;
  }
  // Writes a plan as the service does.
  void Write(const rocattach_plan& image, uint64_t generation) {
    rocattach_plan* to = memory_.plan();
    __atomic_store_n(&to->generation, generation - 1, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    memcpy(&to->session_id, &image.session_id,
           sizeof(image) - offsetof(rocattach_plan, session_id));
    memcpy(to, &image, offsetof(rocattach_plan, generation));
    __atomic_store_n(&to->generation, generation, __ATOMIC_RELEASE);
  }

  Memory memory_;
  PlanSet gate_;
};

TEST_F(PlanSetTest, APlanIsPendingUntilItIsAnswered) {
  EXPECT_FALSE(gate_.Pending());
  Write(*Image(), 2);
  EXPECT_TRUE(gate_.Pending());
  PlanResult result;
  PlanState* state = gate_.Prepare(&result);
  ASSERT_NE(state, nullptr);
  EXPECT_EQ(state->generation, 2u);
  EXPECT_EQ(gate_.active(), nullptr);
  gate_.Activate(state);
  gate_.Answer(2, result);
  EXPECT_FALSE(gate_.Pending());
  EXPECT_EQ(memory_.control()->plan_acked, 2u);
  EXPECT_EQ(memory_.control()->plan_error, 0u);
  gate_.Reconsider();
  EXPECT_TRUE(gate_.Pending());
  memory_.plan()->generation = 3;  // being written
  EXPECT_FALSE(gate_.Pending());
}

TEST_F(PlanSetTest, RefusalsAreExplainedInWords) {
  gate_.Answer(
      4, PlanResult::Error(ROCATTACH_PLAN_ERROR_HW_LIMIT, 38, "too many: %s", "A B"));
  const rocattach_control* c = memory_.control();
  EXPECT_EQ(c->plan_acked, 4u);
  EXPECT_EQ(c->plan_error, static_cast<uint32_t>(ROCATTACH_PLAN_ERROR_HW_LIMIT));
  EXPECT_EQ(c->plan_error_code, 38);
  EXPECT_STREQ(c->plan_error_text, "too many: A B");
  const std::string longer(1000, 'x');
  gate_.Answer(6, PlanResult::Error(ROCATTACH_PLAN_ERROR_SDK, 1, "%s", longer.c_str()));
  EXPECT_EQ(strlen(c->plan_error_text), sizeof(c->plan_error_text) - 1);
}

TEST_F(PlanSetTest, DecidesAndNumbers) {
  auto image = Image();
  image->record_kinds |= ROCATTACH_PLAN_RECORD_COUNTERS;
  image->selections[0].flags = ROCATTACH_SELECT_DISPATCHES;
  image->selections[0].dispatch_ranges = 1;
  image->selections[0].dispatches[0] = {2, 3};
  image->selections[1].flags = ROCATTACH_SELECT_KERNELS;
  image->selections[1].kernels_decided = 8;
  image->selections[1].kernels[0] = 1u << 5;
  Write(*image, 2);
  PlanResult result;
  const PlanState* state = gate_.Prepare(&result);
  ASSERT_NE(state, nullptr);
  const uint16_t tag = static_cast<uint16_t>(ROCATTACH_PLAN_TAG(2) << 9);
  Decision d = gate_.Decide(state, 5, 1, 1);
  EXPECT_FALSE(d.dispatch);
  EXPECT_TRUE(d.counters);
  EXPECT_EQ(d.iteration, 1u);
  EXPECT_EQ(d.flags, ROCATTACH_DISPATCH_FOR_COUNTERS | tag);
  d = gate_.Decide(state, 5, 1, 2);
  EXPECT_EQ(d.iteration, 2u);
  EXPECT_EQ(d.flags,
            ROCATTACH_DISPATCH_FOR_COUNTERS | ROCATTACH_DISPATCH_SELECTED | tag);
  d = gate_.Decide(state, 6, 1, 4);
  EXPECT_FALSE(d.dispatch || d.counters);
  EXPECT_EQ(d.iteration, 1u);
  // The service has not seen the name of this kernel yet.
  d = gate_.Decide(state, 9, 1, 4);
  EXPECT_EQ(d.flags, ROCATTACH_DISPATCH_FOR_COUNTERS |
                         ROCATTACH_DISPATCH_FOR_COUNTERS_UNDECIDED | tag);
  // Another plan is being written: nothing is selected.
  memory_.plan()->generation = 3;
  d = gate_.Decide(state, 5, 1, 2);
  EXPECT_FALSE(d.dispatch || d.counters);
  EXPECT_EQ(d.flags, 0u);
}

TEST_F(PlanSetTest, RefusesPlansThatExceedTheirTables) {
  using Change = void (*)(rocattach_plan*);
  const Change changes[] = {
      [](rocattach_plan* p) { p->magic ^= 1; },
      [](rocattach_plan* p) { p->version = ROCATTACH_PLAN_VERSION + 1; },
      [](rocattach_plan* p) { p->bytes -= 8; },
      [](rocattach_plan* p) { p->architectures = 9; },
      [](rocattach_plan* p) { p->passes = 257; },
      [](rocattach_plan* p) { p->counters = 769; },
      [](rocattach_plan* p) { p->pass_counters_used = 3073; },
      [](rocattach_plan* p) {
        p->architectures = 1;
        p->architecture[0].sampler_passes = 1;
      },
      [](rocattach_plan* p) {
        p->architectures = 1;
        memset(p->architecture[0].name, 'x', sizeof(p->architecture[0].name));
      },
      [](rocattach_plan* p) { memset(p->late_sdk, '/', sizeof(p->late_sdk)); },
      [](rocattach_plan* p) { p->passes = 1; },
      [](rocattach_plan* p) {
        p->passes = 1;
        p->pass[0] = {65535, 65535};
      },
      [](rocattach_plan* p) { p->pass_counters_used = 1; },
      [](rocattach_plan* p) {
        p->counters = 1;
        memset(p->counter_name[0], 'x', ROCATTACH_PLAN_NAME_BYTES);
      },
      [](rocattach_plan* p) {
        p->counters = p->passes = 1;
        p->pass_counters_used = p->pass[0].counters = 129;
      },
  };
  uint64_t generation = 2;
  for (Change change : changes) {
    auto image = Image();
    change(image.get());
    Write(*image, generation);
    PlanResult result;
    EXPECT_EQ(gate_.Prepare(&result), nullptr) << "change " << generation / 2;
    EXPECT_EQ(result.error, ROCATTACH_PLAN_ERROR_MALFORMED);
    generation += 2;
  }
}

// The geometry in the control block is for the service. The collector uses what it has
// laid out itself, whatever is written over the control block.
TEST_F(PlanSetTest, AnOverwrittenControlBlockMovesNothing) {
  Write(*Image(), 2);
  rocattach_control* c = memory_.control();
  const rocattach_control before = *c;
  c->plan_offset = c->dictionary_offset = c->rings_offset = ~uint64_t{0} - 64;
  c->plan_bytes = ~uint32_t{0};
  c->total_bytes = 1;
  c->ring_count = c->ring_slots = c->inflight_count = ~uint32_t{0};
  PlanResult result;
  const PlanState* state = gate_.Prepare(&result);
  ASSERT_NE(state, nullptr) << result.text;
  EXPECT_EQ(state->generation, 2u);
  gate_.Activate(state);
  gate_.Answer(2, result);
  EXPECT_EQ(c->plan_acked, 2u);
  EXPECT_EQ(reinterpret_cast<uint8_t*>(memory_.plan()) - memory_.base(),
            static_cast<ptrdiff_t>(before.plan_offset));
}

TEST_F(PlanSetTest, FindsArchitecturesByName) {
  auto image = Image();
  image->architectures = 2;
  strcpy(image->architecture[0].name, "gfx90");
  strcpy(image->architecture[1].name, "gfx90a");
  EXPECT_EQ(FindArchitecture(*image, "gfx90a:sramecc+:xnack-"),
            &image->architecture[1]);
  EXPECT_EQ(FindArchitecture(*image, "gfx90a"), &image->architecture[1]);
  EXPECT_EQ(FindArchitecture(*image, "gfx9"), nullptr);
}

// Threads decide while plans change: each decision is made by one plan.
TEST_F(PlanSetTest, NoDecisionMixesPlans) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "what a generation guards is read while it may be written";
#endif
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> wrong{0}, decided{0};
  auto decide = [&] {
    while (!stop) {
      const PlanState* state = gate_.active();
      if (state == nullptr) continue;
      Decision d = gate_.Decide(state, 1, 1, 1);
      if (!d.dispatch && !d.counters) continue;
      ++decided;
      // Even plans want dispatches, odd ones counters.
      const bool odd = ROCATTACH_DISPATCH_PLAN_TAG(d.flags) % 2 == 1;
      wrong += odd ? d.dispatch : d.counters;
    }
  };
  std::thread threads[2] = {std::thread(decide), std::thread(decide)};
  // The threads may be late; a minute without enough decisions is a hang.
  const uint64_t end_ns = BootNs() + 60'000'000'000;
  for (uint64_t generation = 2;
       generation < 4000 || (decided < 100 && BootNs() < end_ns); generation += 2) {
    auto image = Image();
    image->record_kinds = generation / 2 % 2 == 1 ? ROCATTACH_PLAN_RECORD_COUNTERS
                                                  : ROCATTACH_PLAN_RECORD_DISPATCHES;
    Write(*image, generation);
    gate_.Activate(nullptr);
    PlanResult result;
    PlanState* state = gate_.Prepare(&result);
    ASSERT_NE(state, nullptr) << result.text;
    gate_.Activate(state);
    gate_.Answer(generation, result);
  }
  stop = true;
  for (auto& thread : threads) thread.join();
  EXPECT_GE(decided, 100u) << "decisions by a plan";
  EXPECT_EQ(wrong, 0u);
}

}  // namespace
}  // namespace rocattach::collector
