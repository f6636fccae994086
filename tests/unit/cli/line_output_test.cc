#include "userspace/cli/terminal/line_output.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/await.h"
#include "userspace/base/unique_fd.h"

namespace rocattach {
namespace {

class LineOutputTest : public testing::Test {
 protected:
  void SetUp() override {
    signal(SIGPIPE, SIG_IGN);
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);  // both ends block, as with a shell's pipe
    reading_.reset(ends[0]);
    writing_.reset(ends[1]);
  }
  std::string ReadAll() {
    fcntl(reading_.get(), F_SETFL, O_NONBLOCK);
    std::string all;
    char chunk[4096];
    for (ssize_t n; (n = read(reading_.get(), chunk, sizeof(chunk))) > 0;) {
      all.append(chunk, static_cast<size_t>(n));
    }
    return all;
  }
  UniqueFd reading_, writing_;
};

TEST_F(LineOutputTest, WritesAtOnce) {
  LineOutput out(writing_.get());
  out.Add("one\n");
  out.Add("two\n");
  EXPECT_EQ(ReadAll(), "one\ntwo\n");
  EXPECT_EQ(out.kept_bytes(), 0u);
}

TEST_F(LineOutputTest, AReaderThatIsLateMissesNothing) {
  LineOutput out(writing_.get());
  std::string expected;
  for (int i = 0; i < 20'000; ++i) {
    const std::string line = absl::StrCat("line ", i, "\n");
    out.Add(line);
    expected += line;
  }
  EXPECT_GT(out.kept_bytes(), 0u) << "a pipe holds 64 KiB";
  std::string got;
  const auto read_all = [&] {
    const std::string more = ReadAll();
    got += more;
    out.Flush();
    return got.size() >= expected.size() || (more.empty() && out.kept_bytes() == 0);
  };
  testing_support::Await(read_all, "the last line");
  EXPECT_EQ(got, expected);
  EXPECT_EQ(out.lines_left_out(), 0u);
}

TEST_F(LineOutputTest, AReaderThatNeverComesCostsBoundedMemoryAndNoTime) {
  LineOutput out(writing_.get(), /*most_kept_bytes=*/100'000);
  const std::string line = std::string(99, 'x') + "\n";
  for (int i = 0; i < 10'000; ++i) out.Add(line);
  EXPECT_LE(out.kept_bytes(), 100'000u);
  // 1,000 lines are kept; the pipe holds 65,536 bytes at most.
  EXPECT_GE(out.lines_left_out(), 10'000u - 1000 - 656);
  EXPECT_LE(out.lines_left_out(), 10'000u - 1000);
  out.Finish(/*patience_msec=*/10);
  EXPECT_GT(out.kept_bytes(), 0u);
  // The reader gets only whole lines.
  std::string got = ReadAll();
  out.Finish(/*patience_msec=*/10);
  got += ReadAll();
  out.Finish(/*patience_msec=*/10);
  got += ReadAll();
  EXPECT_EQ(got.size() % line.size(), 0u);
  EXPECT_EQ(got.size() / line.size() + out.lines_left_out(), 10'000u);
}

TEST_F(LineOutputTest, TheEndWaitsForAReaderThatReads) {
  LineOutput out(writing_.get());
  std::string expected;
  for (int i = 0; i < 5000; ++i) {
    out.Add("0123456789012345678901234567890123456789\n");
    expected += "0123456789012345678901234567890123456789\n";
  }
  std::string got;
  std::thread reader([&] {
    char chunk[512];
    while (got.size() < expected.size()) {
      const ssize_t n = read(reading_.get(), chunk, sizeof(chunk));
      if (n <= 0) break;
      got.append(chunk, static_cast<size_t>(n));
    }
  });
  out.Finish(/*patience_msec=*/60'000);
  writing_.reset();  // or a reader that misses lines would wait for them
  reader.join();
  EXPECT_EQ(got, expected);
}

TEST_F(LineOutputTest, AReaderThatIsGoneIsNotWaitedFor) {
  LineOutput out(writing_.get());
  reading_.reset();
  for (int i = 0; i < 100; ++i) out.Add("line\n");
  EXPECT_EQ(out.kept_bytes(), 0u);
}

}  // namespace
}  // namespace rocattach
