// The cause of a failure to read a target: the target, or the service itself.
#include "injector/failure.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "injector/process/filesystem_view_cache.h"
#include "injector/process/maps.h"
#include "injector/process/target_checks.h"
#include "injector/process/target_memory.h"
#include "injector/process/thread_status.h"
#include "userspace/base/file.h"
#include "userspace/base/process.h"

namespace rocattach {
namespace {

TEST(FailureTest, AnErrnoMeansTheSameEverywhere) {
  for (int error : {EMFILE, ENFILE, ENOMEM}) {
    EXPECT_EQ(ReasonForErrno(error, AttachReason::kNotPermitted),
              AttachReason::kServiceResources);
    AttachFailure failure = FailureFromStatus(ErrnoStatus(error, "open"),
                                              AttachReason::kCollectorUnreadable);
    EXPECT_EQ(failure.reason, AttachReason::kServiceResources);
    EXPECT_EQ(failure.error, error);
    EXPECT_TRUE(failure.retryable);
  }
  EXPECT_EQ(FailureFromStatus(ErrnoStatus(ESRCH, ""), AttachReason::kBadElf).reason,
            AttachReason::kTargetExited);
  EXPECT_EQ(FailureFromStatus(ErrnoStatus(EIO, ""), AttachReason::kBadElf).reason,
            AttachReason::kBadElf);
  EXPECT_EQ(FailureFromProc(ErrnoStatus(ENOENT, "")).reason,
            AttachReason::kTargetExited);
  EXPECT_EQ(FailureFromProc(ErrnoStatus(EACCES, "")).reason,
            AttachReason::kNotPermitted);
  EXPECT_EQ(FailureFromProc(ErrnoStatus(EIO, "")).reason, AttachReason::kMemoryAccess);
}

TEST(FailureTest, AStepIsOkOrHasItsFailure) {
  EXPECT_TRUE(StepOk().ok());
  auto step = [](bool fail) -> StepResult {
    if (fail) return AttachFailure{AttachReason::kNoCave, 0, "full"};
    return StepOk();
  };
  auto both = [&](bool first, bool second) -> StepResult {
    RETURN_IF_FAILED(step(first));
    RETURN_IF_FAILED(step(second));
    return StepOk();
  };
  EXPECT_TRUE(both(false, false).ok());
  EXPECT_FALSE(both(true, false).ok());
  const StepResult second = both(false, true);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.failure().reason, AttachReason::kNoCave);
  EXPECT_EQ(second.failure().detail, "full");
}

TEST(FailureTest, ErrnoIsSetIfTheHelpTextRefersToIt) {
  for (AttachReason reason : {AttachReason::kMemoryAccess, AttachReason::kRegisters}) {
    EXPECT_NE(AttachReasonHelp(reason).find("see the errno"), absl::string_view::npos);
    const StepResult step = AttachFailure{reason, 0, "short"};
    EXPECT_EQ(step.failure().error, EIO);
    EXPECT_EQ(FailureFromStatus(absl::InternalError("odd"), reason).error, EIO);
    EXPECT_EQ(FailureFromStatus(ErrnoStatus(EFAULT, "read"), reason).error, EFAULT);
  }
  const StepResult other = AttachFailure{AttachReason::kNoCave, 0, ""};
  EXPECT_EQ(other.failure().error, 0);
}

// Takes all free descriptors from this process while it lives.
class NoDescriptors {
 public:
  NoDescriptors() {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit few = before_;
    few.rlim_cur = 0;
    setrlimit(RLIMIT_NOFILE, &few);
  }
  ~NoDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_;
};

TEST(FailureTest, EveryCheckReportsAServiceWithoutDescriptors) {
  const pid_t self = getpid();
  auto status = ReadThreadStatus(self, self);
  auto program = ReadLink("/proc/self/exe");
  ASSERT_TRUE(status.ok() && program.ok());
  std::vector<StepResult> results;
  absl::Status maps, memory, thread, process;
  {
    NoDescriptors none;
    results = {CheckIdentity(self, 1), CheckNotSecure(self),
               CheckCollector(self, *status, *program)};
    maps = Maps::Read(self).status();
    memory = TargetMemory::Open(self, self).status();
    thread = ReadThreadStatus(self, self).status();
    process = ReadProcessInfo(self).status();
  }
  for (const StepResult& result : results) {
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.failure().reason, AttachReason::kServiceResources)
        << result.failure().detail;
    EXPECT_EQ(result.failure().error, EMFILE) << result.failure().detail;
  }
  for (const absl::Status& look : {maps, memory, thread, process}) {
    EXPECT_EQ(FailureFromProc(look).reason, AttachReason::kServiceResources) << look;
  }
}

}  // namespace
}  // namespace rocattach
