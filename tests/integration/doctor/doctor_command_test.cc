// The real command on this machine: with all privileges, with few, with none.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/places.h"

namespace rocattach {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;
using testing::Not;

constexpr uid_t kNobody = 65534;

struct CommandResult {
  int exit_status = -1;
  std::string output;  // standard output
  Json json;           // discarded if the output is not JSON
  Json Check(const std::string& name) const {
    for (const Json& check : json["checks"]) {
      if (check["name"] == name) return check;
    }
    ADD_FAILURE() << "no check " << name << " in " << output;
    return Json::object();
  }
  std::string State(const std::string& name) const {
    return Check(name).value("state", "");
  }
};

// Opens the program first: the user "nobody" may not reach the build directory.
CommandResult RunDoctor(std::vector<std::string> arguments,
                        const std::function<bool()>& prepare = nullptr) {
  CommandResult result;
  int program = open(ROCATTACH_TEST_PROGRAM, O_PATH | O_CLOEXEC);
  int fds[2];
  if (program < 0 || pipe2(fds, O_CLOEXEC) != 0) {
    ADD_FAILURE() << "open(" << ROCATTACH_TEST_PROGRAM << "): " << strerror(errno);
    return result;
  }
  arguments.insert(arguments.begin(), {"rocattach", "doctor"});
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  pid_t child = fork();
  if (child == 0) {
    dup2(fds[1], STDOUT_FILENO);
    if (prepare && !prepare()) _exit(99);
    execveat(program, "", argv.data(), environ, AT_EMPTY_PATH);
    _exit(98);
  }
  close(fds[1]);
  close(program);
  char buffer[4096];
  const auto has_output = [&] {
    pollfd output = {fds[0], POLLIN, 0};
    if (poll(&output, 1, /*timeout=*/120'000) != 0) return true;
    ADD_FAILURE() << "the command does not end after: " << result.output;
    kill(child, SIGKILL);
    return false;
  };
  for (ssize_t n; has_output() && (n = read(fds[0], buffer, sizeof(buffer))) > 0;) {
    result.output.append(buffer, static_cast<size_t>(n));
  }
  close(fds[0]);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status)) << status;
  result.exit_status = WEXITSTATUS(status);
  result.json = Json::parse(result.output, nullptr, /*allow_exceptions=*/false);
  return result;
}

bool BecomeNobody() {
  return setgroups(0, nullptr) == 0 && setresgid(kNobody, kNobody, kNobody) == 0 &&
         setresuid(kNobody, kNobody, kNobody) == 0;
}

// The verdict has to follow from the checks, and the exit status from the verdict.
void ExpectConsistent(const CommandResult& result) {
  ASSERT_TRUE(result.json.is_object()) << result.output;
  int expected = 0;
  for (const Json& check : result.json["checks"]) {
    std::string state = check["state"];
    EXPECT_THAT(state, testing::AnyOf("ok", "note", "unchecked", "warning", "failed"));
    EXPECT_FALSE(check["found"].get<std::string>().empty()) << check;
    if (state == "failed") expected = 3;
    if (expected == 0 && (state == "warning" || state == "unchecked")) expected = 1;
    if (state == "failed" || state == "warning" || state == "unchecked") {
      EXPECT_FALSE(check["meaning"].get<std::string>().empty()) << check;
      EXPECT_FALSE(check["remedy"].get<std::string>().empty()) << check;
    }
  }
  EXPECT_EQ(result.exit_status, expected) << result.output;
  EXPECT_EQ(result.json["exit_status"], expected);
  EXPECT_EQ(result.json["verdict"],
            expected == 0 ? "full" : (expected == 1 ? "partial" : "none"));
}

class DoctorCommandTest : public testing::Test {};

// Skips without root; but where CI is set all tests must run, so it fails there.
class PrivilegedDoctorTest : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() == 0) return;
    ASSERT_EQ(getenv("CI"), nullptr) << "this test needs root";
    GTEST_SKIP() << "needs root";
  }
};

TEST_F(DoctorCommandTest, RefusesWrongUsage) {
  EXPECT_EQ(RunDoctor({"--bogus"}).exit_status, 2);
  EXPECT_EQ(RunDoctor({"--hold", "none"}).exit_status, 2);
  EXPECT_EQ(RunDoctor({"stray"}).exit_status, 2);
}

TEST_F(DoctorCommandTest, WritesPlainTextIntoAPipe) {
  CommandResult result = RunDoctor({});
  EXPECT_THAT(result.output, HasSubstr("kernel"));
  EXPECT_THAT(result.output, HasSubstr("attaching "));
  EXPECT_THAT(result.output, Not(HasSubstr("\033")));
}

TEST_F(DoctorCommandTest, FailsWithoutACollector) {
  CommandResult result = RunDoctor({"--json", "--collector", "/nonexistent.so"});
  ExpectConsistent(result);
  EXPECT_EQ(result.exit_status, 3);
  EXPECT_EQ(result.State("collector"), "failed");
}

TEST_F(DoctorCommandTest, NamesAFileThatIsNotALibrary) {
  CommandResult result = RunDoctor({"--json", "--library", "/etc/passwd"});
  ExpectConsistent(result);
  EXPECT_THAT(result.Check("hsa-runtime")["items"].dump(), HasSubstr("/etc/passwd"));
  EXPECT_NE(result.State("hsa-runtime"), "ok");
}

TEST_F(PrivilegedDoctorTest, HoldsAChildAtAProbe) {
  // Every user can reach this copy, wherever the build directory is.
  const testing_support::ExecutableDirectory place;
  const std::string collector = place.path() + "/librocattach-collector.so";
  std::filesystem::copy_file(ROCATTACH_TEST_COLLECTOR, collector);
  CommandResult result = RunDoctor({"--json", "--collector", collector});
  ExpectConsistent(result);
  EXPECT_EQ(result.State("hold"), "ok") << result.output;
  EXPECT_EQ(result.State("window"), "ok") << result.output;
  EXPECT_EQ(result.State("ptrace"), "ok") << result.output;
  EXPECT_EQ(result.State("collector"), "ok") << result.output;
}

// As from a clone in /root.
TEST_F(PrivilegedDoctorTest, ACollectorThatOthersCannotReachIsNamed) {
  const testing_support::ExecutableDirectory place;
  const std::string collector = place.path() + "/librocattach-collector.so";
  std::filesystem::copy_file(ROCATTACH_TEST_COLLECTOR, collector);
  ASSERT_EQ(chmod(place.path().c_str(), 0700), 0);
  CommandResult result = RunDoctor({"--json", "--collector", collector});
  ExpectConsistent(result);
  EXPECT_NE(result.Check("collector").dump().find(place.path()), std::string::npos)
      << result.output;
}

TEST_F(PrivilegedDoctorTest, ReportsALowerHoldMode) {
  CommandResult result = RunDoctor({"--json", "--hold", "signal"});
  ExpectConsistent(result);
  EXPECT_EQ(result.State("hold"), "warning");
  EXPECT_THAT(result.Check("hold")["found"].get<std::string>(),
              HasSubstr("yielding is switched off"));
  EXPECT_EQ(result.State("window"), "ok") << result.output;
  EXPECT_NE(result.exit_status, 0);
}

TEST_F(PrivilegedDoctorTest, ReportsFailedCapabilitiesForTheUserNobody) {
  CommandResult result = RunDoctor({"--json"}, BecomeNobody);
  ExpectConsistent(result);
  EXPECT_EQ(result.exit_status, 3);
  EXPECT_EQ(result.State("capabilities"), "failed");
  EXPECT_EQ(result.State("hold"), "unchecked");
  EXPECT_EQ(result.State("window"), "unchecked");
  EXPECT_THAT(result.Check("hsa-runtime")["found"].get<std::string>(),
              HasSubstr("could not be inspected"));
}

TEST_F(PrivilegedDoctorTest, OneMissingCapabilityIsNamed) {
  CommandResult result = RunDoctor(
      {"--json"}, [] { return prctl(PR_CAPBSET_DROP, CAP_SYS_ADMIN, 0, 0, 0) == 0; });
  ExpectConsistent(result);
  EXPECT_EQ(result.exit_status, 3);
  EXPECT_EQ(result.Check("capabilities")["found"], "missing CAP_SYS_ADMIN");
  // Since Linux 6.6 a probe itself does not need this capability.
  EXPECT_THAT(result.State("window"), testing::AnyOf("ok", "unchecked"))
      << result.output;

  CommandResult nice = RunDoctor(
      {"--json"}, [] { return prctl(PR_CAPBSET_DROP, CAP_SYS_NICE, 0, 0, 0) == 0; });
  ExpectConsistent(nice);
  EXPECT_EQ(nice.State("capabilities"), "warning");
  EXPECT_EQ(nice.State("window"), "ok");
}

// As in a container: process IDs in the kernel's events name no process in here.
TEST_F(PrivilegedDoctorTest, FailsInAnInnerPidNamespace) {
  CommandResult result = RunDoctor({"--json"}, [] {
    if (unshare(CLONE_NEWPID | CLONE_NEWNS) != 0) return false;
    pid_t inner = fork();
    if (inner > 0) {
      int status = 0;
      waitpid(inner, &status, 0);
      _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 97);
    }
    return inner == 0 &&
           mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
           mount("proc", "/proc", "proc", 0, nullptr) == 0;
  });
  ExpectConsistent(result);
  EXPECT_EQ(result.State("namespaces"), "failed") << result.output;
  EXPECT_EQ(result.State("window"), "failed") << result.output;
  EXPECT_EQ(result.exit_status, 3);
}

}  // namespace
}  // namespace rocattach
