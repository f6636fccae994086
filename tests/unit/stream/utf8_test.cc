#include "userspace/stream/utf8.h"

#include <gtest/gtest.h>

#include "schemas/stream.pb.h"

namespace rocattach {
namespace {

TEST(Utf8, KeepsWellFormedText) {
  for (const char* text : {"", "plain", "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x98\x80",
                           "\xed\x9f\xbf", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_EQ(SanitizeUtf8(text, 100), text);
  }
}

TEST(Utf8, ReplacesMalformedText) {
  const char* kBad = "\xef\xbf\xbd";
  EXPECT_EQ(SanitizeUtf8("a\xff", 100), std::string("a") + kBad);
  EXPECT_EQ(SanitizeUtf8("\xc3", 100), kBad) << "cut off";
  EXPECT_EQ(SanitizeUtf8("\xc0\xaf", 100), std::string(kBad) + kBad) << "overlong";
  EXPECT_EQ(SanitizeUtf8("\xed\xa0\x80", 100), std::string(kBad) + kBad + kBad)
      << "surrogate";
  EXPECT_EQ(SanitizeUtf8("\xf4\x90\x80\x80", 100).size(), 12u) << "beyond U+10FFFF";
  EXPECT_EQ(SanitizeUtf8("\x80"
                         "a",
                         100),
            std::string(kBad) + "a");
}

TEST(Utf8, CutsBetweenCharacters) {
  EXPECT_EQ(SanitizeUtf8("ab\xe2\x82\xac", 4), "ab");
  EXPECT_EQ(SanitizeUtf8("ab\xe2\x82\xac", 5), "ab\xe2\x82\xac");
}

TEST(Utf8, SanitizesEveryStringOfAMessage) {
  v1::Dictionary message;
  message.mutable_process()->set_comm("a\xff");
  message.mutable_process()->add_arguments("ok");
  message.mutable_process()->add_arguments("\xfe");
  message.add_kernels()->set_name("k\xff");
  message.set_recording_id("\xff");  // a field of bytes stays unchanged
  SanitizeStrings(100, &message);
  EXPECT_EQ(message.process().comm(), "a\xef\xbf\xbd");
  EXPECT_EQ(message.process().arguments(0), "ok");
  EXPECT_EQ(message.process().arguments(1), "\xef\xbf\xbd");
  EXPECT_EQ(message.kernels(0).name(), "k\xef\xbf\xbd");
  EXPECT_EQ(message.recording_id(), "\xff");
}

}  // namespace
}  // namespace rocattach
