#include "userspace/watch/per_process.h"

#include <gtest/gtest.h>

namespace rocattach {
namespace {

struct Server {
  bool idle() const { return !busy; }
  bool busy = false;
};

TEST(PerProcessTest, WhatIsBusyServesOneProcessAndWhatIsIdleTheNext) {
  int made = 0;
  PerProcess<Server> servers([&made] {
    ++made;
    return std::make_unique<Server>();
  });
  Server& first = servers.Of(1);
  first.busy = true;
  Server& second = servers.Of(2);
  EXPECT_NE(&first, &second);
  EXPECT_EQ(&servers.Of(1), &first);
  EXPECT_EQ(&servers.Of(2), &second) << "also while it is idle";
  EXPECT_EQ(&servers.Of(3), &second);
  second.busy = true;
  EXPECT_NE(&servers.Of(2), &second);
  EXPECT_EQ(made, 3);
  int seen = 0;
  servers.ForEach([&seen](const Server&) { ++seen; });
  EXPECT_EQ(seen, 3);
}

}  // namespace
}  // namespace rocattach
