// Recordings by earlier versions remain readable. Beside each one is the text that
// `rocattach dump` of its own version printed.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "userspace/report/record_printer.h"
#include "userspace/stream/decoder.h"
#include "userspace/stream/record_kinds.h"

namespace rocattach {
namespace {

std::string ReadWhole(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

class RecordedBeforeTest : public ::testing::TestWithParam<const char*> {};

TEST_P(RecordedBeforeTest, PrintsTheSame) {
  const std::string path = std::string(ROCATTACH_RECORDINGS) + "/" + GetParam();
  const std::string bytes = ReadWhole(path + ".recording");
  std::string printed;
  ReadStats stats;
  {
    RecordPrinter printer({}, [&](absl::string_view lines) {
      printed.append(lines.data(), lines.size());
    });
    StreamDecoder decoder(&printer);
    decoder.Feed(bytes);
    decoder.FinishInput();
    stats = decoder.stats();
  }
  EXPECT_EQ(printed, ReadWhole(path + ".txt"));
  EXPECT_FALSE(stats.damaged());
  EXPECT_EQ(stats.recordings_ended, 1u);
  EXPECT_EQ(stats.records[RecordKind::kDispatch], 3u);
  ForEachRecordKind([&](auto kind) {
    // Only the kinds that existed in that version.
    if (kind.kKind == RecordKind::kMemory) return;
    EXPECT_GT(stats.records[kind.kKind], 0u) << "the recording has every kind";
  });
}

INSTANTIATE_TEST_SUITE_P(Versions, RecordedBeforeTest,
                         ::testing::Values("0.1.0-plain", "0.1.0-compressed"),
                         [](const auto& test) {
                           std::string name = test.param;
                           for (char& c : name) {
                             if (c == '.' || c == '-') c = '_';
                           }
                           return name;
                         });

}  // namespace
}  // namespace rocattach
