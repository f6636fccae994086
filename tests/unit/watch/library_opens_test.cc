#include "userspace/watch/discovery/library_opens.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "tests/unit/watch/open_notification.h"

namespace rocattach {
namespace {

using testing::ElementsAre;

class LibraryOpensTest : public testing::Test {
 protected:
  bool Visit(const std::vector<fanotify_event_metadata>& events) {
    pids_.clear();
    return VisitOpens({reinterpret_cast<const char*>(events.data()),
                       events.size() * sizeof(events[0])},
                      [this](pid_t pid) { pids_.push_back(pid); });
  }
  std::vector<pid_t> pids_;
};

TEST_F(LibraryOpensTest, ProcessesThatOpenAFileAreVisited) {
  EXPECT_TRUE(Visit({OpenNotification(FAN_OPEN, 7), OpenNotification(FAN_OPEN, 8)}));
  EXPECT_THAT(pids_, ElementsAre(7, 8));
  EXPECT_TRUE(Visit({}));
}

TEST_F(LibraryOpensTest, AFullQueueIsALossAndTheOthersAreVisited) {
  EXPECT_FALSE(
      Visit({OpenNotification(FAN_OPEN, 7), OpenNotification(FAN_Q_OVERFLOW, 0),
             OpenNotification(FAN_OPEN, 8)}));
  EXPECT_THAT(pids_, ElementsAre(7, 8));
}

TEST_F(LibraryOpensTest, AnUnknownNotificationIsALoss) {
  fanotify_event_metadata other = OpenNotification(FAN_OPEN, 7);
  ++other.vers;
  EXPECT_FALSE(Visit({other}));
  EXPECT_TRUE(pids_.empty());
}

TEST_F(LibraryOpensTest, ReadsPendingNotifications) {
  int fds[2];
  ASSERT_EQ(pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0);
  const UniqueFd in(fds[1]);
  const LibraryOpens opens((UniqueFd(fds[0])));
  const auto visit = [this](pid_t pid) { pids_.push_back(pid); };
  EXPECT_TRUE(opens.Read(visit)) << "nothing waits";
  const fanotify_event_metadata event = OpenNotification(FAN_OPEN, 9);
  ASSERT_EQ(write(in.get(), &event, sizeof(event)), ssize_t{sizeof(event)});
  EXPECT_TRUE(opens.Read(visit));
  EXPECT_THAT(pids_, ElementsAre(9));
}

}  // namespace
}  // namespace rocattach
