#include "userspace/base/folder.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/temporary_directory.h"
#include "userspace/base/file.h"

namespace rocattach {
namespace {

using testing::UnorderedElementsAre;

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
  // A descriptor of something else.
  const std::string file = directory_ / "file";
  auto fd = OpenFile(file, O_RDWR | O_CREAT, 0600);
  ASSERT_TRUE(fd.ok()) << fd.status();
  const auto refused = ListFolder(*std::move(fd), file, 1);
  EXPECT_THAT(refused.status().message(), testing::HasSubstr(file));
}

}  // namespace
}  // namespace rocattach
