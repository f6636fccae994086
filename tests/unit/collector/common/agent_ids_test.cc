#include "userspace/collector/common/agent_ids.h"

#include <gtest/gtest.h>

namespace rocattach::collector {
namespace {

TEST(AgentIdsTest, ADeviceKeepsTheIdThatItWasGiven) {
  AgentIds ids;
  EXPECT_EQ(ids.Find(0), 0);
  ids.Add(/*node_id=*/0, 1);
  ids.Add(/*node_id=*/7, 2);
  EXPECT_EQ(ids.Find(0), 1);
  EXPECT_EQ(ids.Find(7), 2);
  EXPECT_EQ(ids.Find(1), 0);
}

TEST(AgentIdsTest, AnAgentThatDidNotFitIntoTheDictionaryHasNone) {
  AgentIds ids;
  ids.Add(/*node_id=*/3, 0);
  EXPECT_EQ(ids.Find(3), 0);
  ids.Add(/*node_id=*/4, 1);
  EXPECT_EQ(ids.Find(4), 1);
}

TEST(AgentIdsTest, MoreDevicesThanThereIsRoomForAreLeftOut) {
  AgentIds ids;
  for (uint32_t node = 0; node <= AgentIds::kMax; ++node) {
    ids.Add(node, static_cast<uint16_t>(node + 1));
  }
  EXPECT_EQ(ids.Find(AgentIds::kMax - 1), AgentIds::kMax);
  EXPECT_EQ(ids.Find(AgentIds::kMax), 0);
}

}  // namespace
}  // namespace rocattach::collector
