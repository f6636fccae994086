#include "userspace/watch/policy.h"

#include <gtest/gtest.h>

namespace rocattach {
namespace {

ProcessInfo Python() {
  ProcessInfo info;
  info.id.pid = 100;
  info.uid = 1000;
  info.comm = "python3";
  info.executable = "/usr/bin/python3.11";
  info.arguments = {"python3", "/home/user/train.py", "--epochs", "3"};
  return info;
}

TEST(Policy, WithoutRulesEverythingIsAllowed) {
  EXPECT_TRUE(Decide({}, Python()).allowed);
}

TEST(Policy, MatchesNamePathLastPartAndScript) {
  for (const char* glob : {"python3", "python*", "/usr/bin/python3.11",
                           "/usr/*/python*", "python3.11", "train.py", "*.py"}) {
    EXPECT_TRUE(MatchesProcess(glob, Python())) << glob;
  }
  for (const char* glob : {"ruby", "train", "3", "--epochs", ""}) {
    EXPECT_FALSE(MatchesProcess(glob, Python())) << glob;
  }
}

TEST(Policy, AllowListRestricts) {
  EXPECT_TRUE(
      Decide({.allow = {"ruby", "python3"}, .deny = {}, .only_uid = {}}, Python())
          .allowed);
  PolicyDecision no = Decide({.allow = {"ruby"}, .deny = {}, .only_uid = {}}, Python());
  EXPECT_FALSE(no.allowed);
  EXPECT_FALSE(no.reason.empty());
}

TEST(Policy, DenyWinsOverAllow) {
  PolicyDecision decision =
      Decide({.allow = {"python3"}, .deny = {"*.py"}, .only_uid = {}}, Python());
  EXPECT_FALSE(decision.allowed);
  EXPECT_NE(decision.reason.find("*.py"), std::string::npos);
}

TEST(Policy, OnlyOneUser) {
  EXPECT_TRUE(Decide({.allow = {}, .deny = {}, .only_uid = 1000}, Python()).allowed);
  EXPECT_FALSE(Decide({.allow = {}, .deny = {}, .only_uid = 0}, Python()).allowed);
}

TEST(Policy, NamesDecideWhereNothingElseCould) {
  const PolicyRules by_name = {.allow = {"train*"}, .deny = {}, .only_uid = {}};
  auto decision = DecideByName(by_name, 1000, "trainer");
  ASSERT_TRUE(decision.has_value());
  EXPECT_TRUE(decision->allowed);
  // Not decided: the path or the script of the process may match.
  const PolicyRules by_path = {
      .allow = {"/usr/bin/python*"}, .deny = {}, .only_uid = {}};
  EXPECT_FALSE(DecideByName(by_path, 1000, "python3").has_value());
  decision = DecideByName(by_path, 1000, "python3", "/usr/bin/python3.11");
  ASSERT_TRUE(decision.has_value());
  EXPECT_TRUE(decision->allowed);
  EXPECT_FALSE(DecideByName(by_path, 1000, "python3", "/opt/python3").has_value());
  EXPECT_FALSE(DecideByName(by_name, 1000, "python3").has_value());

  const PolicyRules denied = {.allow = {}, .deny = {"python3"}, .only_uid = {}};
  decision = DecideByName(denied, 1000, "python3");
  ASSERT_TRUE(decision.has_value());
  EXPECT_FALSE(decision->allowed);
  EXPECT_EQ(decision->reason, Decide(denied, Python()).reason);
  // Not decided: the path of the process may be denied.
  EXPECT_FALSE(DecideByName(denied, 1000, "ruby").has_value());
  EXPECT_FALSE(
      DecideByName({.allow = {"ruby"}, .deny = {"x"}, .only_uid = {}}, 1, "ruby")
          .has_value());

  const PolicyRules of_user = {.allow = {"x"}, .deny = {"y"}, .only_uid = 7};
  decision = DecideByName(of_user, 8, "python3");
  ASSERT_TRUE(decision.has_value());
  EXPECT_FALSE(decision->allowed);
  EXPECT_FALSE(DecideByName(of_user, 7, "x").has_value());
  decision = DecideByName({.allow = {}, .deny = {}, .only_uid = 7}, 7, "python3");
  ASSERT_TRUE(decision.has_value());
  EXPECT_TRUE(decision->allowed);
}

TEST(Policy, PlainCommandsAreThoseThatTheKernelCanCompare) {
  EXPECT_TRUE(IsPlainCommand("python3"));
  EXPECT_TRUE(IsPlainCommand("fifteen-letters"));
  for (const char* glob : {"", "python*", "p?thon", "[ab]", "/usr/bin/python3",
                           "sixteen--letters", "a\\*"}) {
    EXPECT_FALSE(IsPlainCommand(glob)) << glob;
  }
}

}  // namespace
}  // namespace rocattach
