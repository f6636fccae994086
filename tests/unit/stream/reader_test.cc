#include "userspace/stream/reader.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "tests/await.h"
#include "tests/temporary_directory.h"
#include "tests/unit/stream/stream_testing.h"
#include "userspace/base/file.h"

namespace rocattach {
namespace {

using Key = KeepingVisitor::Key;

class ReaderTest : public testing::Test {
 protected:
  std::string path() const { return directory_ / "a.rwa"; }

  const testing_support::TemporaryDirectory directory_;
  KeepingVisitor visitor_;
  StreamDecoder decoder_{&visitor_};
};

TEST_F(ReaderTest, ReadsAFile) {
  std::string bytes = SampleRecording(1);
  auto fd = OpenFile(path(), O_WRONLY | O_CREAT, 0600);
  ASSERT_TRUE(fd.ok());
  ASSERT_TRUE(WriteAll(fd->get(), bytes).ok());
  absl::Status status = ReadStream(path(), {}, &decoder_);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(visitor_.dispatch_count(), 40u);
}

TEST_F(ReaderTest, AFileThatIsNotAStreamIsNamed) {
  EXPECT_EQ(ReadStream(path(), {}, &decoder_).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ReadStream(directory_.path(), {}, &decoder_).code(),
            absl::StatusCode::kInvalidArgument);
  auto fd = OpenFile(path(), O_WRONLY | O_CREAT, 0600);
  ASSERT_TRUE(fd.ok());
  absl::Status status = ReadStream(path(), {}, &decoder_);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find(path()), absl::string_view::npos);
  ASSERT_TRUE(WriteAll(fd->get(), "just some text, nothing else").ok());
  EXPECT_EQ(ReadStream(path(), {}, &decoder_).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(ReaderTest, ReadsAPipeByteByByte) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  UniqueFd reading(ends[0]);
  std::string bytes = SampleRecording(0);
  std::thread writing([&, fd = UniqueFd(ends[1])] {
    for (char byte : bytes) EXPECT_EQ(write(fd.get(), &byte, 1), 1);
  });
  ReadOptions options;
  options.read_bytes = 1;
  absl::Status status = ReadStreamFd(reading.get(), "pipe", options, &decoder_);
  writing.join();
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(visitor_.dispatch_count(), 40u);
  EXPECT_TRUE(visitor_.damages.empty());
}

TEST_F(ReaderTest, FollowsAGrowingFileToItsEnd) {
  std::string bytes = SampleRecording(0);
  auto fd = OpenFile(path(), O_WRONLY | O_CREAT, 0600);
  ASSERT_TRUE(fd.ok());
  // More is written once the reader has read the first part: no clock is involved.
  std::atomic<bool> first_heard = false;
  size_t half = FrameOffsets(bytes)[3] + 5;
  ASSERT_TRUE(WriteAll(fd->get(), absl::string_view(bytes).substr(0, half)).ok());
  ReadOptions options;
  options.follow = true;
  options.stop = [&] {
    if (decoder_.stats().frames >= 3) first_heard = true;
    return false;
  };
  std::thread writing([&] {
    testing_support::Await([&] { return first_heard.load(); },
                           "the first part to be read");
    EXPECT_TRUE(WriteAll(fd->get(), absl::string_view(bytes).substr(half)).ok());
  });
  absl::Status status = ReadStream(path(), options, &decoder_);
  writing.join();
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(visitor_.dispatch_count(), 40u);
  EXPECT_TRUE(visitor_.damages.empty());
}

TEST_F(ReaderTest, FollowingEndsWhenAsked) {
  std::string bytes = SampleRecording(0);
  auto fd = OpenFile(path(), O_WRONLY | O_CREAT, 0600);
  ASSERT_TRUE(fd.ok());
  std::vector<size_t> offsets = FrameOffsets(bytes);
  ASSERT_TRUE(
      WriteAll(fd->get(), absl::string_view(bytes).substr(0, offsets[5] + 9)).ok());
  ReadOptions options;
  options.follow = true;
  options.stop = [&] { return decoder_.stats().frames == 5; };
  absl::Status status = ReadStream(path(), options, &decoder_);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(visitor_.damages.empty()) << "what was not waited for is not missing";
  EXPECT_EQ(decoder_.pending_bytes(), 0u);
}

TEST_F(ReaderTest, AFileThatShrinksIsAnError) {
  std::string bytes = SampleRecording(0);
  auto fd = OpenFile(path(), O_WRONLY | O_CREAT, 0600);
  ASSERT_TRUE(fd.ok());
  size_t half = FrameOffsets(bytes)[3];
  ASSERT_TRUE(WriteAll(fd->get(), absl::string_view(bytes).substr(0, half)).ok());
  ReadOptions options;
  options.follow = true;
  options.stop = [&] {
    if (decoder_.stats().frames == 3) {
      EXPECT_EQ(ftruncate(fd->get(), 10), 0);
    }
    return false;
  };
  EXPECT_EQ(ReadStream(path(), options, &decoder_).code(), absl::StatusCode::kDataLoss);
}

TEST_F(ReaderTest, TwoFilesInARow) {
  std::string bytes = SampleRecording(0);
  auto fd = OpenFile(path(), O_WRONLY | O_CREAT, 0600);
  ASSERT_TRUE(fd.ok());
  ASSERT_TRUE(WriteAll(fd->get(), bytes).ok());
  ASSERT_TRUE(ReadStream(path(), {}, &decoder_).ok());
  ASSERT_TRUE(ReadStream(path(), {}, &decoder_).ok());
  EXPECT_EQ(decoder_.stats().recordings, 2u);
  EXPECT_EQ(visitor_.streams[Key(1, 1)].dispatches.size(), 40u);
}

}  // namespace
}  // namespace rocattach
