#include "userspace/doctor/privilege_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/doctor/fake_machine.h"

namespace rocattach {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr uint64_t kAll = (uint64_t{1} << 41) - 1;

uint64_t Bit(Capabilities::Number number) {
  return uint64_t{1} << number;
}
Capabilities Without(std::initializer_list<Capabilities::Number> numbers) {
  uint64_t bits = kAll;
  for (auto number : numbers) bits &= ~Bit(number);
  return Capabilities(bits);
}

TEST(ReadCapabilities, ReadsTheEffectiveOnes) {
  FakeMachine fake;
  EXPECT_FALSE(ReadCapabilities(fake.machine()).Has(Capabilities::kSysAdmin));
  fake.Write("/proc/self/status",
             "CapPrm:\t000001ffffffffff\nCapEff:\t0000000000280000\n");
  Capabilities capabilities = ReadCapabilities(fake.machine());
  EXPECT_TRUE(capabilities.Has(Capabilities::kSysPtrace));
  EXPECT_TRUE(capabilities.Has(Capabilities::kSysAdmin));
  EXPECT_FALSE(capabilities.Has(Capabilities::kBpf));
  EXPECT_TRUE(capabilities.CanLoadBpf());
}

TEST(CheckCapabilities, NamesEachOneThatIsMissing) {
  Check all = CheckCapabilities(Capabilities(kAll));
  EXPECT_EQ(all.state, CheckState::kOk);
  EXPECT_EQ(all.items.size(), 8u);
  Check none = CheckCapabilities(Capabilities());
  EXPECT_EQ(none.state, CheckState::kFailed);
  for (const char* name :
       {"CAP_BPF", "CAP_PERFMON", "CAP_SYS_ADMIN", "CAP_SYS_PTRACE",
        "CAP_DAC_READ_SEARCH", "CAP_CHECKPOINT_RESTORE", "CAP_SYS_NICE", "CAP_KILL"}) {
    EXPECT_THAT(none.found, HasSubstr(name));
    EXPECT_THAT(none.remedy, HasSubstr(name));
  }
}

TEST(CheckCapabilities, AdminIncludesThoseSplitOff) {
  using C = Capabilities;
  Check check =
      CheckCapabilities(Without({C::kBpf, C::kPerfmon, C::kCheckpointRestore}));
  EXPECT_EQ(check.state, CheckState::kOk) << check.found;
  Check override_read = CheckCapabilities(Without({C::kDacReadSearch}));
  EXPECT_EQ(override_read.state, CheckState::kOk) << override_read.found;
}

TEST(CheckCapabilities, StateDependsOnTheMissingCapability) {
  using C = Capabilities;
  EXPECT_EQ(CheckCapabilities(Without({C::kSysAdmin})).state, CheckState::kFailed);
  EXPECT_EQ(CheckCapabilities(Without({C::kSysPtrace})).state, CheckState::kFailed);
  Check nice = CheckCapabilities(Without({C::kSysNice}));
  EXPECT_EQ(nice.state, CheckState::kWarning);
  EXPECT_EQ(nice.found, "missing CAP_SYS_NICE");
  EXPECT_EQ(CheckCapabilities(Without({C::kDacOverride, C::kDacReadSearch})).state,
            CheckState::kWarning);
  EXPECT_EQ(CheckCapabilities(Without({C::kKill})).state, CheckState::kNote);
}

TEST(CheckYama, DependsOnCapability) {
  FakeMachine fake;
  const std::string path = "/proc/sys/kernel/yama/ptrace_scope";
  EXPECT_EQ(CheckYama(fake.machine(), Capabilities()).state, CheckState::kOk);
  fake.Write(path, "0\n");
  EXPECT_EQ(CheckYama(fake.machine(), Capabilities()).state, CheckState::kOk);
  for (const char* scope : {"1\n", "2\n"}) {
    fake.Write(path, scope);
    EXPECT_EQ(CheckYama(fake.machine(), Capabilities(kAll)).state, CheckState::kOk);
    EXPECT_EQ(CheckYama(fake.machine(), Capabilities()).state, CheckState::kFailed);
  }
  fake.Write(path, "3\n");
  EXPECT_EQ(CheckYama(fake.machine(), Capabilities(kAll)).state, CheckState::kFailed);
  fake.Write(path, "many\n");
  EXPECT_EQ(CheckYama(fake.machine(), Capabilities(kAll)).state,
            CheckState::kUnchecked);
}

TEST(CheckSeccompOfSelf, SeesAFilter) {
  FakeMachine fake;
  EXPECT_EQ(CheckSeccompOfSelf(fake.machine()).state, CheckState::kUnchecked);
  fake.Write("/proc/self/status", "Seccomp:\t0\n");
  EXPECT_EQ(CheckSeccompOfSelf(fake.machine()).state, CheckState::kOk);
  fake.Write("/proc/self/status", "Seccomp:\t2\n");
  EXPECT_EQ(CheckSeccompOfSelf(fake.machine()).state, CheckState::kWarning);
}

TEST(CheckNamespaces, OnlyTheInitialOnesWillDo) {
  FakeMachine initial;
  EXPECT_EQ(CheckNamespaces(initial.machine()).state, CheckState::kUnchecked);
  initial.Link("/proc/self/ns/pid", "pid:[4026531836]");
  initial.Link("/proc/self/ns/user", "user:[4026531837]");
  EXPECT_EQ(CheckNamespaces(initial.machine()).state, CheckState::kOk);

  FakeMachine container;
  container.Link("/proc/self/ns/pid", "pid:[4026532201]");
  container.Link("/proc/self/ns/user", "user:[4026531837]");
  Check inner = CheckNamespaces(container.machine());
  EXPECT_EQ(inner.state, CheckState::kFailed);
  EXPECT_THAT(inner.remedy, HasSubstr("--pid=host"));
  EXPECT_THAT(inner.remedy, Not(HasSubstr("rootless")));

  FakeMachine rootless;
  rootless.Link("/proc/self/ns/pid", "pid:[4026531836]");
  rootless.Link("/proc/self/ns/user", "user:[4026532200]");
  Check user = CheckNamespaces(rootless.machine());
  EXPECT_EQ(user.state, CheckState::kFailed);
  EXPECT_THAT(user.remedy, HasSubstr("rootless"));
}

TEST(CheckHidePid, ReadsTheMountThatIsSeen) {
  FakeMachine fake;
  EXPECT_EQ(CheckHidePid(fake.machine(), Capabilities()).state, CheckState::kUnchecked);
  fake.Write("/proc/self/mountinfo",
             "22 1 0:21 / / rw,relatime - ext4 /dev/sda1 rw\n"
             "23 22 0:22 / /proc rw,nosuid,nodev shared:5 - proc proc rw\n");
  EXPECT_EQ(CheckHidePid(fake.machine(), Capabilities()).state, CheckState::kOk);
  for (const char* value : {"1", "2", "4", "invisible", "noaccess", "ptraceable"}) {
    fake.Write("/proc/self/mountinfo",
               "23 22 0:22 / /proc rw shared:5 - proc proc rw\n"
               "24 22 0:22 / /proc rw shared:5 - proc proc rw,hidepid=" +
                   std::string(value) + "\n");
    EXPECT_EQ(CheckHidePid(fake.machine(), Capabilities()).state, CheckState::kWarning)
        << value;
    EXPECT_EQ(CheckHidePid(fake.machine(), Capabilities(kAll)).state, CheckState::kOk);
  }
  for (const char* value : {"0", "off"}) {
    fake.Write("/proc/self/mountinfo", "23 22 0:22 / /proc rw - proc proc rw,hidepid=" +
                                           std::string(value) + "\n");
    EXPECT_EQ(CheckHidePid(fake.machine(), Capabilities()).state, CheckState::kOk);
  }
}

}  // namespace
}  // namespace rocattach
