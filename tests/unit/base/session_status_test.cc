#include "userspace/base/session_status.h"

#include <gtest/gtest.h>

#include <string>

namespace rocattach {
namespace {

TEST(SessionStatusTest, MessagesForUsersHaveNoStatusNames) {
  const absl::Status error =
      SessionError(SessionStatus::kCounterNotFound, "gfx90a has no set \"x\"");
  EXPECT_EQ(WithoutStatusName(error.message()), "gfx90a has no set \"x\"");
  const absl::Status again = SessionError(SessionStatus::kError, error.message());
  EXPECT_EQ(WithoutStatusName(again.message()), "gfx90a has no set \"x\"");
  EXPECT_EQ(WithoutStatusName("process 7: COUNTER_NOT_FOUND: no such"),
            "process 7: no such");
}

TEST(SessionStatusTest, OtherTextIsKept) {
  for (const char* text : {"", ":", "a: b", "SQ_WAVES: unknown", "no COUNTER_NOT_FOUND",
                           "ERROR", "file.yaml: ERRORS: 3"}) {
    EXPECT_EQ(WithoutStatusName(text), text);
  }
}

}  // namespace
}  // namespace rocattach
