// Targets that cannot see the collector's file: they are sent a descriptor of it.
#include <errno.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>

#include "injector/attach.h"
#include "injector/descriptor_sender.h"
#include "injector/process/mapped_collector.h"
#include "injector/stub/stub_removal.h"
#include "tests/integration/injector/target_process.h"
#include "userspace/base/file.h"

namespace rocattach {
namespace {

using testing::HasSubstr;

std::string Describe(const AttachOutcome& outcome) {
  return std::string(AttachStageName(outcome.stage)) + "/" +
         std::string(AttachReasonName(outcome.reason)) + ": " + outcome.detail;
}

AttachRequest SentRequest(const TargetProcess& target, int descriptor) {
  AttachRequest request = target.Request();
  request.collector.path = "/nonexistent/collector.so";
  request.collector_fd = descriptor;
  return request;
}

// Makes the call fail with `error` from here on.
void Forbid(unsigned call, unsigned error) {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program = {4, filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0) {
    _exit(95);
  }
}

// The stub can soon be removed, and the target finishes as if nothing had happened.
void ExpectUnharmed(TargetProcess& target, const AttachRequest& request,
                    const AttachOutcome& outcome, const TargetSnapshot& before) {
  EXPECT_TRUE(target.RunsAgain());
  EXPECT_TRUE(target.WaitAtWindow());
  const StubLocation stub = {target.pid(),
                             target.tid(),
                             0,
                             outcome.stub_address,
                             outcome.stub_stack_pointer,
                             request.config.window_id};
  StepResult removed = RemoveStub(stub);
  EXPECT_TRUE(removed.ok()) << removed.failure().detail;
  const TargetSnapshot after = target.Snapshot();
  EXPECT_EQ(before.descriptors, after.descriptors);
  EXPECT_EQ(before.mappings, after.mappings);
  EXPECT_EQ(before.code, after.code);
  EXPECT_EQ(before.signals, after.signals);
  target.Finish();
  EXPECT_TRUE(target.Intact()) << target.output() << " status " << target.status();
}

void ExpectSentTo(const std::string& mode, int descriptor) {
  TargetProcess target;
  ASSERT_TRUE(target.Start(mode));
  ASSERT_TRUE(target.WaitAtWindow());
  // Targets in other modes change all the time.
  const bool is_plain = mode == "plain";
  const TargetSnapshot before = is_plain ? target.Snapshot() : TargetSnapshot();
  const AttachOutcome outcome = target.Attach(SentRequest(target, descriptor));
  ASSERT_TRUE(outcome.ok()) << Describe(outcome);
  const std::string report = target.WaitForReport();
  EXPECT_THAT(report, HasSubstr(" path=" ROCATTACH_COLLECTOR_NAME " "));
  EXPECT_THAT(report, HasSubstr(" name=" ROCATTACH_COLLECTOR_MEMFD "\n"));
  EXPECT_TRUE(target.WaitAtWindow());
  const TargetSnapshot after = is_plain ? target.Snapshot() : TargetSnapshot();
  EXPECT_EQ(before.descriptors, after.descriptors);
  EXPECT_EQ(before.mappings, after.mappings);
  EXPECT_EQ(before.signals, after.signals);
  EXPECT_EQ(ReadLoadError(outcome.load_report->get()), "");
  target.Finish();
  EXPECT_TRUE(target.Intact())
      << mode << ": " << target.output() << " status " << target.status();
}

TEST(DescriptorTest, ATargetThatSeesNoFileIsSentOne) {
  const UniqueFd memfd = CollectorMemfd(CollectorPath());
  ASSERT_TRUE(memfd.valid());
  for (const char* mode : {"plain", "thread", "small-stack", "busy", "timer"}) {
    ExpectSentTo(mode, memfd.get());
  }
}

// For machines whose kernel forbids executable memfds.
TEST(DescriptorTest, ADescriptorOfAnOrdinaryFileWillDo) {
  auto file = OpenFile(CollectorPath(), O_RDONLY);
  ASSERT_TRUE(file.ok());
  ExpectSentTo("plain", file->get());
}

TEST(DescriptorTest, WorksWithHighDescriptorNumbers) {
  const UniqueFd memfd = CollectorMemfd(CollectorPath());
  TargetProcess target;
  ASSERT_TRUE(target.Start({"", "plain", [] {
                              // All lower numbers are in use.
                              for (int fd = 0; fd >= 0 && fd < 300;) fd = dup(0);
                            }}));
  ASSERT_TRUE(target.WaitAtWindow());
  const AttachOutcome outcome = target.Attach(SentRequest(target, memfd.get()));
  ASSERT_TRUE(outcome.ok()) << Describe(outcome);
  EXPECT_THAT(target.WaitForReport(),
              HasSubstr(" name=" ROCATTACH_COLLECTOR_MEMFD "\n"));
  target.Finish();
  EXPECT_TRUE(target.Intact()) << target.output();
}

TEST(DescriptorTest, AFileThatIsVisibleIsLoadedByItsPath) {
  const UniqueFd memfd = CollectorMemfd(NotACollectorPath());
  TargetProcess target;
  ASSERT_TRUE(target.Start("plain"));
  AttachRequest request = target.Request();
  request.collector_fd = memfd.get();
  const AttachOutcome outcome = target.Attach(request);
  ASSERT_TRUE(outcome.ok()) << Describe(outcome);
  EXPECT_EQ(outcome.load_report, nullptr);
  EXPECT_THAT(target.WaitForReport(), HasSubstr(" path=" + CollectorPath() + " "));
  target.Finish();
  EXPECT_TRUE(target.Intact()) << target.output();
}

struct RefusalCase {
  const char* name;
  void (*prepare)();
  AttachReason reason;
  const char* text;
};

class DescriptorRefusalTest : public testing::TestWithParam<RefusalCase> {};

TEST_P(DescriptorRefusalTest, LeavesTheTargetAlone) {
  const UniqueFd memfd = CollectorMemfd(CollectorPath());
  TargetProcess target;
  ASSERT_TRUE(target.Start({"", "plain", GetParam().prepare}));
  ASSERT_TRUE(target.WaitAtWindow());
  const TargetSnapshot before = target.Snapshot();
  const AttachRequest request = SentRequest(target, memfd.get());
  const AttachOutcome outcome = target.Attach(request);
  EXPECT_EQ(outcome.reason, GetParam().reason) << Describe(outcome);
  EXPECT_THAT(outcome.detail, HasSubstr(GetParam().text));
  EXPECT_THAT(outcome.detail, HasSubstr("/nonexistent/collector.so"));
  ExpectUnharmed(target, request, outcome, before);
  EXPECT_EQ(target.Report(), "");
}

INSTANTIATE_TEST_SUITE_P(
    Cases, DescriptorRefusalTest,
    testing::Values(RefusalCase{"SocketsForbidden", [] { Forbid(SYS_socket, EPERM); },
                                AttachReason::kCollectorMissing,
                                "socket of a Unix socket failed in the process: EPERM"},
                    RefusalCase{"NamesUnknown", [] { Forbid(SYS_bind, ENOSYS); },
                                AttachReason::kCollectorMissing,
                                "bind of a Unix socket failed in the process: ENOSYS"},
                    RefusalCase{
                        "NoProc",
                        [] {
                          if (unshare(CLONE_NEWNS) != 0 ||
                              mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE,
                                    nullptr) ||
                              mount("none", "/proc", "tmpfs", 0, nullptr) != 0) {
                            _exit(96);
                          }
                        },
                        AttachReason::kCollectorMissing, "/proc is not mounted"}),
    [](const auto& test) { return std::string(test.param.name); });

// Four descriptors are needed for a moment: the socket, the two that are sent, and the
// loader's own.
TEST(DescriptorTest, ATableThatIsNearlyFullIsNotExceeded) {
  const UniqueFd memfd = CollectorMemfd(CollectorPath());
  for (rlim_t room : {0, 1, 2, 3, 4}) {
    TargetProcess target;
    ASSERT_TRUE(target.Start({"", "plain", [] { close_range(3, ~0u, 0); }}));
    ASSERT_TRUE(target.WaitAtWindow());
    const TargetSnapshot before = target.Snapshot();
    ASSERT_EQ(before.descriptors.size(), 3u);
    const rlimit limit = {3 + room, 3 + room};
    ASSERT_EQ(prlimit(target.pid(), RLIMIT_NOFILE, &limit, nullptr), 0);
    const AttachRequest request = SentRequest(target, memfd.get());
    const AttachOutcome outcome = target.Attach(request);
    if (room < 1) {
      EXPECT_EQ(outcome.reason, AttachReason::kResourceLimit) << Describe(outcome);
      EXPECT_EQ(outcome.error, EMFILE);
    } else {
      EXPECT_TRUE(outcome.ok()) << Describe(outcome);
    }
    if (room >= 4) {
      EXPECT_THAT(target.WaitForReport(), HasSubstr("started"));
    }
    ExpectUnharmed(target, request, outcome, before);
    EXPECT_TRUE(room >= 4 || target.Report().empty()) << room;
  }
}

// The message of the target's loader arrives in the load report.
TEST(DescriptorTest, AFailedLoadIsReported) {
  UniqueFd torn(memfd_create(ROCATTACH_COLLECTOR_NAME, MFD_CLOEXEC));
  ASSERT_TRUE(WriteAll(torn.get(), "not a library").ok());
  const UniqueFd other = CollectorMemfd(NotACollectorPath());
  for (const auto& [descriptor, error] :
       {std::pair(torn.get(), "file too short"),
        std::pair(other.get(), "undefined symbol: rocattach_collector_start")}) {
    TargetProcess target;
    ASSERT_TRUE(target.Start("plain") && target.WaitAtWindow());
    const TargetSnapshot before = target.Snapshot();
    const AttachRequest request = SentRequest(target, descriptor);
    const AttachOutcome outcome = target.Attach(request);
    ASSERT_TRUE(outcome.ok()) << Describe(outcome);
    std::string text;
    for (int i = 0; i < 3000 && text.empty(); ++i) {
      text = ReadLoadError(outcome.load_report->get());
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_THAT(text, HasSubstr(error));
    ExpectUnharmed(target, request, outcome, before);
    EXPECT_EQ(target.Report(), "");
  }
}

}  // namespace
}  // namespace rocattach
