#include "userspace/service/requested_attaches.h"

#include <gtest/gtest.h>

#include <vector>

namespace rocattach {
namespace {

class RequestedAttachesTest : public testing::Test {
 protected:
  uint64_t now_ = 1000;
  RequestedAttaches requested_{[this] { return now_; }};
};

TEST_F(RequestedAttachesTest, IsSettledOnceEachHasItsVerdict) {
  EXPECT_TRUE(requested_.settled());
  requested_.Add({1, 2});
  EXPECT_FALSE(requested_.settled());
  requested_.OnVerdict(1, /*retried=*/false);
  requested_.OnVerdict(7, /*retried=*/false);  // a child
  now_ += 1'000'000;
  EXPECT_FALSE(requested_.settled());
  requested_.Remove(2);
  EXPECT_TRUE(requested_.settled());
}

TEST_F(RequestedAttachesTest, ARetryMayBringAnotherVerdict) {
  requested_.Add({1});
  requested_.OnVerdict(1, /*retried=*/true);
  EXPECT_FALSE(requested_.settled());
  requested_.OnVerdict(1, /*retried=*/true);
  EXPECT_TRUE(requested_.settled()) << "there is only one";
  requested_.Add({1});
  requested_.OnVerdict(1, /*retried=*/true);
  now_ += 2999;
  EXPECT_FALSE(requested_.settled());
  now_ += 1;
  EXPECT_TRUE(requested_.settled()) << "it brought none";
}

TEST_F(RequestedAttachesTest, GivesUpOnThoseThatHaveNoVerdictInTime) {
  requested_.Add({1, 2});
  now_ += 500;
  requested_.Add({3});
  now_ += 499;
  EXPECT_TRUE(requested_.TakeOverdue(1000).empty());
  now_ += 1;
  EXPECT_EQ(requested_.TakeOverdue(1000), (std::vector<pid_t>{1, 2}));
  EXPECT_TRUE(requested_.TakeOverdue(1000).empty()) << "once";
  EXPECT_FALSE(requested_.settled());
  now_ += 500;
  EXPECT_EQ(requested_.TakeOverdue(1000), std::vector<pid_t>{3});
  EXPECT_TRUE(requested_.settled());
}

TEST_F(RequestedAttachesTest, WaitsWhileOthersHaveTheirTurns) {
  requested_.Add({1, 2, 3, 4});
  now_ += 900;
  requested_.OnVerdict(1, /*retried=*/false);
  now_ += 900;
  EXPECT_TRUE(requested_.TakeOverdue(1000).empty());
  requested_.Remove(2);
  now_ += 900;
  requested_.OnVerdict(3, /*retried=*/true);
  requested_.OnVerdict(7, /*retried=*/false);  // was not requested
  now_ += 1000;
  EXPECT_EQ(requested_.TakeOverdue(1000), std::vector<pid_t>{4}) << "3 has a verdict";
}

}  // namespace
}  // namespace rocattach
