#include "userspace/service/requested_attaches.h"

#include <gtest/gtest.h>

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
  requested_.NoteVerdict(1, /*retried=*/false);
  requested_.NoteVerdict(7, /*retried=*/false);  // a child
  now_ += 1'000'000;
  EXPECT_FALSE(requested_.settled());
  requested_.Remove(2);
  EXPECT_TRUE(requested_.settled());
}

TEST_F(RequestedAttachesTest, ARetryMayBringAnotherVerdict) {
  requested_.Add({1});
  requested_.NoteVerdict(1, /*retried=*/true);
  EXPECT_FALSE(requested_.settled());
  requested_.NoteVerdict(1, /*retried=*/true);
  EXPECT_TRUE(requested_.settled()) << "there is only one";
  requested_.Add({1});
  requested_.NoteVerdict(1, /*retried=*/true);
  now_ += 2999;
  EXPECT_FALSE(requested_.settled());
  now_ += 1;
  EXPECT_TRUE(requested_.settled()) << "it brought none";
}

}  // namespace
}  // namespace rocattach
