#include "userspace/watch/windows/per_process.h"

#include <gtest/gtest.h>

#include <memory>

namespace rocattach {
namespace {

struct Server {
  bool idle() const { return !busy; }
  bool busy = false;
};

TEST(PerProcessTest, ABusyServerKeepsItsProcessAndAnIdleOneServesTheNext) {
  int made = 0;
  PerProcess<Server> servers([&made] {
    ++made;
    return std::make_unique<Server>();
  });
  Server& first = servers.Of({1, 7});
  first.busy = true;
  Server& second = servers.Of({2, 7});
  EXPECT_NE(&first, &second);
  EXPECT_EQ(&servers.Of({1, 7}), &first);
  EXPECT_EQ(&servers.Of({2, 7}), &second) << "also while it is idle";
  EXPECT_EQ(&servers.Of({3, 7}), &second);
  second.busy = true;
  EXPECT_NE(&servers.Of({2, 7}), &second);
  EXPECT_EQ(made, 3);
  int seen = 0;
  servers.ForEach([&seen](const Server&) { ++seen; });
  EXPECT_EQ(seen, 3);
}

// After an attack with many processes, what served them is gone.
TEST(PerProcessTest, OnlyOneOfSeveralIdleServersIsKept) {
  int alive = 0;
  struct Counted : Server {
    explicit Counted(int* count) : alive(count) { ++*alive; }
    ~Counted() { --*alive; }
    int* const alive;
  };
  PerProcess<Counted> servers([&alive] { return std::make_unique<Counted>(&alive); });
  for (pid_t pid = 1; pid <= 100; ++pid) servers.Of({pid, 7}).busy = true;
  EXPECT_EQ(alive, 100);
  for (pid_t pid = 1; pid <= 99; ++pid) servers.Of({pid, 7}).busy = false;
  EXPECT_FALSE(servers.Of({101, 7}).busy);
  EXPECT_EQ(alive, 2) << "the busy one, and the one of the last process";
}

}  // namespace
}  // namespace rocattach
