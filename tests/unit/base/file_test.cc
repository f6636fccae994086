#include "userspace/base/file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "tests/temporary_directory.h"

namespace rocattach {
namespace {

using testing::UnorderedElementsAre;

class FileTest : public testing::Test {
 protected:
  const testing_support::TemporaryDirectory directory_;
};

TEST_F(FileTest, WritesAndReadsBack) {
  std::string path = directory_ / "data";
  auto fd = OpenFile(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
  ASSERT_TRUE(fd.ok()) << fd.status();
  std::string data(100'000, 'x');
  ASSERT_TRUE(WriteAll(fd->get(), data).ok());
  auto read = ReadFile(path, 1 << 20);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(*read, data);
}

TEST_F(FileTest, RefusesMoreThanTheLimit) {
  std::string path = directory_ / "data";
  auto fd = OpenFile(path, O_WRONLY | O_CREAT, 0600);
  ASSERT_TRUE(WriteAll(fd->get(), "12345").ok());
  EXPECT_TRUE(ReadFile(path, 5).ok());
  EXPECT_EQ(ReadFile(path, 4).status().code(), absl::StatusCode::kOutOfRange);
}

TEST_F(FileTest, ErrorsNameThePath) {
  auto missing = ReadFile(directory_ / "missing", 10);
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_NE(missing.status().message().find("/missing"), absl::string_view::npos);
}

TEST_F(FileTest, DescriptorsAreClosedOnExec) {
  auto fd = OpenFile(directory_.path(), O_RDONLY | O_DIRECTORY);
  ASSERT_TRUE(fd.ok());
  EXPECT_NE(fcntl(fd->get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST_F(FileTest, MakesMissingParents) {
  std::string path = directory_ / "a/b/c";
  ASSERT_TRUE(MakeDirectories(path, 0700).ok());
  ASSERT_TRUE(MakeDirectories(path, 0700).ok());
  struct stat info;
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_TRUE(S_ISDIR(info.st_mode));
}

TEST_F(FileTest, AFileIsNotADirectory) {
  std::string path = directory_ / "file";
  ASSERT_TRUE(OpenFile(path, O_WRONLY | O_CREAT, 0600).ok());
  EXPECT_FALSE(MakeDirectories(path, 0700).ok());
  EXPECT_FALSE(MakeDirectories(path + "/below", 0700).ok());
}

class FolderTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"a", "b", ".hidden"}) {
      std::filesystem::create_directory(directory_ / name);
    }
  }
  const testing_support::TemporaryDirectory directory_;
};

TEST_F(FolderTest, HasAllNames) {
  const auto found = ListFolder(directory_.path(), 10);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_THAT(found->names, UnorderedElementsAre("a", "b", ".hidden"));
  EXPECT_FALSE(found->cut);
}

TEST_F(FolderTest, IsBounded) {
  const auto all = ListFolder(directory_.path(), 3);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_FALSE(all->cut);
  const auto some = ListFolder(directory_.path(), 2);
  ASSERT_TRUE(some.ok()) << some.status();
  EXPECT_EQ(some->names.size(), 2u);
  EXPECT_TRUE(some->cut);
}

TEST_F(FolderTest, ErrorsNameThePath) {
  const std::string missing = directory_ / "missing";
  EXPECT_EQ(ListFolder(missing, 1).status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(ListFolder(missing, 1).status().message(), testing::HasSubstr(missing));
  // A descriptor of a file that is not a folder.
  const std::string file = directory_ / "file";
  auto fd = OpenFile(file, O_RDWR | O_CREAT, 0600);
  ASSERT_TRUE(fd.ok()) << fd.status();
  const auto refused = ListFolder(*std::move(fd), file, 1);
  EXPECT_THAT(refused.status().message(), testing::HasSubstr(file));
}

}  // namespace
}  // namespace rocattach
