#include "userspace/record/recorder_inbox.h"

#include <gtest/gtest.h>

#include <thread>
#include <utility>

namespace rocattach {
namespace {

rocattach_event InboxEvent(uint32_t pid) {
  rocattach_event event = {};
  event.pid = pid;
  return event;
}

TEST(RecorderInbox, KeepsTheOrder) {
  RecorderInbox inbox;
  inbox.Post(InboxEvent(1));
  inbox.PostIfRoom(Window());
  EXPECT_TRUE(inbox.Wait(-1));
  const auto messages = inbox.TakeAll();
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_TRUE(std::holds_alternative<rocattach_event>(messages[0]));
  EXPECT_TRUE(std::holds_alternative<Window>(messages[1]));
  EXPECT_TRUE(inbox.TakeAll().empty());
}

TEST(RecorderInbox, DropsOnlyMessagesThatMayBeDropped) {
  RecorderInbox inbox;
  for (size_t i = 0; i < RecorderInbox::kMostMessages; ++i) {
    EXPECT_EQ(inbox.crowded(), i >= RecorderInbox::kCrowdedMessages);
    inbox.PostIfRoom(rocattach_event{});
  }
  inbox.PostIfRoom(rocattach_event{});
  EXPECT_EQ(inbox.dropped(), 1u);
  inbox.Post(rocattach_event{});
  EXPECT_EQ(inbox.TakeAll().size(), RecorderInbox::kMostMessages + 1);
  EXPECT_FALSE(inbox.crowded());
}

TEST(RecorderInbox, EndsWhenItIsClosedAndEmpty) {
  RecorderInbox inbox;
  EXPECT_TRUE(inbox.PostTask([] {}));
  inbox.Close();
  EXPECT_FALSE(inbox.PostTask([] {}));
  EXPECT_TRUE(inbox.Wait(-1));
  EXPECT_EQ(inbox.TakeAll().size(), 1u);
  EXPECT_FALSE(inbox.Wait(-1));
}

TEST(RecorderInbox, WakesTheThreadThatWaits) {
  RecorderInbox inbox;
  size_t taken = 0;
  std::thread reader([&] {
    while (taken == 0 && inbox.Wait(-1)) taken = inbox.TakeAll().size();
  });
  inbox.Post(rocattach_event{});
  reader.join();
  EXPECT_EQ(taken, 1u);
}

}  // namespace
}  // namespace rocattach
