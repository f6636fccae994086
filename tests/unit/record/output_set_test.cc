#include "userspace/record/output/output_set.h"

#include <errno.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "tests/temporary_directory.h"
#include "userspace/base/errno_status.h"
#include "userspace/record/output/output_pause.h"
#include "userspace/record/output/recording_index.h"

namespace rocattach {
namespace {

class OutputSetTest : public testing::Test {
 protected:
  ProcessInfo Process(pid_t pid) {
    ProcessInfo info;
    info.id.pid = pid;
    info.comm = "app";
    info.arguments = {"app"};
    return info;
  }
  const testing_support::TemporaryDirectory directory_;
};

TEST_F(OutputSetTest, OneFileForAll) {
  auto set = OutputSet::Open({directory_ / "new/dir", "run", {}});
  ASSERT_TRUE(set.ok()) << set.status();
  ASSERT_EQ(set->files().size(), 1u);
  EXPECT_EQ(set->files()[0], directory_ / "new/dir/run.rwa");
  auto one = set->OpenProcess(Process(1), {});
  auto two = set->OpenProcess(Process(2), {});
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_EQ(one->writer, two->writer);
  EXPECT_NE(one->stream, two->stream);
  EXPECT_TRUE(set->Close({}).ok());
  struct stat info;
  ASSERT_EQ(stat(set->files()[0].c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0640u);
}

TEST_F(OutputSetTest, OneFileAProcess) {
  auto set = OutputSet::Open({directory_.path(), "%tag%/%pid%", {}});
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_TRUE(set->files().empty());
  auto one = set->OpenProcess(Process(11), {});
  auto two = set->OpenProcess(Process(12), {});
  ASSERT_TRUE(one.ok() && two.ok());
  set->EndProcess(*one, {});
  EXPECT_TRUE(set->Close({}).ok());
  EXPECT_TRUE(std::filesystem::exists(directory_ / "app/11.rwa"));
  EXPECT_TRUE(std::filesystem::exists(directory_ / "app/12.rwa"));
}

TEST(PausedTextTest, OnlyATemporaryErrorIsAPause) {
  EXPECT_THAT(PausedText(ErrnoStatus(ENOSPC, "no room")),
              testing::HasSubstr("it resumes when that is over"));
  const std::string text = PausedText(ErrnoStatus(EPIPE, "standard output"));
  EXPECT_THAT(text, testing::HasSubstr("nothing is recorded any more"));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("resumes")));
}

TEST_F(OutputSetTest, AProcessThatIsNotWantedHasNoFileOfItsOwn) {
  auto set = OutputSet::Open({directory_.path(), "%pid%", {}});
  ASSERT_TRUE(set.ok()) << set.status();
  auto one = set->OpenProcess(Process(11), {});
  auto two = set->OpenUnwanted(Process(12), {});
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_TRUE(one->kept);
  EXPECT_FALSE(two->kept);
  set->EndProcess(*one, {});
  set->EndProcess(*two, {});
  set->Flush(1);
  EXPECT_TRUE(set->Close({}).ok());
  EXPECT_EQ(set->files(), (std::vector<std::string>{directory_ / "11.rwa"}));
  EXPECT_FALSE(std::filesystem::exists(directory_ / "12.rwa"));
  // In a file that several processes share, it is kept.
  auto shared = OutputSet::Open({directory_.path(), "run", {}});
  ASSERT_TRUE(shared.ok()) << shared.status();
  two = shared->OpenUnwanted(Process(12), {});
  ASSERT_TRUE(two.ok());
  EXPECT_TRUE(two->kept);
  EXPECT_TRUE(shared->Close({}).ok());
}

// RLIMIT_FSIZE makes the disk look full to this process.
TEST_F(OutputSetTest, AFileThatCannotBeWrittenIsNotLeftBehind) {
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit none = before;
  none.rlim_cur = 0;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
  const auto set = OutputSet::Open({directory_.path(), "run", {}});
  const absl::Status status = set.status();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_FALSE(status.ok());
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path()));
}

TEST_F(OutputSetTest, ASplitRecordingIsASeriesOfFiles) {
  OutputOptions options;
  options.directory = directory_.path();
  options.file = "run";
  options.rotation.bytes = 1;  // a new file at each flush
  options.rotation.keep_files = 3;
  std::string first_of_second_run;
  for (int run = 0; run < 2; ++run) {
    auto set = OutputSet::Open(options);
    ASSERT_TRUE(set.ok()) << set.status();
    EXPECT_EQ(set->name(), directory_ / "run.*.rwa");
    EXPECT_TRUE(set->files().empty());
    auto process = set->OpenProcess(Process(1), {});
    ASSERT_TRUE(process.ok());
    // The set is moved while files are open.
    OutputSet moved = *std::move(set);
    for (uint64_t i = 1; i <= 3; ++i) moved.Flush(i * 1'000'000'000);
    EXPECT_TRUE(moved.paused().ok()) << moved.paused();
    moved.EndProcess(*process, {});
    EXPECT_TRUE(moved.Close({}).ok());
    ASSERT_EQ(moved.files().size(), 4u);
    EXPECT_EQ(moved.files()[0],
              directory_ / (run == 0 ? "run.000001.rwa" : "run.000005.rwa"));
  }
  std::set<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(directory_.path())) {
    left.insert(entry.path().filename());
  }
  EXPECT_EQ(left, (std::set<std::string>{"rocattach-index.jsonl", "run.000006.rwa",
                                         "run.000007.rwa", "run.000008.rwa"}));
}

// The wall clock is set forward by years and back again: files are split by their true
// age, none is lost, the oldest is deleted first, and each has the span that it covers.
TEST_F(OutputSetTest, AClockThatIsSetChangesNeitherFilesNorTheirOrder) {
  constexpr uint64_t kSecond = 1'000'000'000;
  ClockSnapshot clock;
  clock.boottime_ns = 100 * kSecond;
  clock.realtime_ns = 1'700'000'000 * kSecond;
  OutputOptions options;
  options.directory = directory_.path();
  options.file = "run";
  options.rotation.age_ns = 10 * kSecond;
  options.rotation.keep_files = 4;
  options.clock = [&clock] { return clock; };
  auto set = OutputSet::Open(options);
  ASSERT_TRUE(set.ok()) << set.status();
  auto process = set->OpenProcess(Process(1), {});
  ASSERT_TRUE(process.ok());
  const int64_t steps[] = {0, 100'000'000, 0, -100'000'000, -1'600'000'000, 0};
  for (const int64_t step : steps) {
    clock.realtime_ns += static_cast<uint64_t>(step) * kSecond;
    for (int second = 0; second < 10; ++second) {
      clock.boottime_ns += kSecond;
      clock.realtime_ns += kSecond;
      set->Flush(clock.boottime_ns);
    }
  }
  EXPECT_EQ(set->files().size(), std::size(steps));
  EXPECT_TRUE(set->paused().ok()) << set->paused();
  auto index = RecordingIndex::Open(directory_.path());
  ASSERT_TRUE(index.ok());
  ASSERT_EQ(index->recordings().size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    const IndexedRecording& file = index->recordings()[i];
    EXPECT_EQ(file.file, "run.00000" + std::to_string(i + 3) + ".rwa");
    EXPECT_EQ(file.end_ns - file.begin_ns, 10 * kSecond) << file.file;
  }
  set->EndProcess(*process, {});
  EXPECT_TRUE(set->Close({}).ok());
}

TEST_F(OutputSetTest, ASplitRecordingThatDidNotStartLeavesNothing) {
  OutputOptions options;
  options.directory = directory_.path();
  options.file = "run";
  options.rotation.age_ns = 1;
  auto set = OutputSet::Open(options);
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_TRUE(std::filesystem::exists(directory_ / "run.000001.rwa.partial"));
  set->Discard();
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path()));
}

TEST_F(OutputSetTest, NeverOverwrites) {
  for (int i = 0; i < 3; ++i) {
    auto set = OutputSet::Open({directory_.path(), "run.rwa", {}});
    ASSERT_TRUE(set.ok()) << set.status();
    ASSERT_TRUE(set->Close({}).ok());
  }
  EXPECT_TRUE(std::filesystem::exists(directory_ / "run.rwa"));
  EXPECT_TRUE(std::filesystem::exists(directory_ / "run-1.rwa"));
  EXPECT_TRUE(std::filesystem::exists(directory_ / "run-2.rwa"));
}

TEST_F(OutputSetTest, UnusableDirectoriesAreErrorsAtOnce) {
  auto file = OutputSet::Open({"/dev/null", "run", {}});
  ASSERT_FALSE(file.ok());
  EXPECT_NE(file.status().message().find("/dev/null"), absl::string_view::npos);
  auto missing = OutputSet::Open({"/proc/nothing/here", "run", {}});
  EXPECT_FALSE(missing.ok());
}

TEST_F(OutputSetTest, ASymbolicLinkIsNotFollowed) {
  std::filesystem::create_symlink(directory_ / "elsewhere", directory_ / "run.rwa");
  auto set = OutputSet::Open({directory_.path(), "run", {}});
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ(set->files()[0], directory_ / "run-1.rwa");
  EXPECT_FALSE(std::filesystem::exists(directory_ / "elsewhere"));
}

TEST_F(OutputSetTest, RecordsAProcessEvenIfItsFileCannotBeCreated) {
  { std::filesystem::create_directory(directory_ / "d"); }
  auto set = OutputSet::Open({directory_.path(), "%arg0%/%pid%", {}});
  ASSERT_TRUE(set.ok());
  ProcessInfo process = Process(5);
  process.arguments = {"d"};
  // A file stands where the process's directory should be.
  std::filesystem::remove(directory_ / "d");
  (void)!creat((directory_ / "d").c_str(), 0600);
  auto output = set->OpenProcess(process, {});
  ASSERT_TRUE(output.ok()) << output.status();
  EXPECT_FALSE(set->status().ok());
  EXPECT_EQ(set->files().size(), 1u);
}

}  // namespace
}  // namespace rocattach
