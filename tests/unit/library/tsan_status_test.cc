// Under ThreadSanitizer only: the definition in tests/tsan/absl_status.cc.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "absl/status/status.h"

namespace rocattach {
namespace {

// With the library's own function, ThreadSanitizer reports each run of this test.
TEST(TsanStatus, MayBeReleasedByManyThreads) {
  std::atomic<int> right = 0;
  for (int round = 0; round < 100; ++round) {
    absl::Status shared = absl::NotFoundError("longer than what fits a status itself");
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([copy = shared, &right] {
        const absl::Status mine = copy;
        right += absl::IsNotFound(mine);
      });
    }
    shared = absl::OkStatus();
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_EQ(right, 400);
}

}  // namespace
}  // namespace rocattach
