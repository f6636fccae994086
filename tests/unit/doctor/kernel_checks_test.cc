#include "userspace/doctor/kernel_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/doctor/fake_machine.h"

namespace rocattach {
namespace {

using testing::HasSubstr;

TEST(ParseKernelVersion, ReadsReleasesOfDistributions) {
  EXPECT_EQ(ParseKernelVersion("6.1.0-18-amd64"), (KernelVersion{6, 1}));
  EXPECT_EQ(ParseKernelVersion("5.15.0-101-generic"), (KernelVersion{5, 15}));
  EXPECT_EQ(ParseKernelVersion("5.14.0-362.el9.x86_64"), (KernelVersion{5, 14}));
  EXPECT_EQ(ParseKernelVersion("6.12-rc3"), (KernelVersion{6, 12}));
}

TEST(ParseKernelVersion, RefusesOtherText) {
  for (const char* text : {"", "6", "six.one", ".1", "6.", "-6.1", "6.x"}) {
    EXPECT_FALSE(ParseKernelVersion(text).has_value()) << text;
  }
}

TEST(CheckKernel, JudgesByVersionAndMachine) {
  EXPECT_EQ(CheckKernel("6.1.0-56-amd64", "x86_64").state, CheckState::kOk);
  EXPECT_EQ(CheckKernel("6.12.117+deb12-amd64", "x86_64").state, CheckState::kOk);
  EXPECT_EQ(CheckKernel("5.10.0-46-amd64", "x86_64").state, CheckState::kOk);
  Check untested = CheckKernel("5.9.16", "x86_64");
  // Missing features are found by trying them: no reason to boot another kernel.
  EXPECT_EQ(untested.state, CheckState::kNote);
  EXPECT_THAT(untested.meaning, HasSubstr("Linux 5.10"));
  EXPECT_EQ(untested.remedy, "");
  EXPECT_EQ(CheckKernel("4.18.0", "x86_64").state, CheckState::kNote);
  EXPECT_EQ(CheckKernel("6.8.0", "aarch64").state, CheckState::kFailed);
  EXPECT_EQ(CheckKernel("strange", "x86_64").state, CheckState::kUnchecked);
}

TEST(CheckBtf, SaysHowToGetIt) {
  FakeMachine fake;
  Check missing = CheckBtf(fake.machine());
  EXPECT_EQ(missing.state, CheckState::kFailed);
  EXPECT_THAT(missing.remedy, HasSubstr("CONFIG_DEBUG_INFO_BTF"));
  fake.Write("/sys/kernel/btf/vmlinux", "btf");
  EXPECT_EQ(CheckBtf(fake.machine()).state, CheckState::kOk);
}

TEST(CheckUprobeSource, NamesTheSource) {
  FakeMachine fake;
  EXPECT_EQ(CheckUprobeSource(fake.machine()).state, CheckState::kFailed);
  fake.Write("/sys/bus/event_source/devices/uprobe/type", "9\n");
  Check check = CheckUprobeSource(fake.machine());
  EXPECT_EQ(check.state, CheckState::kOk);
  EXPECT_EQ(check.found, "perf event source 9");
}

TEST(CheckLockdown, OnlyConfidentialityForbids) {
  FakeMachine fake;
  EXPECT_EQ(CheckLockdown(fake.machine()).state, CheckState::kOk);
  const std::string path = "/sys/kernel/security/lockdown";
  fake.Write(path, "[none] integrity confidentiality\n");
  EXPECT_EQ(CheckLockdown(fake.machine()).found, "none");
  fake.Write(path, "none [integrity] confidentiality\n");
  Check integrity = CheckLockdown(fake.machine());
  EXPECT_EQ(integrity.state, CheckState::kOk);
  EXPECT_EQ(integrity.found, "integrity");
  fake.Write(path, "none integrity [confidentiality]\n");
  Check confidentiality = CheckLockdown(fake.machine());
  EXPECT_EQ(confidentiality.state, CheckState::kFailed);
  EXPECT_FALSE(confidentiality.remedy.empty());
  for (const char* odd : {"", "]none[", "[", "none [paranoia]"}) {
    fake.Write(path, odd);
    EXPECT_EQ(CheckLockdown(fake.machine()).state, CheckState::kUnchecked) << odd;
  }
}

TEST(CheckUnprivilegedBpf, FailsWhereThereIsNoBpf) {
  FakeMachine fake;
  EXPECT_EQ(CheckUnprivilegedBpf(fake.machine()).state, CheckState::kUnchecked);
  fake.Write("/proc/sys/kernel/ostype", "Linux\n");
  EXPECT_EQ(CheckUnprivilegedBpf(fake.machine()).state, CheckState::kFailed);
  fake.Write("/proc/sys/kernel/unprivileged_bpf_disabled", "2\n");
  Check check = CheckUnprivilegedBpf(fake.machine());
  EXPECT_EQ(check.state, CheckState::kOk);
  EXPECT_THAT(check.found, HasSubstr("= 2"));
}

TEST(CheckMemfd, TriesTheCollectorsMemory) {
  FakeMachine fake;
  fake.Write("/proc/sys/vm/memfd_noexec", "2\n");
  Check check = CheckMemfd(fake.machine());
  EXPECT_EQ(TryCollectorMemory(), "");
  EXPECT_EQ(check.state, CheckState::kOk);
  EXPECT_EQ(check.found, "vm.memfd_noexec = 2");
}

TEST(CheckProcMem, ReadsTheLastOption) {
  FakeMachine fake;
  EXPECT_EQ(CheckProcMem(fake.machine()).state, CheckState::kUnchecked);
  fake.Write("/proc/cmdline", "quiet\n");
  EXPECT_EQ(CheckProcMem(fake.machine()).found, "no proc_mem.force_override");
  fake.Write("/proc/cmdline",
             "proc_mem.force_override=always proc_mem.force_override=never quiet\n");
  Check never = CheckProcMem(fake.machine());
  EXPECT_EQ(never.state, CheckState::kNote);
  EXPECT_EQ(never.found, "proc_mem.force_override=never");
  fake.Write("/proc/cmdline", "proc_mem.force_override=ptrace\n");
  EXPECT_EQ(CheckProcMem(fake.machine()).state, CheckState::kOk);
}

TEST(CheckTranslators, NamesTheAffectedPrograms) {
  EXPECT_EQ(CheckTranslators("").state, CheckState::kOk);
  const Check lacking = CheckTranslators("Programs under Valgrind die.");
  EXPECT_EQ(lacking.state, CheckState::kWarning);
  EXPECT_EQ(lacking.meaning, "Programs under Valgrind die.");
  EXPECT_NE(lacking.remedy, "");
}

TEST(CheckClock, KnowsSlowSources) {
  FakeMachine fake;
  const std::string path =
      "/sys/devices/system/clocksource/clocksource0/current_clocksource";
  EXPECT_EQ(CheckClock(fake.machine()).state, CheckState::kOk);
  fake.Write(path, "tsc\n");
  EXPECT_EQ(CheckClock(fake.machine()).state, CheckState::kOk);
  fake.Write(path, "hpet\n");
  Check slow = CheckClock(fake.machine());
  EXPECT_EQ(slow.state, CheckState::kNote);
  EXPECT_THAT(slow.found, testing::StartsWith("hpet, "));
}

}  // namespace
}  // namespace rocattach
