#include "injector/process/denial.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/temporary_directory.h"

namespace rocattach {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr pid_t kPid = 1234;

// A directory that stands in for a machine on which root may trace.
class DenialTest : public testing::Test {
 protected:
  DenialTest() { MayTrace(true); }

  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path full = root() + path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
  }
  void MayTrace(bool may) {
    Write("/proc/self/status",
          may ? "CapEff:\t000001ffffffffff\n" : "CapEff:\t0000000000000000\n");
  }
  void EnforceSelinux() {
    Write("/sys/fs/selinux/enforce", "1");
    Write("/proc/self/attr/current", std::string("u:r:rocattach_t:s0\0", 19));
    Write("/proc/1234/attr/current", std::string("u:r:container_t:s0:c1\0", 22));
  }
  void Confine(const std::string& process, const std::string& label) {
    Write("/sys/module/apparmor/parameters/enabled", "Y\n");
    Write("/proc/" + process + "/attr/apparmor/current", label + "\n");
  }
  std::string Trace() const { return ExplainTraceDenial(kPid, root()); }
  std::string Load() const { return ExplainLoadDenial(kPid, root()); }
  const std::string& root() const { return root_.path(); }

 private:
  const testing_support::TemporaryDirectory root_;
};

TEST_F(DenialTest, YamaOff) {
  Write("/proc/sys/kernel/yama/ptrace_scope", "0\n");
  MayTrace(false);
  EXPECT_THAT(Trace(),
              AllOf(HasSubstr("lacks CAP_SYS_PTRACE"), Not(HasSubstr("yama"))));
}

TEST_F(DenialTest, YamaForDescendantsOnly) {
  Write("/proc/sys/kernel/yama/ptrace_scope", "1\n");
  EXPECT_THAT(Trace(), Not(HasSubstr("yama"))) << "CAP_SYS_PTRACE passes";
  MayTrace(false);
  EXPECT_THAT(Trace(),
              AllOf(HasSubstr("ptrace_scope is 1"), HasSubstr("CAP_SYS_PTRACE"),
                    HasSubstr("started the process")));
}

TEST_F(DenialTest, YamaForAdministratorsOnly) {
  Write("/proc/sys/kernel/yama/ptrace_scope", "2\n");
  EXPECT_THAT(Trace(), Not(HasSubstr("yama"))) << "CAP_SYS_PTRACE passes";
  MayTrace(false);
  EXPECT_THAT(Trace(), AllOf(HasSubstr("ptrace_scope is 2"), HasSubstr("as root"),
                             Not(HasSubstr("started the process"))));
}

// Not even root may trace, whatever else the machine has.
TEST_F(DenialTest, YamaForNobody) {
  Write("/proc/sys/kernel/yama/ptrace_scope", "3\n");
  EnforceSelinux();
  for (bool may : {true, false}) {
    MayTrace(may);
    EXPECT_THAT(Trace(), AllOf(HasSubstr("ptrace_scope is 3"), HasSubstr("restarts"),
                               Not(HasSubstr("as root")), Not(HasSubstr("SELinux"))));
  }
}

TEST_F(DenialTest, SelinuxNamesBothDomains) {
  EnforceSelinux();
  EXPECT_THAT(Trace(),
              AllOf(HasSubstr("SELinux is enforcing"),
                    HasSubstr("u:r:rocattach_t:s0 trace u:r:container_t:s0:c1"),
                    HasSubstr("deny_ptrace"), Not(HasSubstr("AppArmor"))));
  EXPECT_THAT(Load(), AllOf(HasSubstr("u:r:container_t:s0:c1"), HasSubstr("map"),
                            HasSubstr("u:r:rocattach_t:s0")));
}

TEST_F(DenialTest, SelinuxThatOnlyReportsDeniesNothing) {
  EnforceSelinux();
  Write("/sys/fs/selinux/enforce", "0");
  EXPECT_THAT(Trace(), AllOf(Not(HasSubstr("SELinux")), HasSubstr("u:r:container_t")));
  EXPECT_EQ(Load(), "");
}

TEST_F(DenialTest, AppArmorNamesTheProfileThatDenies) {
  Confine("1234", "docker-default (enforce)");
  Confine("self", "unconfined");
  EXPECT_THAT(Trace(), AllOf(HasSubstr("docker-default, which confines the process"),
                             HasSubstr("tracedby"), Not(HasSubstr("SELinux")),
                             Not(HasSubstr("confines rocattach"))));
  EXPECT_THAT(Load(), HasSubstr("docker-default"));
  Confine("self", "/usr/bin/rocattach (kill)");
  EXPECT_THAT(Trace(), AllOf(HasSubstr("/usr/bin/rocattach, which confines rocattach"),
                             HasSubstr("docker-default")));
}

TEST_F(DenialTest, AppArmorThatOnlyComplainsDeniesNothing) {
  Confine("1234", "docker-default (complain)");
  Confine("self", "unconfined");
  EXPECT_THAT(Trace(), Not(HasSubstr("AppArmor")));
  EXPECT_EQ(Load(), "");
  // Labels of a security module that is switched off.
  Confine("1234", "docker-default (enforce)");
  Write("/sys/module/apparmor/parameters/enabled", "N\n");
  EXPECT_EQ(Load(), "");
}

TEST_F(DenialTest, OtherwiseAUserNamespaceIsSuggested) {
  EXPECT_THAT(Trace(), HasSubstr("user namespace"));
  EXPECT_EQ(Load(), "");
}

TEST_F(DenialTest, TheLoadersTexts) {
  EXPECT_TRUE(
      SpeaksOfDenial("/c.so: failed to map segment from shared object: "
                     "Permission denied"));
  EXPECT_TRUE(
      SpeaksOfDenial("/c.so: cannot open shared object file: Operation not "
                     "permitted"));
  EXPECT_FALSE(
      SpeaksOfDenial("/c.so: cannot open shared object file: No such file or "
                     "directory"));
}

}  // namespace
}  // namespace rocattach
