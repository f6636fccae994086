#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/unit/doctor/fake_machine.h"
#include "userspace/base/version.h"
#include "userspace/doctor/check.h"
#include "userspace/doctor/doctor.h"
#include "userspace/doctor/output.h"

namespace rocattach {
namespace {

using testing::HasSubstr;
using testing::Not;

DoctorReport ReportOf(std::initializer_list<CheckState> states) {
  DoctorReport report;
  int number = 0;
  for (CheckState state : states) {
    report.checks.push_back({.name = "check-" + std::to_string(number++),
                             .state = state,
                             .found = "found it",
                             .meaning = "It means this.",
                             .remedy = "Do that."});
  }
  return report;
}

TEST(DoctorReport, TheWorstCheckDecides) {
  using S = CheckState;
  EXPECT_EQ(ReportOf({}).exit_status(), 0);
  EXPECT_EQ(ReportOf({S::kOk, S::kNote}).exit_status(), 0);
  EXPECT_EQ(ReportOf({S::kOk, S::kUnchecked}).exit_status(), 1);
  EXPECT_EQ(ReportOf({S::kWarning, S::kOk}).exit_status(), 1);
  EXPECT_EQ(ReportOf({S::kFailed, S::kWarning}).exit_status(), 3);
  EXPECT_EQ(ReportOf({S::kNote}).verdict(), DoctorVerdict::kFull);
}

TEST(DoctorReport, FindsChecksByName) {
  DoctorReport report = ReportOf({CheckState::kOk, CheckState::kFailed});
  ASSERT_NE(report.Find("check-1"), nullptr);
  EXPECT_EQ(report.Find("check-1")->state, CheckState::kFailed);
  EXPECT_EQ(report.Find("check-2"), nullptr);
}

// Writes the files of a machine on which every check passes.
void FurnishGoodMachine(FakeMachine* fake) {
  fake->Write("/sys/kernel/btf/vmlinux", "btf");
  fake->Write("/sys/bus/event_source/devices/uprobe/type", "8\n");
  fake->Write("/proc/self/status", "CapEff:\t000001ffffffffff\nSeccomp:\t0\n");
  fake->Write("/proc/self/mountinfo", "23 22 0:22 / /proc rw - proc proc rw\n");
  fake->Write("/proc/sys/kernel/unprivileged_bpf_disabled", "2\n");
  fake->Write("/proc/cmdline", "quiet\n");
  fake->Link("/proc/self/ns/pid", "pid:[4026531836]");
  fake->Link("/proc/self/ns/user", "user:[4026531837]");
  fake->Write("/dev/kfd", "");
  fake->Write("/sys/class/kfd/kfd/topology/nodes/1/properties",
              "simd_count 440\ngfx_target_version 90010\n");
}

TEST(ReadMachine, IsFullWhereAllIsWell) {
  FakeMachine fake;
  FurnishGoodMachine(&fake);
  DoctorReport report = ReadMachine(fake.machine(), "6.8.0", "x86_64");
  EXPECT_EQ(report.exit_status(), 0) << DoctorText(report, {.verbose = true});
  fake.Write("/proc/sys/kernel/yama/ptrace_scope", "3\n");
  EXPECT_EQ(ReadMachine(fake.machine(), "6.8.0", "x86_64").exit_status(), 3);
}

TEST(ReadMachine, AnEmptyMachineCannotAttach) {
  FakeMachine fake;
  DoctorReport report = ReadMachine(fake.machine(), "6.8.0", "x86_64");
  EXPECT_EQ(report.exit_status(), 3);
  // Every check that does not pass has an explanation and a remedy.
  for (const Check& check : report.checks) {
    EXPECT_FALSE(check.found.empty()) << check.name;
    if (check.state >= CheckState::kUnchecked) {
      EXPECT_FALSE(check.meaning.empty()) << check.name;
      EXPECT_FALSE(check.remedy.empty()) << check.name;
    }
  }
}

TEST(DoctorText, IsPlainWithoutATerminal) {
  std::string text =
      DoctorText(ReportOf({CheckState::kOk, CheckState::kFailed}), {.color = false});
  EXPECT_THAT(text, Not(HasSubstr("\033")));
  EXPECT_THAT(text, HasSubstr("ok         check-0"));
  EXPECT_THAT(text, HasSubstr("failed     check-1"));
  EXPECT_THAT(text, HasSubstr("-> Do that."));
  EXPECT_THAT(text, HasSubstr("attaching cannot work on this machine: check-1\n"));
}

TEST(DoctorText, ColorsAndExplainsWhenAsked) {
  DoctorReport report = ReportOf({CheckState::kOk});
  EXPECT_THAT(DoctorText(report, {.color = true}), HasSubstr("\033[32mok\033[0m"));
  EXPECT_THAT(DoctorText(report, {}), Not(HasSubstr("It means this.")));
  EXPECT_THAT(DoctorText(report, {.verbose = true}), HasSubstr("It means this."));
}

TEST(DoctorText, WrapsLinesAndRemovesEscapeCharacters) {
  DoctorReport report = ReportOf({CheckState::kFailed});
  report.checks[0].found = "evil\033[2Jpath " + std::string(300, 'x');
  for (int i = 0; i < 40; ++i) report.checks[0].meaning += " word";
  std::string text = DoctorText(report, {.width = 80});
  EXPECT_THAT(text, Not(HasSubstr("\033")));
  size_t begin = 0;
  for (size_t end; (end = text.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    std::string line = text.substr(begin, end - begin);
    if (line.find("xxx") == std::string::npos) {
      EXPECT_LE(line.size(), 80u) << line;
    }
  }
}

TEST(DoctorJson, HoldsEverything) {
  DoctorReport report = ReportOf({CheckState::kOk, CheckState::kWarning});
  report.checks[1].items.push_back({"item", CheckState::kNote, "not UTF-8: \xff"});
  auto json = nlohmann::json::parse(DoctorJson(report));
  EXPECT_EQ(json["version"], ROCATTACH_VERSION);
  EXPECT_EQ(json["verdict"], "partial");
  EXPECT_EQ(json["exit_status"], 1);
  ASSERT_EQ(json["checks"].size(), 2u);
  EXPECT_EQ(json["checks"][1]["state"], "warning");
  EXPECT_EQ(json["checks"][1]["remedy"], "Do that.");
  EXPECT_EQ(json["checks"][1]["items"][0]["state"], "note");
}

}  // namespace
}  // namespace rocattach
