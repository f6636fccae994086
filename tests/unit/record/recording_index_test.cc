#include "userspace/record/output/recording_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/temporary_directory.h"
#include "userspace/stream/sink.h"

namespace rocattach {
namespace {

using testing::HasSubstr;

class RecordingIndexTest : public testing::Test {
 protected:
  // Makes a completed file of `bytes` bytes.
  IndexedRecording Make(const std::string& name, uint64_t bytes = 100) {
    const std::filesystem::path path = directory_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << std::string(bytes, 'x');
    IndexedRecording recording;
    recording.file = name;
    recording.bytes = bytes;
    recording.begin_ns = 1'700'000'000'123'456'789;
    recording.end_ns = 1'700'000'060'000'000'000;
    recording.processes = 3;
    recording.dispatches = 1000;
    recording.copies = 20;
    recording.records_dropped = 1;
    return recording;
  }
  RecordingIndex Open() {
    auto index = RecordingIndex::Open(directory_.path());
    EXPECT_TRUE(index.ok()) << index.status();
    return *std::move(index);
  }
  bool Exists(const std::string& name) {
    return std::filesystem::exists(directory_ / name);
  }
  std::string Text() {
    std::ifstream file(directory_ / kRecordingIndexName);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  const testing_support::TemporaryDirectory directory_;
};

TEST_F(RecordingIndexTest, ALaterRunKnowsTheFiles) {
  {
    RecordingIndex index = Open();
    ASSERT_TRUE(index.Add(Make("a.rwa"), {}).ok());
    ASSERT_TRUE(index.Add(Make("host/b.rwa", 7), {}).ok());
  }
  EXPECT_THAT(Text(), HasSubstr(R"("begin":"2023-11-14T22:13:20.123456789+00:00")"));
  const RecordingIndex index = Open();
  ASSERT_EQ(index.recordings().size(), 2u);
  const IndexedRecording& first = index.recordings()[0];
  EXPECT_EQ(first.file, "a.rwa");
  EXPECT_EQ(first.begin_ns, 1'700'000'000'123'456'789u);
  EXPECT_EQ(first.end_ns, 1'700'000'060'000'000'000u);
  EXPECT_EQ(first.processes, 3u);
  EXPECT_EQ(first.dispatches, 1000u);
  EXPECT_EQ(first.copies, 20u);
  EXPECT_EQ(first.records_dropped, 1u);
  EXPECT_EQ(index.recordings()[1].file, "host/b.rwa");
  struct stat info;
  ASSERT_EQ(stat((directory_ / kRecordingIndexName).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0640u);
}

TEST_F(RecordingIndexTest, TheOldestAreDeletedByNumberAndSize) {
  RotationOptions limits;
  limits.keep_files = 3;
  RecordingIndex index = Open();
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(index.Add(Make(absl::StrCat(i, ".rwa")), limits).ok());
  }
  EXPECT_FALSE(Exists("0.rwa"));
  EXPECT_FALSE(Exists("1.rwa"));
  EXPECT_TRUE(Exists("2.rwa"));
  limits.keep_files = 0;
  limits.keep_bytes = 250;
  ASSERT_TRUE(index.Add(Make("5.rwa", 60), limits).ok());
  EXPECT_FALSE(Exists("3.rwa"));
  EXPECT_TRUE(Exists("4.rwa"));
  // The newest stays, however large it is.
  ASSERT_TRUE(index.Add(Make("6.rwa", 1000), limits).ok());
  EXPECT_TRUE(Exists("6.rwa"));
  ASSERT_EQ(index.recordings().size(), 1u);
  EXPECT_EQ(Open().recordings().size(), 1u);
}

TEST_F(RecordingIndexTest, FilesOfAKilledServiceCountAndAreDeleted) {
  RotationOptions limits;
  limits.keep_bytes = 250;
  ASSERT_TRUE(Open().Add(Make("host/run.000001.rwa"), limits).ok());
  for (const char* name : {"run.000002.rwa.partial", "host/run.000002.rwa.partial",
                           "run.csv.partial", "run.12.rwa.partial"}) {
    Make(name);
  }
  auto written =
      OpenFileSink(directory_ / "run.000003.rwa.partial", ExistingFile::kRefuse);
  ASSERT_TRUE(written.ok()) << written.status();
  RecordingIndex index = Open();
  std::set<std::string> files;
  for (const IndexedRecording& one : index.recordings()) files.insert(one.file);
  EXPECT_EQ(files,
            (std::set<std::string>{"host/run.000001.rwa", "run.000002.rwa.partial",
                                   "host/run.000002.rwa.partial"}));
  ASSERT_TRUE(index.Add(Make("run.000004.rwa"), limits).ok());
  EXPECT_EQ(index.recordings().size(), 2u);
  ASSERT_TRUE(index.Add(Make("run.000005.rwa", 250), limits).ok());
  EXPECT_FALSE(Exists("run.000002.rwa.partial"));
  EXPECT_FALSE(Exists("host/run.000002.rwa.partial"));
  for (const char* kept : {"run.csv.partial", "run.12.rwa.partial",
                           "run.000003.rwa.partial", "run.000005.rwa"}) {
    EXPECT_TRUE(Exists(kept)) << kept;
  }
}

TEST_F(RecordingIndexTest, FilesThatUsersHaveDeletedAreForgotten) {
  RecordingIndex index = Open();
  ASSERT_TRUE(index.Add(Make("a.rwa"), {}).ok());
  ASSERT_TRUE(index.Add(Make("b.rwa"), {}).ok());
  std::filesystem::remove(directory_ / "a.rwa");
  EXPECT_EQ(Open().recordings().size(), 1u);
  RotationOptions limits;
  limits.keep_files = 1;
  EXPECT_TRUE(index.Add(Make("c.rwa"), limits).ok());
}

// The index may have been written by someone else.
TEST_F(RecordingIndexTest, NothingOutsideAndNothingElseIsDeleted) {
  const testing_support::TemporaryDirectory outside;
  std::ofstream(outside / "victim.rwa") << "x";
  std::ofstream(directory_ / "notes.txt") << "x";
  std::filesystem::create_directory_symlink(outside.path(), directory_ / "link");
  std::filesystem::create_symlink(outside / "victim.rwa", directory_ / "link.rwa");
  std::ofstream(directory_ / kRecordingIndexName)
      << R"({"file":"../)" << std::filesystem::path(outside.path()).filename().string()
      << R"(/victim.rwa","bytes":1})"
      << "\n"
      << R"({"file":")" << (outside / "victim.rwa") << R"("})"
      << "\n"
      << R"({"file":"link/victim.rwa"})"
      << "\n"
      << R"({"file":"link.rwa"})"
      << "\n"
      << R"({"file":"notes.txt"})"
      << "\n"
      << R"({"file":7,"bytes":-1})"
      << "\n"
      << "{{{\n[1]\n\"text\"\n"
      << std::string(100'000, '[') << "\n";
  RecordingIndex index = Open();
  EXPECT_TRUE(index.recordings().empty());
  RotationOptions limits;
  limits.keep_files = 1;
  ASSERT_TRUE(index.Add(Make("a.rwa"), limits).ok());
  ASSERT_TRUE(index.Add(Make("b.rwa"), limits).ok());
  EXPECT_TRUE(std::filesystem::exists(outside / "victim.rwa"));
  EXPECT_TRUE(Exists("notes.txt"));
  EXPECT_FALSE(Exists("a.rwa"));
}

// A directory that turns into a symbolic link later is not followed either.
TEST_F(RecordingIndexTest, ALinkInsteadOfADirectoryIsNotFollowed) {
  const testing_support::TemporaryDirectory outside;
  std::ofstream(outside / "a.rwa") << "x";
  RecordingIndex index = Open();
  RotationOptions limits;
  limits.keep_files = 1;
  ASSERT_TRUE(index.Add(Make("host/a.rwa"), limits).ok());
  std::filesystem::remove_all(directory_ / "host");
  std::filesystem::create_directory_symlink(outside.path(), directory_ / "host");
  EXPECT_FALSE(index.Add(Make("b.rwa"), limits).ok());
  EXPECT_TRUE(std::filesystem::exists(outside / "a.rwa"));
}

TEST_F(RecordingIndexTest, ALinkAtTheIndexIsReplacedAndNotWrittenThrough) {
  const testing_support::TemporaryDirectory outside;
  std::ofstream(outside / "target") << "keep";
  std::filesystem::create_symlink(outside / "target", directory_ / kRecordingIndexName);
  std::filesystem::create_symlink(outside / "target",
                                  directory_ / ".rocattach-index.jsonl.tmp");
  RecordingIndex index = Open();
  ASSERT_TRUE(index.Add(Make("a.rwa"), {}).ok());
  EXPECT_FALSE(std::filesystem::is_symlink(directory_ / kRecordingIndexName));
  EXPECT_EQ(std::filesystem::file_size(outside / "target"), 4u);
}

}  // namespace
}  // namespace rocattach
