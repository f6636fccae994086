#include "userspace/export/common/launch_matcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rocattach {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

ApiCallRecord Call(uint32_t tid, uint64_t begin_ns, uint64_t end_ns) {
  ApiCallRecord call;
  call.tid = tid;
  call.begin_ns = begin_ns;
  call.end_ns = end_ns;
  return call;
}

std::vector<std::pair<size_t, uint64_t>> Match(const std::vector<ApiCallRecord>& calls,
                                               LaunchMatcher* matcher) {
  std::vector<const ApiCallRecord*> sorted;
  for (const ApiCallRecord& call : calls) sorted.push_back(&call);
  SortCalls(&sorted);
  return matcher->Match(sorted);
}

TEST(LaunchMatcher, TheInnermostCallSubmitted) {
  LaunchMatcher matcher;
  EXPECT_TRUE(matcher.Submit(1, 150, 7));
  EXPECT_TRUE(matcher.Submit(1, 120, 8));
  EXPECT_TRUE(matcher.Submit(1, 180, 9));
  // In the order in which they end, as in a recording.
  EXPECT_THAT(Match({Call(1, 140, 160), Call(1, 100, 200)}, &matcher),
              ElementsAre(Pair(0, 8), Pair(0, 9), Pair(1, 7)));
}

TEST(LaunchMatcher, CallsOfOtherThreadsDoNotCount) {
  LaunchMatcher matcher;
  matcher.Submit(2, 150, 7);
  matcher.Submit(3, 150, 8);
  EXPECT_THAT(Match({Call(1, 100, 200), Call(3, 100, 200)}, &matcher),
              ElementsAre(Pair(1, 8)));
  EXPECT_THAT(Match({Call(2, 100, 200)}, &matcher), ElementsAre(Pair(0, 7)));
}

TEST(LaunchMatcher, AnOuterCallMayComeLater) {
  LaunchMatcher matcher;
  matcher.Submit(1, 110, 7);
  EXPECT_THAT(Match({Call(1, 140, 160)}, &matcher), IsEmpty());
  EXPECT_THAT(Match({Call(1, 100, 200)}, &matcher), ElementsAre(Pair(0, 7)));
  // It is matched only once.
  EXPECT_THAT(Match({Call(1, 90, 300)}, &matcher), IsEmpty());
}

TEST(LaunchMatcher, OperationsThatComeAfterTheirCallAreNotKept) {
  LaunchMatcher matcher;
  Match({Call(1, 100, 200)}, &matcher);
  EXPECT_FALSE(matcher.Submit(1, 150, 7));
  EXPECT_TRUE(matcher.Submit(2, 150, 7));
  EXPECT_TRUE(matcher.Submit(1, 201, 8));
}

TEST(LaunchMatcher, LimitsBelongToTheCall) {
  LaunchMatcher matcher;
  matcher.Submit(1, 100, 7);
  matcher.Submit(1, 200, 8);
  matcher.Submit(1, 201, 9);
  EXPECT_THAT(Match({Call(1, 100, 200)}, &matcher),
              ElementsAre(Pair(0, 7), Pair(0, 8)));
}

TEST(LaunchMatcher, TheLatestOperationsAreKept) {
  LaunchMatcher matcher;
  constexpr uint64_t kMany = 3 * LaunchMatcher::kMaxWaiting;
  for (uint64_t i = 1; i <= kMany; ++i) matcher.Submit(1, i, i);
  const auto matches = Match({Call(1, 0, kMany)}, &matcher);
  EXPECT_LE(matches.size(), LaunchMatcher::kMaxWaiting);
  EXPECT_GE(matches.size(), LaunchMatcher::kMaxWaiting / 2);
  EXPECT_EQ(matches.back().second, kMany);
}

TEST(SortCalls, OuterOnesComeFirst) {
  const ApiCallRecord inner = Call(1, 100, 150), outer = Call(1, 100, 200);
  const ApiCallRecord other = Call(0, 300, 400);
  std::vector<const ApiCallRecord*> calls = {&inner, &outer, &other};
  SortCalls(&calls);
  EXPECT_THAT(calls, ElementsAre(&other, &outer, &inner));
}

}  // namespace
}  // namespace rocattach
