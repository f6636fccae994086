#include "userspace/record/window_state.h"

#include <gtest/gtest.h>

namespace rocattach {
namespace {

TEST(WindowState, VerdictsKeepTheirNamesInStreams) {
  for (const Verdict verdict : {Verdict::kOpen, Verdict::kAttached, Verdict::kPassed,
                                Verdict::kRefused, Verdict::kMissed}) {
    EXPECT_EQ(VerdictName(StateOf(verdict)), VerdictName(verdict));
  }
  EXPECT_EQ(VerdictName(v1::WINDOW_STATE_ATTACHED), "attached");
  EXPECT_EQ(VerdictName(v1::WINDOW_STATE_DISCOVERED), "open");
  EXPECT_EQ(VerdictName(v1::WINDOW_STATE_UNSPECIFIED), "open");
  EXPECT_EQ(VerdictName(static_cast<v1::WindowState>(99)), "open");
}

}  // namespace
}  // namespace rocattach
