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

}  // namespace
}  // namespace rocattach
