#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "tests/await.h"
#include "tests/unit/simgpu/core.h"

namespace {

class Event {
 public:
  explicit Event(bool manual_reset = false)
      : id_(simgpu_event_create(SIMGPU_EVENT_SIGNAL, !manual_reset)) {
    EXPECT_NE(id_, 0u);
  }
  ~Event() {
    if (id_ != 0) simgpu_event_destroy(id_);
  }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  uint32_t id() const { return id_; }
  uint32_t Release() {
    const uint32_t id = id_;
    id_ = 0;
    return id;
  }
  void Set() const { simgpu_event_set(id_); }
  void AwaitWaiters(uint32_t count) const {
    rocattach::testing_support::Await(
        [&] { return simgpu_event_waiters(id_) >= count; },
        "the threads that wait for the event");
  }
  simgpu_wait Wait(uint32_t milliseconds) const {
    return simgpu_event_wait(&id_, nullptr, 1, true, milliseconds);
  }

 private:
  uint32_t id_;
};

TEST(SimgpuEvent, StaysSetUntilTheNextWait) {
  Event event;
  EXPECT_EQ(event.Wait(0), SIMGPU_WAIT_TIMEOUT);
  event.Set();
  EXPECT_EQ(event.Wait(0), SIMGPU_WAIT_DONE);
  EXPECT_EQ(event.Wait(0), SIMGPU_WAIT_TIMEOUT);
}

TEST(SimgpuEvent, OneSetReleasesAllWaitersOfThatInstant) {
  Event event;
  constexpr uint32_t kWaiters = 4;
  std::atomic<uint32_t> released{0};
  std::vector<std::thread> waiters;
  for (uint32_t i = 0; i < kWaiters; i++) {
    waiters.emplace_back([&] {
      if (event.Wait(SIMGPU_WAIT_FOREVER) == SIMGPU_WAIT_DONE) released++;
    });
  }
  event.AwaitWaiters(kWaiters);
  event.Set();
  for (std::thread& waiter : waiters) waiter.join();
  EXPECT_EQ(released, kWaiters);
}

TEST(SimgpuEvent, ASetIsKeptForEveryThreadThatHasNotSeenIt) {
  Event event;
  event.Set();
  // This thread sees the set; another thread that waits later still sees it, but only
  // once.
  EXPECT_EQ(event.Wait(0), SIMGPU_WAIT_DONE);
  simgpu_wait first = SIMGPU_WAIT_FAILED, second = SIMGPU_WAIT_FAILED;
  std::thread([&] {
    first = event.Wait(0);
    second = event.Wait(0);
  }).join();
  EXPECT_EQ(first, SIMGPU_WAIT_DONE);
  EXPECT_EQ(second, SIMGPU_WAIT_TIMEOUT);
  EXPECT_EQ(event.Wait(0), SIMGPU_WAIT_TIMEOUT);
}

TEST(SimgpuEvent, AnEventThatReusesAnIdIsNotSet) {
  Event first;
  const uint32_t id = first.id();
  first.Set();
  simgpu_event_destroy(first.Release());
  for (int i = 0; i < 5000; i++) {
    Event next;
    EXPECT_EQ(next.Wait(0), SIMGPU_WAIT_TIMEOUT);
    if (next.id() == id) return;
  }
  ADD_FAILURE() << "the id " << id << " never came back";
}

TEST(SimgpuEvent, ManualResetStaysSet) {
  Event event(/*manual_reset=*/true);
  event.Set();
  EXPECT_EQ(event.Wait(0), SIMGPU_WAIT_DONE);
  EXPECT_EQ(event.Wait(0), SIMGPU_WAIT_DONE);
  simgpu_event_reset(event.id());
  EXPECT_EQ(event.Wait(0), SIMGPU_WAIT_TIMEOUT);
}

TEST(SimgpuEvent, WaitForAnyAndForAll) {
  Event first, second;
  const uint32_t list[] = {first.id(), second.id()};
  second.Set();
  EXPECT_EQ(simgpu_event_wait(list, nullptr, 2, false, 0), SIMGPU_WAIT_DONE);
  second.Set();
  EXPECT_EQ(simgpu_event_wait(list, nullptr, 2, true, 1), SIMGPU_WAIT_TIMEOUT);
  first.Set();
  second.Set();
  EXPECT_EQ(simgpu_event_wait(list, nullptr, 2, true, 1), SIMGPU_WAIT_DONE);
}

// For a caller that keeps an event's age, only the age decides.
TEST(SimgpuEvent, AWaitEndsIfTheAgeDiffersAndReturnsTheAge) {
  Event event;
  const uint32_t list[] = {event.id()};
  const auto wait = [&](uint64_t* age) {
    return simgpu_event_wait(list, age, 1, true, 0);
  };
  uint64_t age = 1;
  EXPECT_EQ(wait(&age), SIMGPU_WAIT_TIMEOUT);
  EXPECT_EQ(age, 1u);
  event.Set();
  event.Set();
  EXPECT_EQ(wait(&age), SIMGPU_WAIT_DONE);
  EXPECT_EQ(age, 3u) << "it rises with each set";
  EXPECT_EQ(wait(&age), SIMGPU_WAIT_TIMEOUT) << "this one is known";
  // Another caller on the same thread, with an older age: the set is not used up.
  uint64_t older = 2;
  EXPECT_EQ(wait(&older), SIMGPU_WAIT_DONE);
  EXPECT_EQ(older, 3u);
  simgpu_event_reset(event.id());
  older = 2;
  EXPECT_EQ(wait(&older), SIMGPU_WAIT_DONE) << "a reset makes it no younger";
  // Without an age, a wait ends for a set that the thread has not seen.
  uint64_t none = 0;
  EXPECT_EQ(wait(&none), SIMGPU_WAIT_TIMEOUT);
  event.Set();
  EXPECT_EQ(wait(&none), SIMGPU_WAIT_DONE);
  EXPECT_EQ(none, 0u) << "none is told to who has none";
  EXPECT_EQ(wait(&age), SIMGPU_WAIT_DONE);
  EXPECT_EQ(age, 4u);
}

TEST(SimgpuEvent, AWaiterWithAnAgeIsWokenByASet) {
  Event first, second;
  uint64_t ages[] = {1, 1};
  std::thread waiter([&] {
    const uint32_t list[] = {first.id(), second.id()};
    EXPECT_EQ(simgpu_event_wait(list, ages, 2, false, SIMGPU_WAIT_FOREVER),
              SIMGPU_WAIT_DONE);
  });
  second.AwaitWaiters(1);
  second.Set();
  waiter.join();
  EXPECT_EQ(ages[0], 1u);
  EXPECT_EQ(ages[1], 2u);
}

TEST(SimgpuEvent, OnlySignalEventsHaveAnAge) {
  const uint32_t event = simgpu_event_create(SIMGPU_EVENT_OTHER, true);
  ASSERT_NE(event, 0u);
  uint64_t age = 7;
  EXPECT_EQ(simgpu_event_wait(&event, &age, 1, true, 0), SIMGPU_WAIT_TIMEOUT);
  simgpu_event_set(event);
  EXPECT_EQ(simgpu_event_wait(&event, &age, 1, true, 0), SIMGPU_WAIT_DONE);
  EXPECT_EQ(age, 7u);
  simgpu_event_destroy(event);
}

TEST(SimgpuEvent, MoreEventsThanFitOnTheStack) {
  std::vector<std::unique_ptr<Event>> events;
  std::vector<uint32_t> list;
  for (int i = 0; i < 100; i++) {
    events.push_back(std::make_unique<Event>());
    list.push_back(events.back()->id());
  }
  events[99]->Set();
  EXPECT_EQ(simgpu_event_wait(list.data(), nullptr, 100, false, SIMGPU_WAIT_FOREVER),
            SIMGPU_WAIT_DONE);
  EXPECT_EQ(simgpu_event_wait(list.data(), nullptr, 100, false, 0),
            SIMGPU_WAIT_TIMEOUT);
}

TEST(SimgpuEvent, InterruptsSetByIdAndIgnoreUnknownIds) {
  Event event;
  simgpu_event_fire(event.id());
  EXPECT_EQ(event.Wait(0), SIMGPU_WAIT_DONE);
  simgpu_event_fire(0);
  simgpu_event_fire(4095);
  simgpu_event_fire(UINT32_MAX);
  EXPECT_FALSE(simgpu_event_set(0));
  EXPECT_FALSE(simgpu_event_reset(UINT32_MAX));
  EXPECT_FALSE(simgpu_event_destroy(4095));
  const uint32_t list[] = {event.id(), 4095};
  EXPECT_EQ(simgpu_event_wait(list, nullptr, 2, true, 0), SIMGPU_WAIT_FAILED);
  EXPECT_EQ(simgpu_event_waiters(event.id()), 0u);
}

TEST(SimgpuEvent, DestroyReleasesWaiters) {
  Event event;
  std::atomic<bool> returned{false};
  std::thread waiter([&returned, id = event.id()] {
    EXPECT_EQ(simgpu_event_wait(&id, nullptr, 1, true, SIMGPU_WAIT_FOREVER),
              SIMGPU_WAIT_FAILED);
    returned = true;
  });
  event.AwaitWaiters(1);
  simgpu_event_destroy(event.Release());
  waiter.join();
  EXPECT_TRUE(returned);
}

TEST(SimgpuEvent, RunsOutAtTheDriversLimitAndRecovers) {
  std::vector<uint32_t> events;
  uint32_t event;
  while ((event = simgpu_event_create(SIMGPU_EVENT_SIGNAL, true)) != 0) {
    events.push_back(event);
    ASSERT_LT(events.size(), 5000u);
  }
  EXPECT_GT(events.size(), 4000u);
  simgpu_event_destroy(events.back());
  events.pop_back();
  event = simgpu_event_create(SIMGPU_EVENT_SIGNAL, true);
  ASSERT_NE(event, 0u);
  events.push_back(event);
  for (uint32_t each : events) EXPECT_TRUE(simgpu_event_destroy(each));
}

}  // namespace
