#include "userspace/doctor/start_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/unit/doctor/fake_machine.h"

namespace rocattach {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kAllRights[] = "CapEff:\t000001ffffffffff\n";
constexpr char kWithoutPtrace[] = "CapEff:\t000001fffff7ffff\n";
constexpr char kYama[] = "/proc/sys/kernel/yama/ptrace_scope";
constexpr char kBtf[] = "/sys/kernel/btf/vmlinux";
constexpr char kUprobe[] = "/sys/bus/event_source/devices/uprobe/type";

// A machine on which everything works, except for what a test changes.
class StartChecksTest : public testing::Test {
 protected:
  StartChecksTest() {
    fake_.Write("/proc/self/status", kAllRights);
    fake_.Write(kBtf, "x");
    fake_.Write(kUprobe, "9\n");
    fake_.Link("/proc/self/ns/pid", "pid:[4026531836]");
    fake_.Link("/proc/self/ns/user", "user:[4026531837]");
  }
  void Replace(const std::string& link, const std::string& target) {
    std::filesystem::remove(fake_.root() + link);
    fake_.Link(link, target);
  }
  void Remove(const std::string& path) { std::filesystem::remove(fake_.root() + path); }
  StartFindings Check(StartNeeds needs = {}, const char* hardware = "x86_64") {
    return CheckStart(needs, fake_.machine(), "6.1.0", hardware);
  }
  void ExpectRefused(const std::string& text, StartNeeds needs = {}) {
    const StartFindings findings = Check(needs);
    EXPECT_TRUE(absl::IsFailedPrecondition(findings.status)) << findings.status;
    EXPECT_THAT(std::string(findings.status.message()), HasSubstr(text));
  }

  FakeMachine fake_;
};

TEST_F(StartChecksTest, NothingIsWrong) {
  const StartFindings findings = Check();
  EXPECT_TRUE(findings.status.ok()) << findings.status;
  EXPECT_THAT(findings.limits, IsEmpty());
}

TEST_F(StartChecksTest, EveryRunNeedsNamespacesKernelAndCapabilities) {
  const StartNeeds watching = {.attaches = false};
  const StartNeeds command = {.enters_all = false};
  for (const StartNeeds& needs : {StartNeeds(), watching, command}) {
    Replace("/proc/self/ns/pid", "pid:[4026532000]");
    ExpectRefused("namespaces: a nested pid namespace", needs);
    ExpectRefused("--pid=host", needs);
    Replace("/proc/self/ns/pid", "pid:[4026531836]");
    Replace("/proc/self/ns/user", "user:[4026532000]");
    ExpectRefused("a nested user namespace", needs);
    Replace("/proc/self/ns/user", "user:[4026531837]");
    Remove(kBtf);
    ExpectRefused("CONFIG_DEBUG_INFO_BTF", needs);
    fake_.Write(kBtf, "x");
    Remove(kUprobe);
    ExpectRefused("CONFIG_UPROBE_EVENTS", needs);
    fake_.Write(kUprobe, "9\n");
    fake_.Write("/sys/kernel/security/lockdown", "none integrity [confidentiality]");
    ExpectRefused("lockdown=integrity", needs);
    fake_.Write("/sys/kernel/security/lockdown", "none [integrity] confidentiality");
    fake_.Write("/proc/self/status", "CapEff:\t0000000000080000\n");
    ExpectRefused("missing CAP_BPF, CAP_PERFMON, CAP_SYS_ADMIN", needs);
    fake_.Write("/proc/self/status", kAllRights);
    EXPECT_TRUE(Check(needs).status.ok()) << Check(needs).status;
  }
  EXPECT_FALSE(Check({}, "aarch64").status.ok());
}

TEST_F(StartChecksTest, SysPtraceIsNeededForOtherProcesses) {
  fake_.Write("/proc/self/status", kWithoutPtrace);
  ExpectRefused("missing CAP_SYS_PTRACE");
  for (const StartNeeds& needs :
       {StartNeeds{.attaches = false}, StartNeeds{.enters_all = false}}) {
    const StartFindings findings = Check(needs);
    EXPECT_TRUE(findings.status.ok()) << findings.status;
    ASSERT_EQ(findings.limits.size(), 1u);
    EXPECT_EQ(findings.limits[0].name, "capabilities");
    EXPECT_THAT(CheckText(findings.limits[0]), HasSubstr("CAP_SYS_PTRACE"));
  }
}

TEST_F(StartChecksTest, YamaForbidsTracingOrLeavesDescendants) {
  fake_.Write(kYama, "3\n");
  ExpectRefused("ptrace_scope = 3");
  ExpectRefused("ptrace_scope = 3", {.enters_all = false});
  EXPECT_TRUE(Check({.attaches = false}).status.ok());
  fake_.Write("/proc/self/status", kWithoutPtrace);
  fake_.Write(kYama, "2\n");
  ExpectRefused("ptrace_scope = 2", {.enters_all = false});
  fake_.Write(kYama, "1\n");
  EXPECT_TRUE(Check({.enters_all = false}).status.ok());
}

TEST_F(StartChecksTest, AMissingGpuOrPriorityDoesNotPreventAStart) {
  // CAP_SYS_NICE is missing, and a seccomp filter permits ptrace.
  fake_.Write("/proc/self/status", "CapEff:\t000001ffff7fffff\nSeccomp:\t2\n");
  const StartFindings findings = Check();
  EXPECT_TRUE(findings.status.ok()) << findings.status;
  EXPECT_THAT(findings.limits, IsEmpty());
}

}  // namespace
}  // namespace rocattach
