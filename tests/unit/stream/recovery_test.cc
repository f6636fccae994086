// Recovery of damaged files: everything that readers found intact is there afterwards,
// and they find no damage.
#include "userspace/stream/recovery.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/temporary_directory.h"
#include "tests/unit/stream/stream_testing.h"
#include "userspace/base/file.h"

namespace rocattach {
namespace {

using ::testing::HasSubstr;

class RecoveryTest : public testing::Test {
 protected:
  std::string from() const { return directory_ / "from"; }
  std::string to() const { return directory_ / "to"; }

  absl::StatusOr<RecoveryResult> Recover(absl::string_view bytes) {
    unlink(to().c_str());
    auto fd = OpenFile(from(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    EXPECT_TRUE(fd.ok() && WriteAll(fd->get(), bytes).ok());
    return RecoverStream(from(), to(), nullptr);
  }
  std::string Recovered() const { return *ReadFile(to(), 1 << 24); }
  bool Exists() const { return access(to().c_str(), F_OK) == 0; }

  // Expects that everything readable in `bytes` is readable in the recovered file, and
  // without any damage.
  RecoveryResult ExpectWhole(absl::string_view bytes, const std::string& what);

  const testing_support::TemporaryDirectory directory_;
};

// The records of all streams, as text.
std::vector<std::string> Records(const KeepingVisitor& visitor) {
  std::vector<std::string> records;
  for (const auto& [key, stream] : visitor.streams) {
    for (const auto& record : stream.dispatches) records.push_back(Describe(record));
    for (const auto& record : stream.copies) records.push_back(Describe(record));
    for (const auto& [id, kernel] : stream.kernels) records.push_back(kernel.name());
    for (const auto& end : stream.ends) records.push_back(end.ShortDebugString());
  }
  return records;
}

RecoveryResult RecoveryTest::ExpectWhole(absl::string_view bytes,
                                         const std::string& what) {
  SCOPED_TRACE(what);
  auto result = Recover(bytes);
  EXPECT_TRUE(result.ok()) << result.status();
  if (!result.ok()) return {};
  KeepingVisitor before, after;
  ReadStats damaged = ReadBytes(bytes, &before);
  ReadStats whole = ReadBytes(Recovered(), &after);
  EXPECT_FALSE(whole.damaged());
  EXPECT_TRUE(after.damages.empty()) << after.damages[0].what;
  EXPECT_EQ(whole.recordings, damaged.recordings);
  EXPECT_EQ(whole.recordings_ended, whole.recordings);
  EXPECT_EQ(whole.frames, result->frames_written);
  EXPECT_EQ(whole.bytes, result->bytes_written);
  EXPECT_EQ(Records(after), Records(before));
  EXPECT_EQ(after.headers.size(), whole.recordings);
  EXPECT_EQ(result->read.skipped_bytes, damaged.skipped_bytes);
  EXPECT_EQ(result->lost.bytes_skipped(), damaged.skipped_bytes);
  EXPECT_EQ(result->lost.frames_missing(), damaged.missing_frames);
  EXPECT_EQ(result->lost.records_lost(), damaged.lost_records);
  return *std::move(result);
}

TEST_F(RecoveryTest, IntactFilesAreCopiedAsTheyAre) {
  std::string two = SampleRecording(0) + SampleRecording(1);
  RecoveryResult result = ExpectWhole(two, "two recordings");
  EXPECT_FALSE(result.incomplete());
  EXPECT_EQ(Recovered(), two);
  struct stat info;
  ASSERT_EQ(stat(to().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u) << "readable to nobody more than before";
}

TEST_F(RecoveryTest, CutAnywhere) {
  std::string bytes = SampleRecording(1);
  std::vector<size_t> offsets = FrameOffsets(bytes);
  EXPECT_EQ(Recover(bytes.substr(0, offsets[1] - 1)).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(Exists());
  for (size_t cut = offsets[1]; cut < bytes.size(); cut += 23) {
    RecoveryResult result = ExpectWhole(bytes.substr(0, cut), absl::StrCat(cut));
    EXPECT_TRUE(result.incomplete());
    EXPECT_EQ(result.ends_made, 1u);
    KeepingVisitor visitor;
    ReadBytes(Recovered(), &visitor);
    ASSERT_EQ(visitor.stream_ends.size(), 1u);
    const v1::StreamEnd& end = visitor.stream_ends[0];
    EXPECT_TRUE(end.recovery().end_made());
    EXPECT_EQ(end.dispatches(), visitor.dispatch_count());
  }
}

TEST_F(RecoveryTest, FlippedAnywhere) {
  std::string bytes = SampleRecording(1);
  std::vector<size_t> offsets = FrameOffsets(bytes);
  const size_t last = offsets[offsets.size() - 2];
  for (size_t at = 0; at < bytes.size(); at += 29) {
    std::string bad = bytes;
    bad[at] = static_cast<char>(bad[at] ^ (1 << at % 8));
    RecoveryResult result = ExpectWhole(bad, absl::StrCat(at));
    EXPECT_TRUE(result.incomplete());
    EXPECT_EQ(result.ends_made, at >= last ? 1u : 0u);
    EXPECT_EQ(result.headers_made, at < offsets[1] ? 1u : 0u);
    KeepingVisitor visitor;
    ReadBytes(Recovered(), &visitor);
    ASSERT_EQ(visitor.stream_ends.size(), 1u);
    EXPECT_GT(visitor.stream_ends[0].recovery().bytes_skipped(), 0u);
  }
}

TEST_F(RecoveryTest, WithoutTheBeginning) {
  std::string bytes = SampleRecording(0);
  std::vector<size_t> offsets = FrameOffsets(bytes);
  KeepingVisitor original;
  ReadBytes(bytes, &original);
  for (size_t frame = 1; frame + 1 < offsets.size(); ++frame) {
    RecoveryResult result =
        ExpectWhole(bytes.substr(offsets[frame]), absl::StrCat("frame ", frame));
    EXPECT_EQ(result.headers_made, 1u);
  }
  ExpectWhole(bytes.substr(offsets[1]), "all but the header");
  KeepingVisitor visitor;
  ReadBytes(Recovered(), &visitor);
  ASSERT_EQ(visitor.headers.size(), 1u);
  EXPECT_EQ(visitor.headers[0].recording_id(), original.headers[0].recording_id());
  EXPECT_EQ(visitor.headers[0].hostname(), "") << "not that of this machine";
  EXPECT_GT(visitor.headers[0].descriptors().file_size(), 0);
  // A header that is repeated later in the file is moved to the front.
  std::string before = bytes.substr(offsets[1], offsets[3] - offsets[1]);
  RecoveryResult result = ExpectWhole(
      before + bytes.substr(0, offsets[1]) + bytes.substr(offsets[3]), "repeated");
  EXPECT_EQ(result.headers_made, 0u);
  KeepingVisitor moved;
  ReadBytes(Recovered(), &moved);
  EXPECT_EQ(moved.headers[0].hostname(), original.headers[0].hostname());
}

TEST_F(RecoveryTest, SeveralRecordingsInOneFile) {
  std::string a = SampleRecording(0);
  std::string b = SampleRecording(1);
  std::vector<size_t> offsets = FrameOffsets(a);
  for (size_t cut : {offsets[4] + 37, offsets[4] + 3, offsets[2] + 1}) {
    ExpectWhole(a.substr(0, cut) + b + a.substr(offsets[2]), absl::StrCat(cut));
  }
  // Bytes between two recordings belong to neither of them, but they are still
  // reported.
  RecoveryResult result = ExpectWhole(a + "rubbish" + b + "more", "rubbish");
  EXPECT_EQ(result.lost.bytes_skipped(), 11u);
  EXPECT_EQ(Recovered().substr(0, a.size()), a);
}

TEST_F(RecoveryTest, FramesThatThisProgramDoesNotKnow) {
  std::string bytes = SampleRecording(0);
  std::vector<size_t> offsets = FrameOffsets(bytes);
  FrameHeader header;
  header.stream_id = 777;
  header.records = 3;
  std::string frames[3];
  header.type = 200;
  BuildFrame(header, "of a newer program", &frames[0]);
  header.version = 9;
  BuildFrame(header, "of a newer layout", &frames[1]);
  header.version = 1;
  header.type = v1::FRAME_TYPE_ACCOUNT;
  BuildFrame(header, "\xff\xff", &frames[2]);
  std::string mixed = bytes.substr(0, offsets[3]) + frames[0] + frames[1] + frames[2] +
                      bytes.substr(offsets[3]);
  auto result = Recover(mixed);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->incomplete());
  EXPECT_EQ(result->lost.frames_left_out(), 2u);
  EXPECT_EQ(result->lost.records_lost(), 6u);
  KeepingVisitor visitor;
  ReadStats stats = ReadBytes(Recovered(), &visitor);
  EXPECT_FALSE(stats.damaged());
  EXPECT_EQ(stats.unknown_frames, 1u);
  EXPECT_EQ(visitor.dispatch_count(), 40u);
}

TEST_F(RecoveryTest, LossesAddUpOverRecoveries) {
  std::string bytes = SampleRecording(0);
  std::vector<size_t> offsets = FrameOffsets(bytes);
  ExpectWhole(bytes.substr(0, offsets[3]) + bytes.substr(offsets[4]), "once");
  std::string once = Recovered();
  offsets = FrameOffsets(once);
  ExpectWhole(once.substr(0, offsets[4]) + once.substr(offsets[5]), "twice");
  KeepingVisitor visitor;
  ReadBytes(Recovered(), &visitor);
  EXPECT_EQ(visitor.stream_ends.at(0).recovery().frames_missing(), 2u);
}

TEST_F(RecoveryTest, NothingIsOverwritten) {
  ASSERT_TRUE(Recover(SampleRecording(0)).ok());
  auto again = RecoverStream(from(), to(), nullptr);
  EXPECT_EQ(again.status().code(), absl::StatusCode::kAlreadyExists) << again.status();
  EXPECT_THAT(std::string(again.status().message()), HasSubstr(to()));
  EXPECT_EQ(RecoverStream(from(), from(), nullptr).status().code(),
            absl::StatusCode::kAlreadyExists);
  ASSERT_EQ(unlink(to().c_str()), 0);
  ASSERT_EQ(symlink("nowhere", to().c_str()), 0);
  EXPECT_EQ(RecoverStream(from(), to(), nullptr).status().code(),
            absl::StatusCode::kAlreadyExists);
}

TEST_F(RecoveryTest, NothingIsLeftOfAFailure) {
  EXPECT_FALSE(Recover("no stream").ok());
  EXPECT_FALSE(Exists());
  EXPECT_FALSE(RecoverStream(directory_.path(), to(), nullptr).ok());
  EXPECT_FALSE(RecoverStream("/dev/zero", to(), nullptr).ok());
  EXPECT_FALSE(Exists());
  ASSERT_TRUE(Recover(SampleRecording(0)).ok());
  ASSERT_EQ(unlink(to().c_str()), 0);
  EXPECT_EQ(RecoverStream(from(), to(), [] { return true; }).status().code(),
            absl::StatusCode::kCancelled);
  EXPECT_FALSE(Exists());
  // RLIMIT_FSIZE simulates a full disk.
  auto before = signal(SIGXFSZ, SIG_IGN);
  rlimit limit;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
  rlimit small = {1000, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  auto result = RecoverStream(from(), to(), nullptr);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  signal(SIGXFSZ, before);
  EXPECT_FALSE(result.ok());
  EXPECT_FALSE(Exists());
}

}  // namespace
}  // namespace rocattach
