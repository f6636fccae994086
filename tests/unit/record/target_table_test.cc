#include "userspace/record/target_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <utility>
#include <vector>

#include "tests/unit/record/target_fixture.h"
#include "userspace/base/clock.h"
#include "userspace/base/process.h"

namespace rocattach {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using testing::UnorderedElementsAre;

class TargetTableTest : public TargetTest {
 protected:
  static ProcessId Process(uint32_t number) {
    return ProcessIdOf(MadeUpEvent(ROCATTACH_EVENT_WINDOW, number, kWindowNs));
  }
  Target* Add(uint32_t number) {
    return table_.Add(Process(number), NewTarget(Attached(number)));
  }
  static v1::ProcessEnd End(v1::ProcessEnd::How how) {
    v1::ProcessEnd end;
    end.set_how(how);
    return end;
  }

  // The closed targets, each with how it ended.
  std::vector<std::pair<ProcessId, v1::ProcessEnd::How>> closed_;
  TargetTable table_{[this](Target* target, const v1::ProcessEnd& end) {
    closed_.emplace_back(target->id(), end.how());
  }};
};

TEST_F(TargetTableTest, TargetsAreFoundWhileTheyLive) {
  EXPECT_EQ(table_.FindLiving(Process(1)), nullptr);
  Target* target = Add(1);
  EXPECT_EQ(table_.FindLiving(Process(1)), target);
  EXPECT_EQ(table_.FindLiving(Process(2)), nullptr);
  EXPECT_EQ(table_.FindWithMemory(Process(1)), nullptr);
  FakeCollector fake;
  Report(fake, target);
  EXPECT_EQ(table_.FindWithMemory(Process(1)), target);
  EXPECT_THAT(closed_, IsEmpty());
  table_.End(Process(1), End(v1::ProcessEnd::EXITED));
  EXPECT_EQ(table_.FindLiving(Process(1)), nullptr);
  EXPECT_THAT(closed_, ElementsAre(Pair(Process(1), v1::ProcessEnd::EXITED)));
  table_.End(Process(1), End(v1::ProcessEnd::EXITED));
  EXPECT_EQ(closed_.size(), 1u);
}

TEST_F(TargetTableTest, VerdictsAreCounted) {
  EXPECT_TRUE(table_.AllSettled());
  Target* target = Add(1);
  Add(2);
  EXPECT_FALSE(table_.AllSettled());
  EXPECT_EQ(table_.CountByState()["open"], 2u);
  target->Settle(Verdict::kMissed, AttachReason::kNone, "");
  EXPECT_FALSE(table_.AllSettled());
  table_.End(Process(2), End(v1::ProcessEnd::EXITED));
  EXPECT_TRUE(table_.AllSettled());
  const auto counts = table_.CountByState();
  EXPECT_EQ(counts.at("open"), 0u);
  EXPECT_EQ(counts.at("missed"), 1u);
  EXPECT_EQ(counts.at("attached"), 0u);
  EXPECT_EQ(counts.at("ending"), 0u);
}

TEST_F(TargetTableTest, TargetsOfAUserShareMemory) {
  const std::shared_ptr<UserMemory> user = table_.MemoryOfUser(kUser);
  EXPECT_EQ(table_.MemoryOfUser(kUser), user);
  EXPECT_NE(table_.MemoryOfUser(kUser + 1), user);
  EXPECT_EQ(table_.MemoryOfUser(kUser), user);
}

// A child that has ended and remains a zombie.
class EndedChild {
 public:
  EndedChild() : pid_(fork()) {
    if (pid_ == 0) _exit(0);
    siginfo_t info = {};
    EXPECT_EQ(waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT), 0);
  }
  ~EndedChild() { waitpid(pid_, nullptr, 0); }
  Window OpenWindow() const {
    Window window;
    window.event.pid = static_cast<uint32_t>(pid_);
    const auto ticks = ReadStartTicks(pid_);
    EXPECT_TRUE(ticks.ok()) << ticks.status();
    window.event.start_ns = ticks.value_or(0) * ClockTickNs();
    return window;
  }

 private:
  const pid_t pid_;
};

TEST_F(TargetTableTest, AnEndWithoutAnEventIsNoticedTheSecondTime) {
  const EndedChild first, second;
  const ProcessId one = ProcessIdOf(first.OpenWindow().event);
  const ProcessId two = ProcessIdOf(second.OpenWindow().event);
  table_.Add(one, NewTarget(first.OpenWindow()));
  EXPECT_THAT(table_.FindLost(), IsEmpty());
  table_.Add(two, NewTarget(second.OpenWindow()));
  EXPECT_THAT(table_.FindLost(), ElementsAre(one));
  EXPECT_THAT(table_.FindLost(), UnorderedElementsAre(one, two));
  table_.End(one, End(v1::ProcessEnd::LOST));
  EXPECT_THAT(table_.FindLost(), ElementsAre(two));
}

// Its thread was preempted between the two steps.
TEST_F(TargetTableTest, AnOperationThatIsSeenAndNotYetInFlightIsOpen) {
  FakeCollector fake;
  Target* target = Add(1);
  EXPECT_FALSE(target->HasOpenOperations());
  Report(fake, target);
  EXPECT_FALSE(target->HasOpenOperations());
  target->Drain(BootNs(), UINT64_MAX);  // it knows its rings from here on
  ++fake.ring(0)->dispatches_seen;
  EXPECT_TRUE(target->HasOpenOperations());
  ++fake.ring(0)->inflight;
  EXPECT_TRUE(target->HasOpenOperations());
  --fake.ring(0)->inflight;
  ++fake.ring(0)->dispatches_dropped;
  EXPECT_FALSE(target->HasOpenOperations());
}

TEST_F(TargetTableTest, TheEndOfTheRunClosesAll) {
  FakeCollector fake;
  Report(fake, Add(1));
  Add(2);
  table_.Quiesce(0);
  EXPECT_EQ(__atomic_load_n(&fake.control()->recording, __ATOMIC_ACQUIRE), 0u);
  table_.EndAll();
  EXPECT_THAT(closed_,
              UnorderedElementsAre(Pair(Process(1), v1::ProcessEnd::STILL_RUNNING),
                                   Pair(Process(2), v1::ProcessEnd::STILL_RUNNING)));
  EXPECT_TRUE(table_.living().empty());
  EXPECT_FALSE(table_.has_ending());
}

}  // namespace
}  // namespace rocattach
