// Messages of `rocattach convert`: its progress, and what is missing from an input.
#include "userspace/cli/terminal/convert_console.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rocattach {
namespace {

TEST(ConvertProgress, HasBarRateAndTimeLeft) {
  EXPECT_EQ(ConvertProgress::Line(500, 1000, 3'000'000, 2),
            "[===============>              ]  50 %  3,000,000 records, 1,500,000/s, "
            "2.00 s left");
  EXPECT_EQ(ConvertProgress::Line(0, 1000, 0, 0),
            "[>                             ]   0 %  0 records, 0/s");
  // The file has grown during the conversion.
  EXPECT_EQ(ConvertProgress::Line(2000, 1000, 10, 1),
            "[==============================] 100 %  10 records, 10/s, 0 ns left");
}

TEST(ConvertProgress, OfAPipeHasNoEnd) {
  EXPECT_EQ(ConvertProgress::Line(500, 0, 20, 2), "20 records, 10/s");
}

TEST(MissingFromInput, IsNamedForOneInput) {
  ReadStats before, after;
  before.recordings = 1;  // an earlier input, without its end
  before.skipped_bytes = 5;
  after = before;
  after.recordings = 2;
  after.recordings_ended = 1;
  EXPECT_THAT(MissingFromInput(before, after), testing::ElementsAre());
  after.skipped_bytes = 7;
  after.missing_frames = 3;
  after.unknown_frames = 1;
  after.recordings_ended = 0;
  EXPECT_THAT(MissingFromInput(before, after),
              testing::ElementsAre("2 bytes outside intact frames", "3 missing frames",
                                   "1 frames of a newer version", "its end"));
}

}  // namespace
}  // namespace rocattach
