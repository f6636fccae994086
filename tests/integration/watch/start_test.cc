// A service that could not attach to any process: it reports the cause and the remedy,
// as `rocattach doctor` does, and ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/integration/watch/harness.h"
#include "tests/integration/watch/watched_run.h"

namespace rocattach::testing_support {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

const std::vector<std::string> kNestedPids = {"unshare", "--pid", "--fork",
                                              "--mount-proc"};
const std::vector<std::string> kNestedUsers = {"unshare", "--user", "--map-root-user"};

std::vector<std::string> operator+(std::vector<std::string> words,
                                   const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

class StartTest : public testing::Test {
 protected:
  void SetUp() override { SKIP_WITHOUT_PRIVILEGES(); }

  // Runs a service that must not start. If it does start, it ends by itself.
  Finished Watch(const std::vector<std::string>& launcher,
                 const std::vector<std::string>& more = {},
                 std::vector<std::string> environment = {}) const {
    return Child(launcher +
                     std::vector<std::string>{WatcherPath(), "--auto", "--collector",
                                              CollectorPath(), "-d", directory_.path(),
                                              "--duration-msec", "500"} +
                     more,
                 {.environment = std::move(environment), .dies_with_us = true})
        .Wait();
  }
  static Json DoctorsCheck(const std::vector<std::string>& launcher,
                           const std::string& name) {
    const Finished doctor =
        Child(launcher + std::vector<std::string>{ClientPath(), "doctor", "--json"})
            .Wait();
    const Json report = Json::parse(doctor.output, nullptr, /*allow_exceptions=*/false);
    if (report.is_object()) {
      for (const Json& check : report["checks"]) {
        if (check["name"] == name) return check;
      }
    }
    ADD_FAILURE() << "no check " << name << " in " << doctor.output << doctor.errors;
    return Json::object();
  }
  // Expects that it ends with the doctor's words, and that nothing was recorded.
  void ExpectRefused(const std::vector<std::string>& launcher,
                     const std::string& check_name) const {
    const Json check = DoctorsCheck(launcher, check_name);
    EXPECT_EQ(check.value("state", ""), "failed") << check;
    const Finished result = Watch(launcher);
    EXPECT_TRUE(result.exited_with(3)) << result.status << result.errors;
    for (const char* key : {"name", "found", "meaning", "remedy"}) {
      EXPECT_THAT(result.errors, HasSubstr(check.value(key, "?")));
    }
    EXPECT_TRUE(std::filesystem::is_empty(directory_.path()));
  }

  ExecutableDirectory directory_;
};

TEST_F(StartTest, InANestedPidNamespace) {
  ExpectRefused(kNestedPids, "namespaces");
  // Neither is a command started, nor does `rocattach attach` attach to anything.
  const Finished command = Watch(kNestedPids, {"--", "echo", "started"});
  EXPECT_TRUE(command.exited_with(3)) << command.errors;
  EXPECT_EQ(command.output, "");
  const Finished attach =
      Child(kNestedPids + std::vector<std::string>{"sh", "-c",
                                                   "\"$0\" attach -p $$ -d \"$1\"",
                                                   ClientPath(), directory_.path()})
          .Wait();
  EXPECT_FALSE(attach.exited_with(0));
}

TEST_F(StartTest, InANestedUserNamespace) {
  if (!Child(kNestedUsers + std::vector<std::string>{"true"}).Wait().exited_with(0)) {
    GTEST_SKIP() << "the kernel does not allow user namespaces";
  }
  ExpectRefused(kNestedUsers, "namespaces");
}

TEST_F(StartTest, WithoutSysPtrace) {
  const std::vector<std::string> without = {"setpriv", "--bounding-set=-sys_ptrace",
                                            "--inh-caps=-sys_ptrace"};
  ExpectRefused(without, "capabilities");
}

// The service manager gets the cause as well: with Type=notify the unit fails, and its
// status says why.
TEST_F(StartTest, TheServiceManagerGetsTheCause) {
  const std::string path = directory_.path() + "/notify";
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  ASSERT_LT(path.size(), sizeof(address.sun_path));
  path.copy(address.sun_path, path.size());
  const UniqueFd manager(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  ASSERT_EQ(bind(manager.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)),
            0);
  const Finished result = Watch(kNestedPids, {}, {"NOTIFY_SOCKET=" + path});
  EXPECT_TRUE(result.exited_with(3)) << result.errors;
  char message[4096] = {};
  ASSERT_GT(recv(manager.get(), message, sizeof(message) - 1, 0), 0);
  EXPECT_THAT(std::string(message), HasSubstr("STATUS=no process can be attached to"));
  EXPECT_THAT(std::string(message), HasSubstr("a nested pid namespace"));
  EXPECT_EQ(recv(manager.get(), message, sizeof(message), 0), -1) << message;
}

// A container with --pid=host has all other namespaces of its own.
TEST_F(StartTest, InAContainerWithTheHostsProcesses) {
  const Finished native = RunTarget({"hsa_dispatch", "-n", "7"});
  ASSERT_TRUE(native.exited_with(0)) << native.errors;
  WatcherProcess watcher({"--auto"},
                         {"unshare", "--mount", "--ipc", "--uts", "--net", "--cgroup"});
  ASSERT_TRUE(watcher.ready());
  const Finished result = RunTarget({"hsa_dispatch", "-n", "7"});
  EXPECT_EQ(result.status, native.status);
  EXPECT_EQ(result.errors, native.errors);
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  EXPECT_EQ(OnlyAttached(watcher.recording()).dispatches.size(), 7u);
}

// Children have no more privileges than the service, which suffices for a command.
TEST_F(StartTest, ACommandNeedsNoSysPtrace) {
  const Finished result =
      Child(std::vector<std::string>{"setpriv", "--bounding-set=-sys_ptrace",
                                     "--inh-caps=-sys_ptrace", WatcherPath(), "--auto",
                                     "--collector", CollectorPath(), "-o",
                                     directory_.path() + "/run", "--"} +
            OnSimgpu({"hsa_dispatch", "-n", "7"}))
          .Wait();
  EXPECT_TRUE(result.exited_with(0)) << result.errors;
  EXPECT_EQ(OnlyAttached(directory_.path() + "/run.rwa").dispatches.size(), 7u);
}

}  // namespace
}  // namespace rocattach::testing_support
