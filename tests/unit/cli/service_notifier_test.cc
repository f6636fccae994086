#include "userspace/cli/watch/service_notifier.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/await.h"
#include "userspace/base/unique_fd.h"

namespace rocattach {
namespace {

// The service manager's socket, bound to an abstract name.
class ServiceNotifierTest : public testing::Test {
 protected:
  void SetUp() override {
    name_ = absl::StrCat("@rocattach-notify-", getpid());
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    name_.copy(address.sun_path, name_.size());
    address.sun_path[0] = '\0';
    socket_.reset(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    ASSERT_EQ(
        bind(socket_.get(), reinterpret_cast<sockaddr*>(&address),
             static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name_.size())),
        0);
  }
  void TearDown() override {
    for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}) {
      unsetenv(name);
    }
  }

  std::vector<std::string> Received() {
    std::vector<std::string> all;
    char message[4096];
    for (ssize_t n; (n = recv(socket_.get(), message, sizeof(message), 0)) > 0;) {
      all.emplace_back(message, static_cast<size_t>(n));
    }
    return all;
  }

  std::string name_;
  UniqueFd socket_;
};

TEST_F(ServiceNotifierTest, ReadyAndStoppingAreSentOnce) {
  setenv("NOTIFY_SOCKET", name_.c_str(), 1);
  ServiceNotifier notifier = ServiceNotifier::FromEnvironment();
  notifier.Ready();
  notifier.Ready();
  notifier.Stopping();
  EXPECT_EQ(Received(), (std::vector<std::string>{
                            "READY=1", "STOPPING=1\nSTATUS=Completing the output"}));
}

TEST_F(ServiceNotifierTest, ARefusalIsAStatus) {
  setenv("NOTIFY_SOCKET", name_.c_str(), 1);
  ServiceNotifier::FromEnvironment().Refused("a nested pid namespace");
  EXPECT_EQ(Received(), std::vector<std::string>{"STATUS=a nested pid namespace"});
}

TEST_F(ServiceNotifierTest, TheWatchdogHearsTwiceInItsInterval) {
  setenv("NOTIFY_SOCKET", name_.c_str(), 1);
  setenv("WATCHDOG_USEC", "200000", 1);
  setenv("WATCHDOG_PID", absl::StrCat(getpid()).c_str(), 1);
  ServiceNotifier notifier = ServiceNotifier::FromEnvironment();
  notifier.Alive("one");
  EXPECT_EQ(Received(), std::vector<std::string>{"WATCHDOG=1\nSTATUS=one"});
  const absl::Time begin = absl::Now();
  testing_support::Await([&] { return notifier.IsDue(); }, "the next message's time");
  EXPECT_GE(absl::Now() - begin, absl::Milliseconds(90));
  notifier.Alive("two");
  EXPECT_EQ(Received(), std::vector<std::string>{"WATCHDOG=1\nSTATUS=two"});
}

TEST_F(ServiceNotifierTest, NothingIsSentBeforeItIsDue) {
  setenv("NOTIFY_SOCKET", name_.c_str(), 1);
  setenv("WATCHDOG_USEC", "3600000000", 1);
  ServiceNotifier notifier = ServiceNotifier::FromEnvironment();
  for (int i = 0; i < 3; ++i) notifier.Alive("again");
  EXPECT_EQ(Received().size(), 1u);
}

TEST_F(ServiceNotifierTest, AnotherProcessesWatchdogIsNotOurs) {
  setenv("NOTIFY_SOCKET", name_.c_str(), 1);
  setenv("WATCHDOG_USEC", "200000", 1);
  setenv("WATCHDOG_PID", "1", 1);
  ServiceNotifier::FromEnvironment().Alive("one");
  EXPECT_EQ(Received(), std::vector<std::string>{"STATUS=one"});
}

TEST_F(ServiceNotifierTest, TheVariablesAreNotInherited) {
  setenv("NOTIFY_SOCKET", name_.c_str(), 1);
  setenv("WATCHDOG_USEC", "200000", 1);
  setenv("WATCHDOG_PID", "1", 1);
  (void)ServiceNotifier::FromEnvironment();
  EXPECT_EQ(getenv("NOTIFY_SOCKET"), nullptr);
  EXPECT_EQ(getenv("WATCHDOG_USEC"), nullptr);
  EXPECT_EQ(getenv("WATCHDOG_PID"), nullptr);
}

TEST_F(ServiceNotifierTest, WithoutAManagerNothingIsDue) {
  ServiceNotifier notifier = ServiceNotifier::FromEnvironment();
  notifier.Ready();
  EXPECT_FALSE(notifier.IsDue());
  notifier.Alive("one");
  notifier.Stopping();
  EXPECT_TRUE(Received().empty());
}

TEST_F(ServiceNotifierTest, NamesThatAreNoSocketAreIgnored) {
  for (const std::string& name :
       {std::string("relative"), std::string("/"), "/" + std::string(200, 'x')}) {
    setenv("NOTIFY_SOCKET", name.c_str(), 1);
    ServiceNotifier notifier = ServiceNotifier::FromEnvironment();
    EXPECT_FALSE(notifier.IsDue()) << name;
    notifier.Ready();
  }
}

TEST_F(ServiceNotifierTest, AManagerThatDoesNotReadIsNotWaitedFor) {
  setenv("NOTIFY_SOCKET", name_.c_str(), 1);
  ServiceNotifier notifier = ServiceNotifier::FromEnvironment();
  for (int i = 0; i < 10'000; ++i) notifier.Stopping();
  EXPECT_GT(Received().size(), 0u);
}

}  // namespace
}  // namespace rocattach
