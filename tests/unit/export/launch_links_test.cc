#include "userspace/export/common/launch_links.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schemas/records.pb.h"

namespace rocattach {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr uint64_t kOther = LaunchLinks::kOtherCount;

ApiCallRecord Call(uint64_t id, uint32_t tid, uint64_t begin_ns, uint64_t end_ns,
                   v1::ApiDomain domain = v1::API_DOMAIN_HIP) {
  ApiCallRecord call;
  call.correlation_id = id;
  call.tid = tid;
  call.begin_ns = begin_ns;
  call.end_ns = end_ns;
  call.domain = static_cast<uint16_t>(domain);
  return call;
}

rocattach_dispatch Dispatch(uint64_t id, uint32_t tid, uint64_t enqueue_ns) {
  rocattach_dispatch dispatch = {};
  dispatch.correlation_id = id;
  dispatch.tid = tid;
  dispatch.enqueue_ns = enqueue_ns;
  dispatch.end_ns = enqueue_ns + 10;
  return dispatch;
}

// A call made by the call `ancestor`.
ApiCallRecord InnerCall(uint64_t id, uint64_t ancestor, uint32_t tid, uint64_t begin_ns,
                        uint64_t end_ns) {
  ApiCallRecord call = Call(id, tid, begin_ns, end_ns);
  call.ancestor_id = ancestor;
  return call;
}

class LaunchLinksTest : public testing::Test {
 protected:
  void AddCalls(const std::vector<ApiCallRecord>& calls) { links_.Add(calls); }
  void AddDispatch(uint64_t id, uint32_t tid, uint64_t enqueue_ns) {
    const rocattach_dispatch dispatch = Dispatch(id, tid, enqueue_ns);
    links_.Add({&dispatch, 1});
  }
  // Operations that were linked since the last time: the recorded ID, and the new one.
  std::vector<std::pair<uint64_t, uint64_t>> Known() {
    std::vector<std::pair<uint64_t, uint64_t>> known;
    for (const LinkedDispatch& dispatch : *links_.dispatches()) {
      known.emplace_back(dispatch.record.correlation_id, dispatch.correlation_id);
    }
    links_.dispatches()->clear();
    return known;
  }

  LaunchLinks links_;
};

TEST_F(LaunchLinksTest, TheCallMayComeFirst) {
  AddCalls({Call(5, 1, 100, 200), Call(6, 1, 300, 400)});
  AddDispatch(1, 1, 150);
  AddDispatch(2, 1, 300);
  AddDispatch(3, 1, 400);
  EXPECT_THAT(Known(), ElementsAre(Pair(1, 5), Pair(2, 6), Pair(3, 6)));
}

TEST_F(LaunchLinksTest, TheOperationMayComeFirst) {
  links_.ExpectCalls(true);
  AddDispatch(1, 1, 150);
  EXPECT_THAT(Known(), IsEmpty());
  AddCalls({Call(5, 1, 100, 200)});
  EXPECT_THAT(Known(), ElementsAre(Pair(1, 5)));
}

TEST_F(LaunchLinksTest, OperationsKeepTheirOrder) {
  AddCalls({Call(5, 1, 100, 200)});
  AddDispatch(1, 2, 150);
  AddDispatch(2, 1, 150);
  EXPECT_THAT(Known(), IsEmpty());
  AddCalls({Call(6, 2, 100, 200)});
  EXPECT_THAT(Known(), ElementsAre(Pair(1, 6), Pair(2, 5)));
}

TEST_F(LaunchLinksTest, CopiesAreLinkedToo) {
  links_.ExpectCalls(true);
  rocattach_copy copy = {};
  copy.correlation_id = 3;
  copy.tid = 1;
  copy.enqueue_ns = 150;
  links_.Add({&copy, 1});
  EXPECT_THAT(*links_.copies(), IsEmpty());
  AddCalls({Call(5, 1, 100, 200)});
  ASSERT_EQ(links_.copies()->size(), 1u);
  EXPECT_EQ(links_.copies()->at(0).correlation_id, 5u);
}

TEST_F(LaunchLinksTest, TheInnermostCallCounts) {
  // In the order in which they end, as in a recording.
  const std::vector<ApiCallRecord> calls = {
      InnerCall(3, 2, 1, 120, 130), InnerCall(4, 2, 1, 140, 150),
      InnerCall(2, 1, 1, 110, 160), Call(1, 1, 100, 200)};
  AddCalls(calls);
  AddDispatch(10, 1, 125);
  AddDispatch(11, 1, 135);
  AddDispatch(12, 1, 150);
  AddDispatch(13, 1, 105);
  AddDispatch(14, 1, 170);
  const auto want =
      ElementsAre(Pair(10, 3), Pair(11, 2), Pair(12, 4), Pair(13, 1), Pair(14, 1));
  EXPECT_THAT(Known(), want);
  // In the opposite order, and one call at a time.
  links_ = LaunchLinks();
  links_.ExpectCalls(true);
  AddDispatch(10, 1, 125);
  AddDispatch(11, 1, 135);
  AddDispatch(12, 1, 150);
  AddDispatch(13, 1, 105);
  AddDispatch(14, 1, 170);
  for (const ApiCallRecord& call : calls) AddCalls({call});
  EXPECT_THAT(Known(), want);
}

TEST_F(LaunchLinksTest, AnOuterCallMayComeAfterTheOperation) {
  AddCalls({InnerCall(3, 2, 1, 140, 160)});
  AddDispatch(1, 1, 120);
  EXPECT_THAT(Known(), IsEmpty());
  AddCalls({Call(2, 1, 100, 200)});
  EXPECT_THAT(Known(), ElementsAre(Pair(1, 2)));
}

TEST_F(LaunchLinksTest, ALaterOutermostCallEndsTheWaiting) {
  links_.ExpectCalls(true);
  AddDispatch(1, 1, 100);
  AddDispatch(2, 1, 150);
  AddDispatch(3, 2, 100);  // from another thread
  AddDispatch(4, 1, 250);
  AddCalls({InnerCall(5, 9, 1, 110, 120)});  // the call around it may come
  EXPECT_THAT(Known(), IsEmpty());
  AddCalls({Call(6, 1, 140, 200)});
  EXPECT_THAT(Known(), ElementsAre(Pair(1, 1 | kOther), Pair(2, 6)));
  // The same when the operation comes last.
  AddCalls({Call(7, 2, 90, 200)});
  AddDispatch(5, 1, 130);
  EXPECT_THAT(Known(), ElementsAre(Pair(3, 7)));
  AddCalls({Call(8, 1, 300, 400)});
  EXPECT_THAT(Known(), ElementsAre(Pair(4, 4 | kOther), Pair(5, 5 | kOther)));
  AddDispatch(6, 1, 250);
  EXPECT_THAT(Known(), ElementsAre(Pair(6, 6 | kOther)));
}

// Older versions of the SDK do not report which call made a call.
TEST_F(LaunchLinksTest, WithoutAncestorsOperationsWait) {
  AddCalls({Call(2, 1, 110, 120), Call(1, 1, 100, 200)});
  AddDispatch(1, 1, 310);
  AddCalls({Call(4, 1, 320, 330)});
  EXPECT_THAT(Known(), IsEmpty());
  AddCalls({Call(3, 1, 300, 400)});
  EXPECT_THAT(Known(), ElementsAre(Pair(1, 3)));
}

TEST_F(LaunchLinksTest, OtherThreadsAndMarkersDoNotCount) {
  AddCalls({Call(5, 2, 100, 200), Call(6, 1, 100, 200, v1::API_DOMAIN_MARKER)});
  AddDispatch(1, 1, 150);
  links_.Release(/*all=*/true);
  EXPECT_THAT(Known(), ElementsAre(Pair(1, 1 | kOther)));
}

TEST_F(LaunchLinksTest, WithoutCallsNothingWaitsAndNumbersStay) {
  AddDispatch(1, 1, 150);
  EXPECT_THAT(Known(), ElementsAre(Pair(1, 1)));
  // Calls that come later after all get numbers of the other count.
  AddCalls({Call(1, 1, 200, 300)});
  AddDispatch(2, 1, 250);
  EXPECT_EQ(links_.OfCall(1), 1 | kOther);
  EXPECT_THAT(Known(), ElementsAre(Pair(2, 1 | kOther)));
  EXPECT_EQ(links_.OfCall(0), 0u);
}

TEST_F(LaunchLinksTest, MemoryRecordsUseTheNumbersOfCalls) {
  links_.BeforeCalls();
  EXPECT_EQ(links_.OfCall(1), 1u);
  AddDispatch(1, 1, 150);
  EXPECT_THAT(Known(), ElementsAre(Pair(1, 1 | kOther)));
}

TEST_F(LaunchLinksTest, ACallThatHasNoIdLinksNothing) {
  AddCalls({Call(0, 1, 100, 200)});
  AddDispatch(1, 1, 150);
  EXPECT_THAT(Known(), ElementsAre(Pair(1, 1 | kOther)));
}

TEST_F(LaunchLinksTest, WaitingEndsAsTheRecordingAdvances) {
  links_.ExpectCalls(true);
  AddDispatch(1, 1, 150);
  AddCalls({Call(5, 2, 200, LaunchLinks::kMaxWaitNs)});
  EXPECT_THAT(Known(), IsEmpty());
  AddCalls({Call(6, 2, 200, LaunchLinks::kMaxWaitNs + 1000)});
  EXPECT_THAT(Known(), ElementsAre(Pair(1, 1 | kOther)));
}

TEST_F(LaunchLinksTest, AFollowerGetsOperationsAtTheSecondFlush) {
  links_.ExpectCalls(true);
  AddDispatch(1, 1, 150);
  links_.Release(/*all=*/false);
  EXPECT_THAT(Known(), IsEmpty());
  AddDispatch(2, 1, 160);
  links_.Release(/*all=*/false);
  EXPECT_THAT(Known(), ElementsAre(Pair(1, 1 | kOther)));
}

TEST_F(LaunchLinksTest, LimitsCostLinksAndNothingElse) {
  links_.set_window(/*waiting=*/10, /*calls=*/100);
  links_.ExpectCalls(true);
  for (uint64_t i = 1; i <= 25; ++i) AddDispatch(i, 1, i);
  EXPECT_EQ(Known().size(), 15u);
  links_.Release(/*all=*/true);
  EXPECT_EQ(Known().size(), 10u);
  for (uint64_t i = 1; i <= 1000; ++i) {
    AddCalls(
        {InnerCall(i, i + 9999, static_cast<uint32_t>(i % 7), 100 * i, 100 * i + 50)});
  }
  AddDispatch(30, 6, 100 * 13);  // its call is forgotten
  EXPECT_THAT(Known(), IsEmpty());
  links_.Release(/*all=*/true);
  EXPECT_THAT(Known(), ElementsAre(Pair(30, 30 | kOther)));
  AddDispatch(31, 6, 100 * 993);
  EXPECT_THAT(Known(), ElementsAre(Pair(31, 993)));
}

TEST_F(LaunchLinksTest, MoreThreadsThanAreRemembered) {
  links_.set_window(10, 1000);
  for (uint32_t tid = 1; tid <= 5000; ++tid) AddCalls({Call(tid, tid, 100, 200)});
  AddDispatch(1, 5000, 150);
  EXPECT_THAT(Known(), ElementsAre(Pair(1, 5000)));
}

// Only damaged inputs have these: ends out of order, deep nesting, times of any kind.
TEST_F(LaunchLinksTest, SurvivesAnything) {
  uint64_t random = 1;
  const auto below = [&](uint64_t limit) {
    random = random * 6364136223846793005 + 1442695040888963407;
    return (random >> 33) % limit;
  };
  links_.set_window(64, 256);
  size_t added = 0, known = 0;
  for (int i = 0; i < 20'000; ++i) {
    const uint32_t tid = static_cast<uint32_t>(below(3));
    const uint64_t begin = below(2) == 0 ? below(1000) : UINT64_MAX - below(1000);
    if (below(2) == 0) {
      AddCalls({Call(below(100), tid, begin, begin + below(500) - 100)});
    } else {
      AddDispatch(below(100), tid, begin);
      ++added;
    }
    if (below(100) == 0) links_.Release(below(2) == 0);
    known += Known().size();
  }
  links_.Release(true);
  EXPECT_EQ(known + Known().size(), added);
}

}  // namespace
}  // namespace rocattach
