#include "userspace/base/session_status.h"

#include <gtest/gtest.h>

#include "absl/status/status.h"

namespace rocattach {
namespace {

TEST(SessionStatusTest, ErrorsCarryTheStatusBesideTheMessage) {
  for (int status = kLastSessionStatus; status < 0; ++status) {
    const absl::Status error = SessionError(static_cast<SessionStatus>(status), "why");
    EXPECT_FALSE(error.ok()) << status;
    EXPECT_EQ(static_cast<int>(SessionStatusOf(error)), status);
    EXPECT_EQ(error.message(), "why");
  }
}

TEST(SessionStatusTest, OtherStatusesHaveTheNearestOne) {
  EXPECT_EQ(SessionStatusOf(absl::OkStatus()), SessionStatus::kSuccess);
  EXPECT_EQ(SessionStatusOf(absl::NotFoundError("x")), SessionStatus::kError);
}

TEST(SessionStatusTest, NamesNumbersAndWords) {
  EXPECT_EQ(SessionStatusName(-17), "SESSION_NOT_FOUND");
  EXPECT_EQ(SessionStatusName(0), "SUCCESS");
  EXPECT_EQ(SessionStatusName(1), "");
  EXPECT_EQ(SessionStatusName(-39), "");
  for (int status = kLastSessionStatus; status <= 0; ++status) {
    EXPECT_STRNE(SessionStatusText(status), "") << status;
    EXPECT_STRNE(SessionStatusText(status), SessionStatusText(1)) << status;
  }
}

}  // namespace
}  // namespace rocattach
