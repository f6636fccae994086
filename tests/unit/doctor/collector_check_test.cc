#include "userspace/doctor/collector_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/unit/doctor/fake_machine.h"

namespace rocattach {
namespace {

using testing::HasSubstr;

TEST(TryLoad, LoadsInAChild) {
  EXPECT_TRUE(TryLoad(ROCATTACH_TEST_FAKE_REGISTER).ok());
}

TEST(TryLoad, SaysWhyNot) {
  FakeMachine fake;
  fake.Write("/lib.so", "not ELF");
  absl::Status status = TryLoad(fake.root() + "/lib.so");
  EXPECT_THAT(std::string(status.message()), HasSubstr("lib.so"));
  EXPECT_FALSE(TryLoad("/nonexistent.so").ok());
}

TEST(TryLoad, SurvivesAConstructorThatAborts) {
  absl::Status status = TryLoad(ROCATTACH_TEST_ABORTING_LIBRARY);
  EXPECT_THAT(std::string(status.message()), HasSubstr("ended with SIGABRT"));
}

TEST(ObstacleForOthers, NamesTheClosedDirectory) {
  FakeMachine fake;  // its root is private
  fake.Write("/a/b/file", "x");
  const std::string file = fake.root() + "/a/b/file";
  EXPECT_EQ(ObstacleForOthers(file), fake.root() + " is not searchable by other users");
  ASSERT_EQ(chmod(fake.root().c_str(), 0755), 0);
  ASSERT_EQ(chmod(file.c_str(), 0600), 0);
  EXPECT_EQ(ObstacleForOthers(file), file + " is not readable by other users");
  EXPECT_THAT(ObstacleForOthers(fake.root() + "/missing"), HasSubstr("No such file"));
}

TEST(CheckCollector, RefusesOtherFiles) {
  Check missing = CheckCollector("/nonexistent/collector.so");
  EXPECT_EQ(missing.state, CheckState::kFailed);
  EXPECT_THAT(missing.found, HasSubstr("/nonexistent/collector.so"));
  // A library, but without the functions that are probed.
  Check other = CheckCollector(ROCATTACH_TEST_FAKE_REGISTER);
  EXPECT_EQ(other.state, CheckState::kFailed);
  EXPECT_THAT(other.found, HasSubstr("rocattach_collector_ready"));
}

}  // namespace
}  // namespace rocattach
