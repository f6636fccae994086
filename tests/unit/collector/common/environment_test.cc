#include "userspace/collector/common/environment.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace rocattach::collector {
namespace {

// An environment that belongs to the test.
class EnvironmentTest : public testing::Test {
 protected:
  void Set(std::vector<std::string> entries) {
    strings_ = std::move(entries);
    array_.clear();
    for (std::string& s : strings_) array_.push_back(s.data());
    array_.push_back(nullptr);
    place_ = array_.data();
  }
  std::vector<std::string> Now() const {
    std::vector<std::string> entries;
    for (char** p = place_; *p != nullptr; ++p) entries.push_back(*p);
    return entries;
  }
  std::vector<std::string> strings_;
  std::vector<char*> array_;
  char** place_ = nullptr;
  Environment environment_{&place_};
};

using Strings = std::vector<std::string>;

TEST_F(EnvironmentTest, InstallAddsTheVariableAndRestoreRemovesIt) {
  Set({"A=1", "B=2"});
  char** before = place_;
  ASSERT_EQ(environment_.Install("/lib/c.so"), 0);
  EXPECT_EQ(Now(), (Strings{"A=1", "B=2", "HSA_TOOLS_LIB=/lib/c.so"}));
  EXPECT_NE(place_, before);
  environment_.Restore();
  EXPECT_EQ(place_, before);
  EXPECT_EQ(Now(), (Strings{"A=1", "B=2"}));
}

TEST_F(EnvironmentTest, KeepsTheUsersTools) {
  Set({"HSA_TOOLS_LIB=/opt/tool.so", "A=1"});
  ASSERT_EQ(environment_.Install("/lib/c.so"), 0);
  EXPECT_EQ(Now(), (Strings{"HSA_TOOLS_LIB=/opt/tool.so /lib/c.so", "A=1"}));
  environment_.Restore();
  EXPECT_EQ(Now(), (Strings{"HSA_TOOLS_LIB=/opt/tool.so", "A=1"}));
}

TEST_F(EnvironmentTest, EmptyUserValueAndEmptyEnvironment) {
  Set({"HSA_TOOLS_LIB="});
  ASSERT_EQ(environment_.Install("/lib/c.so"), 0);
  EXPECT_EQ(Now(), (Strings{"HSA_TOOLS_LIB=/lib/c.so"}));
  environment_.Restore();
  EXPECT_EQ(Now(), (Strings{"HSA_TOOLS_LIB="}));

  place_ = nullptr;  // as after clearenv()
  ASSERT_EQ(environment_.Install("/lib/c.so"), 0);
  EXPECT_EQ(Now(), (Strings{"HSA_TOOLS_LIB=/lib/c.so"}));
  environment_.Restore();
  EXPECT_EQ(place_, nullptr);
}

TEST_F(EnvironmentTest, EscapesSpacesQuotesAndBackslashes) {
  char out[64];
  EXPECT_EQ(QuoteToolPath("/a b/\"c\"\\d.so", out), strlen("/a\\ b/\\\"c\\\"\\\\d.so"));
  EXPECT_STREQ(out, "/a\\ b/\\\"c\\\"\\\\d.so");
  Set({"A=1"});
  ASSERT_EQ(environment_.Install("/my tools/c.so"), 0);
  EXPECT_EQ(Now().back(), "HSA_TOOLS_LIB=/my\\ tools/c.so");
}

TEST_F(EnvironmentTest, SecondInstallAndRestoreDoNothing) {
  Set({"A=1"});
  ASSERT_EQ(environment_.Install("/lib/c.so"), 0);
  char** installed = place_;
  ASSERT_EQ(environment_.Install("/lib/c.so"), 0);
  EXPECT_EQ(place_, installed);
  environment_.Restore();
  environment_.Restore();
  EXPECT_EQ(Now(), (Strings{"A=1"}));
  ASSERT_EQ(environment_.Install("/lib/c.so"), 0);
  EXPECT_EQ(Now().size(), 2u);
}

TEST_F(EnvironmentTest, RepeatedInstallationReusesItsMemory) {
  Set({"A=1", "B=2"});
  ASSERT_EQ(environment_.Install("/lib/c.so", ToolVariables::kSdk), 0);
  char** const ours = place_;
  const Strings first = Now();
  for (int i = 0; i < 3; ++i) {
    environment_.Restore();
    EXPECT_EQ(Now(), (Strings{"A=1", "B=2"}));
    ASSERT_EQ(environment_.Install("/lib/c.so", ToolVariables::kSdk), 0);
    EXPECT_EQ(place_, ours);
    EXPECT_EQ(Now(), first);
  }
  environment_.Restore();
}

TEST_F(EnvironmentTest, ChangesBetweenInstallationsAreSeen) {
  Set({"HSA_TOOLS_LIB=/opt/a.so", "A=1", "B=2"});
  ASSERT_EQ(environment_.Install("/lib/c.so"), 0);
  environment_.Restore();
  strings_[0].replace(strings_[0].find("a.so"), 1, "b");  // in place
  ASSERT_EQ(environment_.Install("/lib/c.so"), 0);
  EXPECT_EQ(Now()[0], "HSA_TOOLS_LIB=/opt/b.so /lib/c.so");
  environment_.Restore();

  Set({"A=1", "B=2"});
  ASSERT_EQ(environment_.Install("/lib/c.so"), 0);
  environment_.Restore();
  array_[1] = nullptr;  // as unsetenv does
  ASSERT_EQ(environment_.Install("/lib/c.so"), 0);
  EXPECT_EQ(Now(), (Strings{"A=1", "HSA_TOOLS_LIB=/lib/c.so"}));
  environment_.Restore();
  EXPECT_EQ(Now(), (Strings{"A=1"}));
}

TEST_F(EnvironmentTest, KeepsChangesMadeInBetween) {
  Set({"A=1", "B=2"});
  ASSERT_EQ(environment_.Install("/lib/c.so"), 0);
  // setenv of an existing name writes to the array in place.
  char changed[] = "A=9";
  place_[0] = changed;
  environment_.Restore();
  EXPECT_EQ(Now(), (Strings{"A=9", "B=2"}));
}

TEST_F(EnvironmentTest, KeepsANewArrayMadeInBetween) {
  Set({"HSA_TOOLS_LIB=/opt/tool.so", "B=2"});
  ASSERT_EQ(environment_.Install("/lib/c.so"), 0);
  // setenv of a new name copies the array.
  char added[] = "C=3";
  std::vector<char*> copy = {place_[0], place_[1], added, nullptr};
  place_ = copy.data();
  environment_.Restore();
  EXPECT_EQ(place_, copy.data());
  EXPECT_EQ(Now(), (Strings{"HSA_TOOLS_LIB=/opt/tool.so", "B=2", "C=3"}));
}

TEST_F(EnvironmentTest, RemovesOnlyItsOwnEntry) {
  Set({"A=1"});
  ASSERT_EQ(environment_.Install("/lib/c.so"), 0);
  // The application sets the variable itself, so the new value is the application's.
  char own[] = "HSA_TOOLS_LIB=/app/own.so";
  place_[1] = own;
  environment_.Restore();
  EXPECT_EQ(Now(), (Strings{"A=1", "HSA_TOOLS_LIB=/app/own.so"}));
}

TEST_F(EnvironmentTest, BringsInTheSdkToo) {
  Set({"A=1"});
  ASSERT_EQ(environment_.Install("/lib/c.so", ToolVariables::kSdk), 0);
  EXPECT_EQ(Now(),
            (Strings{"A=1", "HSA_TOOLS_LIB=/lib/c.so", "ROCP_TOOL_LIBRARIES=/lib/c.so",
                     "HSA_TOOLS_ROCPROFILER_V1_TOOLS=1"}));
  EXPECT_TRUE(environment_.tools_beside_sdk());
  environment_.Restore();
  EXPECT_EQ(Now(), (Strings{"A=1"}));
}

// If the user has SDK tools, the runtime ignores the user's HSA tools, with or without
// us. The list must end with a colon, or its last entry is not read.
TEST_F(EnvironmentTest, KeepsTheUsersSdkTools) {
  Set({"ROCP_TOOL_LIBRARIES=/opt/a.so", "B=2"});
  ASSERT_EQ(environment_.Install("/lib/c.so", ToolVariables::kSdk), 0);
  EXPECT_EQ(Now(), (Strings{"ROCP_TOOL_LIBRARIES=/opt/a.so:/lib/c.so:", "B=2",
                            "HSA_TOOLS_LIB=/lib/c.so"}));
  EXPECT_FALSE(environment_.tools_beside_sdk());
  environment_.Restore();
  EXPECT_EQ(Now(), (Strings{"ROCP_TOOL_LIBRARIES=/opt/a.so", "B=2"}));

  Set({"ROCP_TOOL_LIBRARIES=/opt/a.so:"});
  ASSERT_EQ(environment_.Install("/lib/c.so", ToolVariables::kSdk), 0);
  EXPECT_EQ(Now()[0], "ROCP_TOOL_LIBRARIES=/opt/a.so:/lib/c.so:");
  EXPECT_EQ(environment_.Install("/li:b/c.so", ToolVariables::kSdk), EINVAL);
}

TEST_F(EnvironmentTest, TheUsersSettingOfHsaToolsBesideTheSdkIsKept) {
  Set({"HSA_TOOLS_ROCPROFILER_V1_TOOLS=0"});
  ASSERT_EQ(environment_.Install("/lib/c.so", ToolVariables::kSdk), 0);
  EXPECT_EQ(Now()[0], "HSA_TOOLS_ROCPROFILER_V1_TOOLS=0");
  EXPECT_FALSE(environment_.tools_beside_sdk());
}

// The SDK calls setenv when it is loaded.
TEST_F(EnvironmentTest, RestoreRemovesVariablesThatTheSdkSets) {
  for (bool there_before : {false, true}) {
    Set(there_before ? Strings{"ROCPROFILER_REGISTER_LIBRARY=/user", "A=1"}
                     : Strings{"A=1"});
    Strings before = Now();
    ASSERT_EQ(environment_.Install("/lib/c.so", ToolVariables::kSdk), 0);
    std::vector<char*> copy;
    for (char** p = place_; *p != nullptr; ++p) copy.push_back(*p);
    char library[] = "ROCPROFILER_REGISTER_LIBRARY=/opt/librocprofiler-sdk.so";
    char force[] = "ROCPROFILER_REGISTER_FORCE_LOAD=1";
    char other[] = "C=3";
    if (!there_before) copy.push_back(library);
    for (char* entry : {force, other, static_cast<char*>(nullptr)}) {
      copy.push_back(entry);
    }
    place_ = copy.data();
    environment_.Restore();
    before.push_back("C=3");
    EXPECT_EQ(Now(), before);
  }
}

// An SDK that was loaded late would keep the tools out of a runtime that starts again.
TEST_F(EnvironmentTest, BringsInTheToolsBesideAnSdkThatIsThere) {
  Set({"A=1"});
  ASSERT_EQ(environment_.Install("/lib/c.so", ToolVariables::kHsaToolsBesideSdk), 0);
  EXPECT_EQ(Now(), (Strings{"A=1", "HSA_TOOLS_LIB=/lib/c.so",
                            "HSA_TOOLS_ROCPROFILER_V1_TOOLS=1"}));
  environment_.Restore();
  EXPECT_EQ(Now(), (Strings{"A=1"}));

  Set({"HSA_TOOLS_ROCPROFILER_V1_TOOLS=0"});
  ASSERT_EQ(environment_.Install("/lib/c.so", ToolVariables::kHsaToolsBesideSdk), 0);
  EXPECT_EQ(Now(),
            (Strings{"HSA_TOOLS_ROCPROFILER_V1_TOOLS=0", "HSA_TOOLS_LIB=/lib/c.so"}));
}

// The SDK is loaded late: its variables get their earlier values back, whatever it has
// written to them, and changes that others make meanwhile are kept.
TEST_F(EnvironmentTest, TheVariablesOfALateSdkAreRestored) {
  for (bool there_before : {false, true}) {
    Set(there_before ? Strings{"ROCPROFILER_REGISTER_LIBRARY=/user", "A=1"}
                     : Strings{"A=1"});
    Strings before = Now();
    ASSERT_EQ(environment_.Install("/sdk.so", ToolVariables::kLateSdk), 0);
    EXPECT_EQ(Now().size(), 4u);
    char library[] = "ROCPROFILER_REGISTER_LIBRARY=/opt/librocprofiler-sdk.so";
    char force[] = "ROCPROFILER_REGISTER_FORCE_LOAD=1";
    char changed[] = "A=2";
    for (char** p = place_; *p != nullptr; ++p) {
      if (strncmp(*p, library, strlen("ROCPROFILER_REGISTER_LIBRARY=")) == 0) {
        *p = library;
      } else if (strncmp(*p, force, strlen("ROCPROFILER_REGISTER_FORCE_LOAD=")) == 0) {
        *p = force;
      } else if (strcmp(*p, "A=1") == 0) {
        *p = changed;
      }
    }
    environment_.Restore();
    before.back() = "A=2";
    EXPECT_EQ(Now(), before);
  }
}

// The variables exist before the SDK sets them, because another thread may be inside
// getenv: setenv leaves the array where it is only if it finds the name.
TEST(EnvironmentLibcTest, SetenvLeavesTheArrayOfALateSdk) {
  Environment environment(&environ);
  ASSERT_EQ(environment.Install("/sdk.so", ToolVariables::kLateSdk), 0);
  char** const ours = environ;
  setenv("ROCPROFILER_REGISTER_FORCE_LOAD", "1", 1);
  setenv("ROCPROFILER_REGISTER_LIBRARY", "/opt/librocprofiler-sdk.so", 1);
  setenv("HSA_TOOLS_ROCPROFILER_V1_TOOLS", "0", 0);
  EXPECT_EQ(environ, ours);
  EXPECT_STREQ(getenv("ROCPROFILER_REGISTER_LIBRARY"), "/opt/librocprofiler-sdk.so");
  environment.Restore();
  EXPECT_EQ(getenv("ROCPROFILER_REGISTER_FORCE_LOAD"), nullptr);
  EXPECT_EQ(getenv("ROCPROFILER_REGISTER_LIBRARY"), nullptr);
  EXPECT_EQ(getenv("HSA_TOOLS_ROCPROFILER_V1_TOOLS"), nullptr);
}

TEST(EnvironmentLibcTest, WorksWithTheRealOne) {
  setenv("ROCATTACH_TEST_BEFORE", "1", 1);
  unsetenv("HSA_TOOLS_LIB");
  Environment environment(&environ);
  ASSERT_EQ(environment.Install("/lib/c.so"), 0);
  EXPECT_STREQ(getenv("HSA_TOOLS_LIB"), "/lib/c.so");
  EXPECT_STREQ(getenv("ROCATTACH_TEST_BEFORE"), "1");
  setenv("ROCATTACH_TEST_DURING", "2", 1);
  environment.Restore();
  EXPECT_EQ(getenv("HSA_TOOLS_LIB"), nullptr);
  EXPECT_STREQ(getenv("ROCATTACH_TEST_DURING"), "2");
  setenv("ROCATTACH_TEST_AFTER", "3", 1);
  EXPECT_STREQ(getenv("ROCATTACH_TEST_AFTER"), "3");
  int status = system("test -z \"$HSA_TOOLS_LIB\" -a \"$ROCATTACH_TEST_DURING\" = 2");
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace rocattach::collector
