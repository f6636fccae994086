#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "tests/unit/simgpu/core.h"

namespace {

class Event {
 public:
  explicit Event(bool manual_reset = false, bool signaled = false) {
    HsaEventDescriptor descriptor = {};
    EXPECT_EQ(simgpu_event_create(&descriptor, manual_reset, signaled, &event_),
              HSAKMT_STATUS_SUCCESS);
  }
  ~Event() {
    if (event_ != nullptr) simgpu_event_destroy(event_);
  }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  HsaEvent* get() const { return event_; }
  HsaEvent* Release() {
    HsaEvent* event = event_;
    event_ = nullptr;
    return event;
  }
  void Set() const { simgpu_event_set(event_); }
  bool IsSet() const { return simgpu_event_query(event_) == HSAKMT_STATUS_SUCCESS; }
  void AwaitWaiters(uint32_t count) const {
    while (simgpu_event_waiters(event_) < count) std::this_thread::yield();
  }
  HSAKMT_STATUS Wait(uint32_t milliseconds) const {
    HsaEvent* list[] = {event_};
    return simgpu_event_wait(list, 1, true, milliseconds);
  }

 private:
  HsaEvent* event_ = nullptr;
};

TEST(SimgpuEvent, StaysSetUntilTheNextWait) {
  Event event;
  EXPECT_EQ(event.Wait(HSA_EVENTTIMEOUT_IMMEDIATE), HSAKMT_STATUS_WAIT_TIMEOUT);
  event.Set();
  EXPECT_TRUE(event.IsSet());
  EXPECT_EQ(event.Wait(HSA_EVENTTIMEOUT_IMMEDIATE), HSAKMT_STATUS_SUCCESS);
  EXPECT_FALSE(event.IsSet());
  EXPECT_EQ(event.Wait(HSA_EVENTTIMEOUT_IMMEDIATE), HSAKMT_STATUS_WAIT_TIMEOUT);
}

TEST(SimgpuEvent, OneSetReleasesAllWaitersOfThatInstant) {
  Event event;
  constexpr uint32_t kWaiters = 4;
  std::atomic<uint32_t> released{0};
  std::vector<std::thread> waiters;
  for (uint32_t i = 0; i < kWaiters; i++) {
    waiters.emplace_back([&] {
      if (event.Wait(HSA_EVENTTIMEOUT_INFINITE) == HSAKMT_STATUS_SUCCESS) released++;
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
  // This thread takes note of the set; another one that comes later still gets it,
  // once.
  EXPECT_EQ(event.Wait(HSA_EVENTTIMEOUT_IMMEDIATE), HSAKMT_STATUS_SUCCESS);
  HSAKMT_STATUS first = HSAKMT_STATUS_ERROR, second = HSAKMT_STATUS_ERROR;
  std::thread([&] {
    first = event.Wait(HSA_EVENTTIMEOUT_IMMEDIATE);
    second = event.Wait(HSA_EVENTTIMEOUT_IMMEDIATE);
  }).join();
  EXPECT_EQ(first, HSAKMT_STATUS_SUCCESS);
  EXPECT_EQ(second, HSAKMT_STATUS_WAIT_TIMEOUT);
  EXPECT_EQ(event.Wait(HSA_EVENTTIMEOUT_IMMEDIATE), HSAKMT_STATUS_WAIT_TIMEOUT);
}

TEST(SimgpuEvent, AnEventThatReusesAnIdIsNotSet) {
  Event first;
  const uint32_t id = first.get()->EventId;
  first.Set();
  simgpu_event_destroy(first.Release());
  for (int i = 0; i < 5000; i++) {
    Event next;
    EXPECT_FALSE(next.IsSet());
    if (next.get()->EventId == id) return;
  }
  ADD_FAILURE() << "the id " << id << " never came back";
}

TEST(SimgpuEvent, ManualResetStaysSet) {
  Event event(/*manual_reset=*/true);
  event.Set();
  EXPECT_EQ(event.Wait(HSA_EVENTTIMEOUT_IMMEDIATE), HSAKMT_STATUS_SUCCESS);
  EXPECT_EQ(event.Wait(HSA_EVENTTIMEOUT_IMMEDIATE), HSAKMT_STATUS_SUCCESS);
  simgpu_event_reset(event.get());
  EXPECT_EQ(event.Wait(HSA_EVENTTIMEOUT_IMMEDIATE), HSAKMT_STATUS_WAIT_TIMEOUT);
}

TEST(SimgpuEvent, WaitForAnyAndForAll) {
  Event first, second;
  HsaEvent* list[] = {first.get(), second.get()};
  second.Set();
  EXPECT_EQ(simgpu_event_wait(list, 2, false, 0), HSAKMT_STATUS_SUCCESS);
  second.Set();
  EXPECT_EQ(simgpu_event_wait(list, 2, true, 1), HSAKMT_STATUS_WAIT_TIMEOUT);
  first.Set();
  second.Set();
  EXPECT_EQ(simgpu_event_wait(list, 2, true, 1), HSAKMT_STATUS_SUCCESS);
}

// For a caller that keeps an event's age, only that decides.
TEST(SimgpuEvent, AWaitEndsForAnotherAgeThanTheCallersAndTellsIt) {
  Event event;
  HsaEvent* list[] = {event.get()};
  const auto wait = [&](uint64_t* age) {
    return simgpu_event_wait_ages(list, 1, true, HSA_EVENTTIMEOUT_IMMEDIATE, age);
  };
  uint64_t age = 1;
  EXPECT_EQ(wait(&age), HSAKMT_STATUS_WAIT_TIMEOUT);
  EXPECT_EQ(age, 1u);
  event.Set();
  event.Set();
  EXPECT_EQ(wait(&age), HSAKMT_STATUS_SUCCESS);
  EXPECT_EQ(age, 3u) << "it rises with each set";
  EXPECT_EQ(wait(&age), HSAKMT_STATUS_WAIT_TIMEOUT) << "this one is known";
  // Another one, on the same thread, that knows less: the set is not used up.
  uint64_t older = 2;
  EXPECT_EQ(wait(&older), HSAKMT_STATUS_SUCCESS);
  EXPECT_EQ(older, 3u);
  simgpu_event_reset(event.get());
  older = 2;
  EXPECT_EQ(wait(&older), HSAKMT_STATUS_SUCCESS) << "a reset makes it no younger";
  // Without an age: what the thread has not seen.
  uint64_t none = 0;
  EXPECT_EQ(wait(&none), HSAKMT_STATUS_WAIT_TIMEOUT);
  event.Set();
  EXPECT_EQ(wait(&none), HSAKMT_STATUS_SUCCESS);
  EXPECT_EQ(none, 0u) << "none is told to who has none";
  EXPECT_EQ(wait(&age), HSAKMT_STATUS_SUCCESS);
  EXPECT_EQ(age, 4u);
}

TEST(SimgpuEvent, AWaiterWithAnAgeIsWokenByASet) {
  Event first, second;
  uint64_t ages[] = {1, 1};
  std::thread waiter([&] {
    HsaEvent* list[] = {first.get(), second.get()};
    EXPECT_EQ(simgpu_event_wait_ages(list, 2, false, HSA_EVENTTIMEOUT_INFINITE, ages),
              HSAKMT_STATUS_SUCCESS);
  });
  second.AwaitWaiters(1);
  second.Set();
  waiter.join();
  EXPECT_EQ(ages[0], 1u);
  EXPECT_EQ(ages[1], 2u);
}

TEST(SimgpuEvent, OnlySignalEventsHaveAnAge) {
  HsaEventDescriptor descriptor = {};
  descriptor.EventType = HSA_EVENTTYPE_MEMORY;
  HsaEvent* event = nullptr;
  ASSERT_EQ(simgpu_event_create(&descriptor, false, false, &event), 0);
  uint64_t age = 7;
  EXPECT_EQ(simgpu_event_wait_ages(&event, 1, true, 0, &age),
            HSAKMT_STATUS_WAIT_TIMEOUT);
  simgpu_event_set(event);
  EXPECT_EQ(simgpu_event_wait_ages(&event, 1, true, 0, &age), HSAKMT_STATUS_SUCCESS);
  EXPECT_EQ(age, 7u);
  simgpu_event_destroy(event);
}

TEST(SimgpuEvent, MoreEventsThanFitOnTheStack) {
  std::vector<std::unique_ptr<Event>> events;
  std::vector<HsaEvent*> list;
  for (int i = 0; i < 100; i++) {
    events.push_back(std::make_unique<Event>());
    list.push_back(events.back()->get());
  }
  events[99]->Set();
  EXPECT_EQ(simgpu_event_wait(list.data(), 100, false, HSA_EVENTTIMEOUT_INFINITE),
            HSAKMT_STATUS_SUCCESS);
  EXPECT_EQ(simgpu_event_wait(list.data(), 100, false, 0), HSAKMT_STATUS_WAIT_TIMEOUT);
}

TEST(SimgpuEvent, InterruptsSetByIdAndIgnoreUnknownIds) {
  Event event;
  simgpu_event_fire(event.get()->EventId);
  EXPECT_TRUE(event.IsSet());
  simgpu_event_fire(0);
  simgpu_event_fire(4095);
  simgpu_event_fire(UINT32_MAX);
  EXPECT_EQ(event.get()->EventData.HWData2 % 8, 0u);
}

TEST(SimgpuEvent, DestroyReleasesWaiters) {
  Event event;
  std::atomic<bool> returned{false};
  std::thread waiter([&returned, raw = event.get()] {
    HsaEvent* list[] = {raw};
    simgpu_event_wait(list, 1, true, HSA_EVENTTIMEOUT_INFINITE);
    returned = true;
  });
  event.AwaitWaiters(1);
  simgpu_event_destroy(event.Release());
  waiter.join();
  EXPECT_TRUE(returned);
}

TEST(SimgpuEvent, RunsOutAtTheDriversLimitAndRecovers) {
  std::vector<HsaEvent*> events;
  HsaEventDescriptor descriptor = {};
  HsaEvent* event = nullptr;
  while (simgpu_event_create(&descriptor, false, false, &event) ==
         HSAKMT_STATUS_SUCCESS) {
    events.push_back(event);
    ASSERT_LT(events.size(), 5000u);
  }
  EXPECT_GT(events.size(), 4000u);
  simgpu_event_destroy(events.back());
  events.pop_back();
  ASSERT_EQ(simgpu_event_create(&descriptor, false, false, &event),
            HSAKMT_STATUS_SUCCESS);
  events.push_back(event);
  for (HsaEvent* each : events) simgpu_event_destroy(each);
}

}  // namespace
