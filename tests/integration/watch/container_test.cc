// Processes with another root or other namespaces, which see no file of the collector:
// they are attached to like all others, and end as they do natively.
#include <errno.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <latch>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/integration/watch/containers.h"
#include "tests/integration/watch/harness.h"
#include "tests/integration/watch/kill_rounds.h"
#include "tests/integration/watch/watched_run.h"

namespace rocattach::testing_support {
namespace {

// Builds a small tree at $root, like a container's, with what the targets need and
// without the collector.
constexpr char kMakeRoot[] =
    "mount -t tmpfs none \"$root\" && "
    "for d in /usr /lib /lib64 /bin /etc /sys /dev /proc \"$build\"; do "
    "if [ -e \"$d\" ]; then mkdir -p \"$root$d\" && mount --rbind \"$d\" \"$root$d\" "
    "|| exit 98; fi; done && "
    // The build may lie below /tmp.
    "mkdir -p \"$root/tmp\" \"$root$hide\" && chmod 1777 \"$root/tmp\" && "
    "mount -t tmpfs none \"$root$hide\" && mount -t tmpfs none \"$root/dev/shm\" && ";

struct ContainerCase {
  const char* name;
  std::vector<std::string> unshare;
  const char* enter;            // the rest of the script
  bool may_be_missing = false;  // the kernel may not allow it
};

class ContainerTest : public testing::Test {
 protected:
  void SetUp() override { SKIP_WITHOUT_PRIVILEGES(); }

  std::vector<std::string> In(const ContainerCase& container,
                              std::vector<std::string> command) const {
    // In another user namespace, root reaches only what every user can reach.
    command = ReachableByEverybody(std::move(command), ROCATTACH_TEST_BUILD,
                                   {"tests/simgpu/lib"});
    const std::filesystem::path simgpu =
        ReachableByEverybody({ROCATTACH_TEST_BUILD "/tests/simgpu"},
                             ROCATTACH_TEST_BUILD, {})
            .front();
    command.insert(command.begin(), {root_.path(), simgpu.parent_path().parent_path()});
    return Unshared(
        container.unshare,
        "root=$1 && build=$2 && shift 2 && " + std::string(kMakeRoot) + container.enter,
        command);
  }

  static void ExpectRecorded(const std::vector<std::string>& command,
                             const std::vector<std::string>& options = {"--auto"}) {
    Finished watched;
    const RecordedProcess process = RunWatched(command, options, &watched);
    EXPECT_EQ(static_cast<int64_t>(process.dispatches.size()),
              Reported(watched.output, "dispatches"));
    EXPECT_EQ(process.dropped(), 0u);
  }

  ExecutableDirectory root_;
};

class ContainerKindTest : public ContainerTest,
                          public testing::WithParamInterface<ContainerCase> {};

TEST_P(ContainerKindTest, EveryDispatchIsRecorded) {
  if (IsSkipped() || HasFatalFailure()) return;
  if (GetParam().may_be_missing &&
      !Child(In(GetParam(), {"true"})).Wait().exited_with(0)) {
    GTEST_SKIP() << "the kernel does not allow such a container";
  }
  ExpectRecorded(
      In(GetParam(), OnSimgpu({"hsa_dispatch", "-n", "7", "--rounds", "3"})));
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, ContainerKindTest,
    testing::Values(
        ContainerCase{"Chroot", {}, "exec chroot \"$root\" \"$@\""},
        ContainerCase{"PivotRoot",
                      {},
                      "cd \"$root\" && mkdir old && pivot_root . old && "
                      "umount -l /old && exec \"$@\""},
        ContainerCase{"ReadOnlyRoot",
                      {},
                      "mount -o remount,ro \"$root\" && exec chroot \"$root\" \"$@\""},
        ContainerCase{
            "Overlay",
            {},
            "umount -l \"$root/usr\" && mkdir \"$root/.upper\" \"$root/.work\" && "
            "mount -t overlay -o "
            "lowerdir=/usr,upperdir=\"$root/.upper\",workdir=\"$root/.work\" none "
            "\"$root/usr\" && exec chroot \"$root\" \"$@\"",
            true},
        ContainerCase{"OtherUser",
                      {},
                      "exec chroot --userspec=65534:65534 --groups= \"$root\" \"$@\""},
        ContainerCase{"PidNamespace",
                      {"--pid", "--fork"},
                      "mount -t proc none \"$root/proc\" && "
                      "exec chroot \"$root\" \"$@\""},
        ContainerCase{"HiddenProcesses",
                      {"--pid", "--fork"},
                      "mount -t proc -o hidepid=2 none \"$root/proc\" && "
                      "exec chroot --userspec=65534:65534 --groups= \"$root\" \"$@\""},
        ContainerCase{"NoExecutableMemfds",
                      {"--pid", "--fork"},
                      "mount -t proc none \"$root/proc\" && "
                      "echo 2 > \"$root/proc/sys/vm/memfd_noexec\" && "
                      "exec chroot \"$root\" \"$@\"",
                      true},
        ContainerCase{"NetworkNamespace", {"--net"}, "exec chroot \"$root\" \"$@\""},
        ContainerCase{"UserNamespace",
                      {"--user", "--map-root-user", "--net", "--pid", "--fork"},
                      "mount -t proc none \"$root/proc\" && "
                      "exec chroot \"$root\" \"$@\"",
                      true}),
    [](const auto& test) { return std::string(test.param.name); });

TEST_F(ContainerTest, InHoldModeSignalToo) {
  ExpectRecorded(WithoutCollector(OnSimgpu(
                     {"hsa_dispatch", "-n", "7", "--wait-msec", kTimeToSeize})),
                 {"--auto", "--hold", "signal"});
}

TEST_F(ContainerTest, ARuntimeThatStartsAgainIsRecordedAgain) {
  ExpectRecorded(WithoutCollector(OnSimgpu({"hsa_reinit"})));
}

// Without /proc, descriptors have no paths. (The launcher needs /proc, too.)
TEST_F(ContainerTest, RefusalReportsThatProcIsNotMounted) {
  const std::string libraries =
      std::filesystem::path(SimgpuRunPath()).parent_path() / "lib";
  const std::vector<std::string> command =
      In({"NoProc",
          {},
          "mount -t tmpfs none \"$root/proc\" && exec chroot \"$root\" \"$@\""},
         {"env", "LD_LIBRARY_PATH=" + libraries, TargetPath("hsa_dispatch")});
  const Finished native = Child(command).Wait();
  WatcherProcess watcher({"--auto"});
  ASSERT_TRUE(watcher.ready());
  const Finished result = Child(command).Wait();
  EXPECT_EQ(result.status, native.status);
  EXPECT_EQ(result.errors, native.errors);
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  const Recording recording = ReadRecording(watcher.recording());
  ASSERT_EQ(recording.processes.size(), 1u);
  const v1::WindowEvent& verdict = recording.processes[0].verdict;
  EXPECT_EQ(verdict.state(), v1::WINDOW_STATE_REFUSED);
  EXPECT_EQ(verdict.reason(), v1::ATTACH_REASON_COLLECTOR_MISSING) << verdict.detail();
  EXPECT_NE(verdict.detail().find("/proc is not mounted"), std::string::npos)
      << verdict.detail();
  EXPECT_FALSE(verdict.target_modified());
}

// The injector's tests kill the injector at each step; here the service is killed.
TEST_F(ContainerTest, TheServiceMayBeKilledAtAnyInstant) {
  KillRounds rounds;
  rounds.service = {"--auto"};
  rounds.rounds = 12;
  rounds.batch_us = 400'000;
  std::vector<std::string> target =
      WithoutCollector({TargetPath("hsa_dispatch"), "-n", "5", "--rounds", "2"});
  target[0] = "/usr/bin/" + target[0];
  rounds.targets.assign(4, target);
  rounds.check = [](const Finished& end) {
    EXPECT_EQ(Reported(end.output, "dispatches"), 10);
  };
  ExpectNobodyIsHarmed(rounds);
}

// From here on, refuses executable memfds to this thread, like vm.memfd_noexec=2.
void ForbidExecutableMemfds() {
  constexpr unsigned kMfdExec = 0x10;
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[1])),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, kMfdExec, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program = {std::size(filter), filter};
  ASSERT_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
  ASSERT_EQ(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program), 0);
}

// The service sends a descriptor of its copy instead.
TEST_F(ContainerTest, WithoutExecutableMemfdsTheCopyIsSent) {
  std::latch ready(1), ended(1);
  Recording recording;
  bool is_ready = false;
  // The filter is this thread's and the service's. The target must not have it: its
  // filters could not be read by a service that has one.
  std::thread thread([&] {
    ForbidExecutableMemfds();
    WatcherProcess watcher({"--auto"});
    is_ready = watcher.ready();
    ready.count_down();
    ended.wait();
    EXPECT_TRUE(watcher.Stop().exited_with(0));
    recording = ReadRecording(watcher.recording());
  });
  ready.wait();
  const Finished target = Child(In({"Chroot", {}, "exec chroot \"$root\" \"$@\""},
                                   OnSimgpu({"hsa_dispatch"})))
                              .Wait();
  ended.count_down();
  thread.join();
  ASSERT_TRUE(is_ready);
  EXPECT_TRUE(target.exited_with(0)) << target.errors;
  ASSERT_EQ(recording.processes.size(), 1u);
  const RecordedProcess& process = recording.processes[0];
  EXPECT_EQ(static_cast<int64_t>(process.dispatches.size()),
            Reported(target.output, "dispatches"))
      << process.verdict.detail();
  EXPECT_EQ(process.dropped(), 0u);
}

}  // namespace
}  // namespace rocattach::testing_support
