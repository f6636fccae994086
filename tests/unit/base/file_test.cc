#include "userspace/base/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/temporary_directory.h"

namespace rocattach {
namespace {

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

}  // namespace
}  // namespace rocattach
