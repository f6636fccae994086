#include "userspace/stream/sink.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/temporary_directory.h"
#include "tests/unit/stream/stream_testing.h"
#include "userspace/base/clock.h"
#include "userspace/base/file.h"
#include "userspace/stream/reader.h"

namespace rocattach {
namespace {

class SinkTest : public testing::Test {
 protected:
  std::string path() const { return directory_ / "a.rwa"; }
  const testing_support::TemporaryDirectory directory_;
};

TEST_F(SinkTest, NewFileHasTightMode) {
  mode_t before = umask(0);
  auto sink = OpenFileSink(path(), ExistingFile::kRefuse);
  umask(before);
  ASSERT_TRUE(sink.ok()) << sink.status();
  struct stat info;
  ASSERT_EQ(stat(path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0640u);
  EXPECT_TRUE((*sink)->compress_by_default());
  EXPECT_EQ((*sink)->name(), path());
}

TEST_F(SinkTest, ExistingFiles) {
  std::string bytes = SampleRecording(0);
  ASSERT_TRUE((*OpenFileSink(path(), ExistingFile::kRefuse))->Write(bytes).ok());
  absl::Status refused = OpenFileSink(path(), ExistingFile::kRefuse).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_NE(refused.message().find(path()), absl::string_view::npos);
  struct stat info;
  ASSERT_TRUE((*OpenFileSink(path(), ExistingFile::kAppend))->Write(bytes).ok());
  ASSERT_EQ(stat(path().c_str(), &info), 0);
  EXPECT_EQ(static_cast<size_t>(info.st_size), 2 * bytes.size());
  ASSERT_TRUE((*OpenFileSink(path(), ExistingFile::kTruncate))->Write(bytes).ok());
  ASSERT_EQ(stat(path().c_str(), &info), 0);
  EXPECT_EQ(static_cast<size_t>(info.st_size), bytes.size());
}

TEST_F(SinkTest, SymbolicLinksAreNotFollowed) {
  ASSERT_EQ(symlink(path().c_str(), (directory_ / "link").c_str()), 0);
  for (ExistingFile existing :
       {ExistingFile::kRefuse, ExistingFile::kTruncate, ExistingFile::kAppend}) {
    EXPECT_FALSE(OpenFileSink(directory_ / "link", existing).ok());
  }
  EXPECT_NE(access(path().c_str(), F_OK), 0) << "nothing was created behind it";
}

TEST_F(SinkTest, DirectoriesAreRefused) {
  EXPECT_FALSE(OpenFileSink(directory_.path(), ExistingFile::kTruncate).ok());
  EXPECT_EQ(
      OpenFileSink("/nonexistent/dir/a.rwa", ExistingFile::kRefuse).status().code(),
      absl::StatusCode::kNotFound);
}

TEST_F(SinkTest, FullDevice) {
  if (access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full here";
  auto sink = OpenFileSink("/dev/full", ExistingFile::kTruncate);
  ASSERT_TRUE(sink.ok()) << sink.status();
  auto writer = StreamWriter::Create(*std::move(sink), {});
  ASSERT_FALSE(writer.ok());
  EXPECT_EQ(writer.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(writer.status().message().find("/dev/full"), absl::string_view::npos);
  EXPECT_NE(writer.status().message().find("space"), absl::string_view::npos);
}

// A file that may not grow further: like a full disk, but with a partial write first.
// Then the limit is lifted.
TEST_F(SinkTest, PartialWritesAreUndone) {
  pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    // In a child, because the limit is one of the whole process.
    WriterOptions options;
    options.compression_level = 0;
    options.batch_bytes = 8 << 10;
    auto writer =
        StreamWriter::Create(*OpenFileSink(path(), ExistingFile::kRefuse), options);
    if (!writer.ok()) _exit(10);
    rlimit limit = {100'000, RLIM_INFINITY};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(11);
    StreamId id = (*writer)->OpenProcess({});
    std::vector<rocattach_dispatch> records = RegularDispatches(40'000);
    auto span = absl::MakeConstSpan(records);
    absl::Status status = (*writer)->Append<DispatchKind>(id, span.subspan(0, 20'000));
    if (status.ok()) _exit(12);
    if (status.message().find(path()) == absl::string_view::npos) _exit(13);
    uint64_t written = (*writer)->stats().records[RecordKind::kDispatch];
    if (written == 0 || written >= 20'000) _exit(14);
    struct stat info;
    if (stat(path().c_str(), &info) != 0) _exit(15);
    if (static_cast<uint64_t>(info.st_size) != (*writer)->stats().bytes) _exit(16);
    limit.rlim_cur = RLIM_INFINITY;
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(17);
    if (!(*writer)->Append<DispatchKind>(id, span.subspan(20'000)).ok()) _exit(18);
    v1::LossAccount account;
    account.set_final(true);
    account.set_dispatches_seen(40'000);
    if (!(*writer)->SetAccount(id, account).ok()) _exit(19);
    if (!(*writer)->EndProcess(id, {}).ok()) _exit(20);
    if (!(*writer)->Close().ok()) _exit(21);
    _exit(0);
  }
  int wait_status = 0;
  ASSERT_EQ(waitpid(child, &wait_status, 0), child);
  ASSERT_TRUE(WIFEXITED(wait_status)) << "killed by signal " << WTERMSIG(wait_status);
  ASSERT_EQ(WEXITSTATUS(wait_status), 0);

  KeepingVisitor visitor;
  StreamDecoder decoder(&visitor);
  ASSERT_TRUE(ReadStream(path(), {}, &decoder).ok());
  EXPECT_EQ(decoder.stats().skipped_bytes, 0u) << "no torn frame was left behind";
  EXPECT_GT(decoder.stats().missing_frames, 0u);
  EXPECT_EQ(decoder.stats().recordings_ended, 1u);
  const auto& stream = visitor.streams[{0, 1}];
  ASSERT_EQ(stream.accounts.size(), 1u);
  const v1::LossAccount& account = stream.accounts[0];
  EXPECT_EQ(account.dispatches_delivered(), stream.dispatches.size());
  EXPECT_EQ(account.dispatches_delivered() + account.dropped_writer(), 40'000u);
}

TEST_F(SinkTest, ClosedPipeIsAnErrorAndNoSignal) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(signal(SIGPIPE, SIG_DFL), SIG_DFL) << "the default would kill the test";
  auto sink = MakeFdSink(UniqueFd(ends[1]), "the pipe");
  EXPECT_FALSE(sink->compress_by_default());
  ASSERT_TRUE(sink->Write("frame").ok());
  EXPECT_FALSE(sink->broken());
  close(ends[0]);
  absl::Status status = sink->Write("frame");
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find("the pipe"), absl::string_view::npos);
  EXPECT_TRUE(sink->broken());
  EXPECT_FALSE(sink->Write("frame").ok());
}

TEST_F(SinkTest, SlowReaderOfANonBlockingPipeLosesFramesNotFraming) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_NONBLOCK), 0);
  UniqueFd reading(ends[0]);
  WriterOptions options;
  options.batch_bytes = 4 << 10;
  auto writer = *StreamWriter::Create(
      MakeFdSink(UniqueFd(ends[1]), "the pipe", /*max_wait_msec=*/0), options);
  StreamId id = writer->OpenProcess({});
  std::vector<rocattach_dispatch> records = RegularDispatches(60'000);
  auto span = absl::MakeConstSpan(records);
  KeepingVisitor visitor;
  StreamDecoder decoder(&visitor);
  std::string buffer(1 << 20, '\0');
  auto drain = [&] {
    ssize_t n;
    while ((n = read(reading.get(), buffer.data(), buffer.size())) > 0) {
      decoder.Feed(absl::string_view(buffer).substr(0, static_cast<size_t>(n)));
    }
  };
  drain();
  // More than fits into the pipe: the last frame is cut off.
  EXPECT_EQ(writer->Append<DispatchKind>(id, span.subspan(0, 30'000)).code(),
            absl::StatusCode::kUnavailable);
  drain();
  for (size_t at = 30'000; at < 60'000; at += 1000) {
    EXPECT_TRUE(writer->Append<DispatchKind>(id, span.subspan(at, 1000)).ok());
    EXPECT_TRUE(writer->FlushAll().ok());
    drain();
  }
  uint64_t delivered = writer->stats().records[RecordKind::kDispatch];
  uint64_t dropped = writer->stats().records_dropped;
  EXPECT_EQ(delivered + dropped, 60'000u);
  EXPECT_GT(dropped, 0u);
  ASSERT_TRUE(writer->Close().ok());
  drain();
  decoder.FinishInput();
  EXPECT_TRUE(decoder.stats().damaged());
  EXPECT_EQ(decoder.stats().records[RecordKind::kDispatch], delivered);
  EXPECT_EQ(visitor.streams[std::make_pair(0u, id)].dispatches.back().correlation_id,
            60'000u);
}

// A pipe that nobody reads, with a blocking descriptor as a shell creates it: no write
// waits forever, and a thousand frames do not wait a thousand times.
TEST_F(SinkTest, APipeThatNobodyReadsDelaysOnce) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  UniqueFd reading(ends[0]);
  auto sink = MakeFdSink(UniqueFd(ends[1]), "the pipe", /*max_wait_msec=*/100);
  const std::string frame(10'000, 'x');
  int written = 0, failed = 0;
  const uint64_t begin_ns = BootNs();
  for (int i = 0; i < 1000; ++i) {
    const absl::Status status = sink->Write(frame);
    ++(status.ok() ? written : failed);
    if (!status.ok()) {
      EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    }
  }
  EXPECT_GT(written, 0);
  EXPECT_GT(failed, 900);
  // With a wait for each frame this would take more than 90 s.
  EXPECT_LT(BootNs() - begin_ns, 30'000'000'000u);
  EXPECT_FALSE(sink->broken());
  // The reader resumes.
  std::string buffer(1 << 20, '\0');
  ASSERT_GT(read(reading.get(), buffer.data(), buffer.size()), 0);
  EXPECT_TRUE(sink->Write("frame").ok());
}

TEST_F(SinkTest, FifoIsWrittenAsAPipe) {
  std::string fifo = directory_ / "fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  UniqueFd reading(open(fifo.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  ASSERT_TRUE(reading.valid());
  auto sink = OpenFileSink(fifo, ExistingFile::kTruncate);
  ASSERT_TRUE(sink.ok()) << sink.status();
  EXPECT_FALSE((*sink)->compress_by_default());
  EXPECT_TRUE((*sink)->Write("frame").ok());
}

}  // namespace
}  // namespace rocattach
