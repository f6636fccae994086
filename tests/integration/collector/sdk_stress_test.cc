// Counting is started and stopped repeatedly on queues that are never empty, with an
// SDK that blocks the program if that happens at the wrong moment.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/integration/collector/sdk_checks.h"
#include "tests/integration/collector/sdk_run.h"
#include "tests/integration/simrocm/simrocm_session.h"
#include "tests/temporary_directory.h"
#include "userspace/base/clock.h"

namespace rocattach {
namespace {

constexpr int kThreads = 16;

// Number of sessions, from ROCATTACH_SESSION_CYCLES; 10,000 take 50 minutes.
int Cycles() {
  const char* text = getenv("ROCATTACH_SESSION_CYCLES");
  return text != nullptr ? std::max(1, atoi(text)) : 150;
}

void CreateFile(const std::string& path) {
  close(open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
}

struct Times {
  std::vector<double> usec;
  void Add(double value) { usec.push_back(value); }
  std::string Text() {
    if (usec.empty()) return "none";
    std::sort(usec.begin(), usec.end());
    return absl::StrCat("median ", usec[usec.size() / 2], ", p99 ",
                        usec[usec.size() * 99 / 100], ", max ", usec.back());
  }
};

// Starts a session, waits for its first counted dispatch, and stops it; repeats that
// with different counters each time.
class Cycle {
 public:
  explicit Cycle(int count) : count_(count) {}

  // Called repeatedly while the target runs. True once all cycles are done.
  bool Step(SdkTarget& target) {
    PlanAnswer answer;
    switch (state_) {
      case State::kStart: {
        std::vector<std::string> some;
        for (int i = 0; i < 1 + done_ % 7; ++i) {
          some.push_back(names_[static_cast<size_t>(done_ * 5 + i * 7) % 60]);
        }
        asked_ns_ = BootNs();
        generation_ = target.Write({CountersFilter(some)});
        plans_[generation_] = target.plan;
        // Counted dispatches are delivered during their session or soon after it.
        if (plans_.size() > 100) plans_.erase(plans_.begin());
        state_ = State::kStarting;
        return false;
      }
      case State::kStarting:
        if (!target.Answered(generation_, &answer)) return false;
        EXPECT_EQ(answer.error, 0u) << answer.text;
        AddHold(answer.text);
        state_ = State::kRunning;
        return false;
      case State::kRunning:
        if (!AddFirst(target.result)) return false;
        generation_ = target.WriteEmpty();
        state_ = State::kStopping;
        return false;
      case State::kStopping:
        if (!target.Answered(generation_, &answer)) return false;
        EXPECT_EQ(answer.error, 0u) << answer.text;
        Check(target.result);
        state_ = ++done_ < count_ ? State::kStart : State::kDone;
        return false;
      case State::kDone:
        return true;
    }
    return true;
  }
  int done() const { return done_; }
  int without_hold() const { return without_hold_; }

  // Checks the results so far: values are true and belong to a session that ran. Takes
  // them out of `so_far`, or ten thousand sessions would not fit into memory.
  void Check(CollectorResult& so_far) {
    std::map<uint64_t, CollectorResult> parts;
    for (const rocattach_dispatch& dispatch : so_far.dispatches) {
      const auto values = so_far.values.find(dispatch.correlation_id);
      EXPECT_EQ(values != so_far.values.end(),
                (dispatch.flags & ROCATTACH_DISPATCH_COUNTED) != 0);
      if (values == so_far.values.end()) continue;
      CollectorResult& part = parts[values->second.front().plan_generation];
      part.dispatches.push_back(dispatch);
      part.values[dispatch.correlation_id] = std::move(values->second);
    }
    for (const auto& [generation, part] : parts) {
      const auto plan = plans_.find(generation);
      ASSERT_NE(plan, plans_.end());
      EXPECT_GT(ExpectTrueValues(part, *plan->second, generation), 0u);
      counted.insert(generation);
      if (testing::Test::HasFailure()) return;
    }
    dispatches += so_far.dispatches.size();
    copies += so_far.copies.size();
    so_far.dispatches.clear();
    so_far.values.clear();
    so_far.copies.clear();
    looked_ = 0;
  }

  std::set<uint64_t> counted;  // generations that have values
  size_t dispatches = 0, copies = 0;
  Times held_us, first_us;

 private:
  enum class State { kStart, kStarting, kRunning, kStopping, kDone };

  // `text` is "dispatches were held for N us, …", or empty: on a busy machine the stop
  // before it was postponed, because queues did not run dry in time.
  void AddHold(const std::string& text) {
    without_hold_ += text.empty();
    if (text.empty()) return;
    const std::vector<std::string> words = absl::StrSplit(text, ' ');
    double usec = 0;
    ASSERT_GT(words.size(), 4u) << text;
    ASSERT_TRUE(absl::SimpleAtod(words[4], &usec)) << text;
    held_us.Add(usec);
  }

  // True if a dispatch of this session has arrived; adds the time of the earliest one.
  bool AddFirst(const CollectorResult& so_far) {
    uint64_t first_ns = 0;
    for (; looked_ < so_far.dispatches.size(); ++looked_) {
      const rocattach_dispatch& dispatch = so_far.dispatches[looked_];
      const auto values = so_far.values.find(dispatch.correlation_id);
      if (values == so_far.values.end() ||
          values->second.front().plan_generation != generation_) {
        continue;
      }
      if (first_ns == 0 || dispatch.enqueue_ns < first_ns) {
        first_ns = dispatch.enqueue_ns;
      }
    }
    if (first_ns == 0) return false;
    first_us.Add(static_cast<double>(first_ns - asked_ns_) / 1000);
    return true;
  }

  const int count_;
  const std::vector<std::string> names_ = KnownCounters(60);
  State state_ = State::kStart;
  std::map<uint64_t, std::shared_ptr<const CompiledPlan>> plans_;  // by generation
  int done_ = 0, without_hold_ = 0;
  size_t looked_ = 0;
  uint64_t generation_ = 0, asked_ns_ = 0;
};

class SdkStress : public testing::Test {
 protected:
  void SetUp() override { SKIP_UNLESS_TARGETS_CAN_BE_MAPPED(); }
  testing_support::TemporaryDirectory folder_;
};

// The same program without the collector.
TEST_F(SdkStress, PipelinedQueuesWithoutTheCollector) {
  const std::string gate = folder_ / "gate";
  std::thread opener([&] {
    usleep(500'000);  // the time to dispatch
    CreateFile(gate);
  });
  SessionResult native =
      RunSession({.plan = "",
                  .run_options = {},
                  .command = {},
                  .steps = {"-t", std::to_string(kThreads), "pipeline:" + gate},
                  .environment = {},
                  .load_tool = false});
  opener.join();
  EXPECT_EQ(native.program.exit_status, 0) << native.program.errors;
  EXPECT_EQ(native.program.errors, "");
  EXPECT_EQ(native.printed["result"], "ok");
}

TEST_F(SdkStress, StartsAndStopsOnPipelinedQueues) {
  const std::string gate = folder_ / "gate";
  Cycle cycle(Cycles());
  SdkResult result = RunSdk({.threads = kThreads,
                             .steps = {"pipeline:" + gate},
                             .recording = true,
                             .step =
                                 [&](SdkTarget& target) {
                                   if (cycle.Step(target)) CreateFile(gate);
                                 },
                             .timeout_seconds = 60.0 + Cycles() * 0.3});
  ASSERT_EQ(cycle.done(), Cycles()) << "the program stood still";
  cycle.Check(result.run);
  const CollectorResult& run = result.run;
  ASSERT_EQ(run.exit_status, 0) << run.errors << run.output;
  EXPECT_EQ(run.errors, "");
  EXPECT_THAT(run.output, testing::HasSubstr("result=ok"));
  // On a busy machine this test does not always read the rings in time. Dispatches that
  // do not fit are counted; no session and no copy may be missing.
  EXPECT_EQ(cycle.dispatches + run.account.ring_dropped,
            static_cast<size_t>(run.Printed("dispatches")));
  EXPECT_EQ(cycle.copies, static_cast<size_t>(run.Printed("copies")));
  EXPECT_EQ(cycle.counted.size(), static_cast<size_t>(Cycles()));
  EXPECT_EQ(run.account.dispatches_seen, cycle.dispatches + run.account.ring_dropped);
  EXPECT_EQ(run.account.copies_seen, cycle.copies);
  EXPECT_EQ(run.account.other_dropped, 0u);
  EXPECT_EQ(run.account.values_dropped, 0u);
  EXPECT_TRUE(run.unfinished.empty());
  const std::string held = cycle.held_us.Text(), first = cycle.first_us.Text();
  RecordProperty("held_us", held);
  RecordProperty("first_counted_us", first);
  printf(
      "%d sessions (%d without a hold), %zu dispatches and %lu more that did not fit "
      "into a ring, %zu copies\nheld (us): %s\n"
      "from the request to the first counted dispatch (us): %s\n",
      cycle.done(), cycle.without_hold(), cycle.dispatches, run.account.ring_dropped,
      cycle.copies, held.c_str(), first.c_str());
}

}  // namespace
}  // namespace rocattach
