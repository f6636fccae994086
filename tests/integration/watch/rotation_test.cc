// Recordings of several days: split files, deleted files, and a disk full for a while.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/integration/watch/harness.h"
#include "tests/temporary_directory.h"

namespace rocattach::testing_support {
namespace {

std::vector<std::string> FilesIn(const std::string& directory,
                                 const std::string& extension) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    const std::string path = entry.path();
    if (absl::EndsWith(path, extension)) files.push_back(path);
  }
  std::sort(files.begin(), files.end());
  return files;
}

// Fills up the file system.
void Fill(const std::string& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  ASSERT_GE(fd, 0) << strerror(errno);
  const std::string block(4096, 'x');
  while (write(fd, block.data(), block.size()) > 0) continue;
  EXPECT_EQ(errno, ENOSPC);
  close(fd);
}

class RotationTest : public testing::Test {
 protected:
  void SetUp() override { SKIP_WITHOUT_PRIVILEGES(); }
};

TEST_F(RotationTest, AProcessIsInSeveralFilesAndNothingIsMissing) {
  const std::vector<std::string> program = {
      "hsa_dispatch", "-n", "3000", "-t", "2", "--rounds", "20", "--sleep-msec", "30"};
  const Finished native = RunTarget(program);
  WatcherProcess watcher({"--auto", "--rotate-size", "64K"});
  ASSERT_TRUE(watcher.ready());
  const Finished target = RunTarget(program);
  EXPECT_EQ(target.status, native.status);
  for (const char* number : {"dispatches", "increment", "accumulate"})
    EXPECT_EQ(Reported(target.output, number), Reported(native.output, number));
  EXPECT_EQ(target.errors, native.errors);
  EXPECT_TRUE(watcher.Stop().exited_with(0));

  const std::vector<std::string> files = FilesIn(watcher.directory(), ".rwa");
  ASSERT_GT(files.size(), 2u);
  EXPECT_TRUE(FilesIn(watcher.directory(), ".partial").empty());
  uint64_t dispatches = 0, delivered = 0, seen = 0;
  for (const std::string& file : files) {
    const Recording recording = ReadRecording(file);
    ASSERT_LE(recording.processes.size(), 1u) << file;
    for (const RecordedProcess& process : recording.processes) {
      EXPECT_EQ(process.verdict.state(), v1::WINDOW_STATE_ATTACHED) << file;
      EXPECT_EQ(process.dropped(), 0u) << file;
      EXPECT_EQ(process.account.dispatches_seen(), process.dispatches.size()) << file;
      dispatches += process.dispatches.size();
      delivered += process.account.dispatches_delivered();
      seen += process.account.dispatches_seen();
    }
  }
  EXPECT_EQ(dispatches, Reported(native.output, "dispatches"));
  EXPECT_EQ(delivered, dispatches);
  EXPECT_EQ(seen, dispatches);

  std::ifstream index(watcher.directory() + "/rocattach-index.jsonl");
  uint64_t indexed = 0;
  size_t lines = 0;
  for (std::string line; std::getline(index, line); ++lines) {
    const auto entry = nlohmann::json::parse(line);
    EXPECT_EQ(watcher.directory() + "/" + entry["file"].get<std::string>(),
              files[lines]);
    EXPECT_EQ(entry["bytes"], std::filesystem::file_size(files[lines]));
    indexed += entry["dispatches"].get<uint64_t>();
  }
  EXPECT_EQ(lines, files.size());
  EXPECT_EQ(indexed, dispatches);
}

TEST_F(RotationTest, TheOldestFilesAreDeleted) {
  WatcherProcess watcher({"--auto", "--rotate-size", "64K", "--keep-files", "2"});
  ASSERT_TRUE(watcher.ready());
  EXPECT_TRUE(RunTarget({"hsa_dispatch", "-n", "3000", "-t", "2", "--rounds", "20",
                         "--sleep-msec", "30"})
                  .exited_with(0));
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  const std::vector<std::string> files = FilesIn(watcher.directory(), ".rwa");
  ASSERT_EQ(files.size(), 2u);
  EXPECT_FALSE(std::filesystem::exists(watcher.directory() + "/run.000001.rwa"));
}

// A small file system of the test's own, which no other process sees.
TEST_F(RotationTest, AFullDiskPausesRecordingAndNothingElse) {
  ASSERT_EQ(unshare(CLONE_NEWNS), 0) << strerror(errno);
  ASSERT_EQ(mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
  TemporaryDirectory directory;
  ASSERT_EQ(mount("none", directory.path().c_str(), "tmpfs", 0, "size=1m"), 0);
  const std::vector<std::string> program = {
      "hsa_dispatch", "-n", "50", "--rounds", "200", "--sleep-msec", "20"};
  const std::string filler = directory / "filler";
  {
    WatcherProcess watcher({"--auto", "-d", directory.path(), "-o", "full"});
    ASSERT_TRUE(watcher.ready());
    Child target(OnSimgpu(program));
    ASSERT_TRUE(Eventually([&] { return watcher.PollEvents("window") > 0; }));
    Fill(filler);
    EXPECT_TRUE(Eventually([&] { return watcher.PollEvents("recording_paused") > 0; }));
    std::filesystem::remove(filler);
    EXPECT_TRUE(
        Eventually([&] { return watcher.PollEvents("recording_resumed") > 0; }));
    const Finished end = target.Wait();
    EXPECT_TRUE(end.exited_with(0));
    EXPECT_EQ(Reported(end.output, "dispatches"), 50u * 200);
    EXPECT_EQ(end.errors, "");
    // Losses make the recording incomplete.
    EXPECT_TRUE(watcher.Stop().exited_with(1));
    const auto paused = watcher.Events("recording_paused");
    ASSERT_FALSE(paused.empty());
    EXPECT_THAT(paused[0]["reason"].get<std::string>(),
                testing::HasSubstr("free some space"));
  }
  const Recording recording = ReadRecording(directory / "full.rwa");
  ASSERT_EQ(recording.processes.size(), 1u);
  const RecordedProcess& process = recording.processes[0];
  EXPECT_EQ(process.dispatches.size() + process.dropped(), 50u * 200);
  EXPECT_GT(process.dispatches.size(), 0u);
  umount2(directory.path().c_str(), MNT_DETACH);
}

TEST_F(RotationTest, WrongLimitsAreUsageErrors) {
  const auto run = [](std::vector<std::string> words) {
    words.insert(words.begin(),
                 {WatcherPath(), "--auto", "--hold-timeout-msec", "10000"});
    return Child(words).Wait();
  };
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"--rotate-age", "soon"},
        std::vector<std::string>{"--rotate-age", "0s"},
        std::vector<std::string>{"--rotate-size", "1K"},
        std::vector<std::string>{"--rotate-size", "many"},
        std::vector<std::string>{"--rotate-size", "1M", "-f", "csv"},
        std::vector<std::string>{"--keep-files", "-1"}}) {
    const Finished end = run(words);
    EXPECT_TRUE(end.exited_with(2)) << words[0] << " " << words[1] << end.errors;
    EXPECT_THAT(end.errors, testing::HasSubstr("rocattach-watch: "));
  }
}

}  // namespace
}  // namespace rocattach::testing_support
