#include "userspace/attribution/cgroup_paths.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/temporary_directory.h"
#include "tests/unit/attribution/test_groups.h"

namespace rocattach {
namespace {

using testing_support::TestGroups;

class CgroupPathsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!groups_.possible()) GTEST_SKIP() << "no control groups can be made";
  }
  static std::string Path(const std::string& path) {
    return absl::StrCat("/", TestGroups::name(), "/", path);
  }

  TestGroups groups_;
  CgroupPaths paths_;
};

TEST_F(CgroupPathsTest, AGroupIsFoundByItsNumberAndKeptWhenItIsGone) {
  const uint64_t id = groups_.Add("kubepods/pod1/c1");
  ASSERT_NE(id, 0u);
  const auto path = paths_.Find(id);
  ASSERT_TRUE(path.ok()) << path.status();
  EXPECT_EQ(*path, Path("kubepods/pod1/c1"));
  groups_.RemoveLast();
  EXPECT_EQ(*paths_.Find(id), Path("kubepods/pod1/c1"));
  CgroupPaths another;
  EXPECT_TRUE(absl::IsNotFound(another.Find(id).status())) << another.Find(id).status();
}

TEST_F(CgroupPathsTest, NumbersOfNoGroupAreNotFound) {
  for (const uint64_t id : {uint64_t{0}, uint64_t{1} << 40, ~uint64_t{0}}) {
    EXPECT_TRUE(absl::IsNotFound(paths_.Find(id).status())) << paths_.Find(id).status();
  }
}

TEST_F(CgroupPathsTest, StoresAPathOnlyIfItBelongsToTheCgroup) {
  const uint64_t id = groups_.Add("a"), other = groups_.Add("b");
  paths_.AddIfCurrent(id, Path("b"));
  EXPECT_EQ(paths_.size(), 0u) << "the process has moved";
  paths_.AddIfCurrent(id, Path("a"));
  paths_.AddIfCurrent(other, "/../../etc");
  EXPECT_EQ(paths_.size(), 1u);
  EXPECT_EQ(*paths_.Find(id), Path("a"));
}

TEST_F(CgroupPathsTest, TheLeastRecentlyUsedIsForgotten) {
  const uint64_t kept = groups_.Add("kept"), forgotten = groups_.Add("forgotten");
  ASSERT_TRUE(paths_.Find(forgotten).ok());
  for (size_t i = 0; i < CgroupPaths::kMost; ++i) {
    ASSERT_TRUE(paths_.Find(kept).ok());
    const uint64_t id = groups_.Add("x");
    ASSERT_TRUE(paths_.Find(id).ok());
    groups_.RemoveLast();
  }
  EXPECT_EQ(paths_.size(), CgroupPaths::kMost);
  groups_.RemoveLast();  // "forgotten"
  EXPECT_TRUE(absl::IsNotFound(paths_.Find(forgotten).status()));
  groups_.RemoveLast();
  EXPECT_TRUE(paths_.Find(kept).ok());
}

TEST(CgroupPathsWithoutHierarchyTest, NothingIsFound) {
  const testing_support::TemporaryDirectory directory;
  CgroupPaths paths(directory.path());
  EXPECT_TRUE(absl::IsNotFound(paths.Find(1).status()));
}

}  // namespace
}  // namespace rocattach
