// Whose fault a failed look at a target is.
#include "injector/failure.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "injector/filesystem_view_cache.h"
#include "injector/maps.h"
#include "injector/target_checks.h"
#include "injector/target_memory.h"
#include "injector/thread_status.h"
#include "userspace/base/file.h"
#include "userspace/base/process.h"

namespace rocattach {
namespace {

TEST(FailureTest, AnErrnoStandsForTheSameWhereverItShows) {
  for (int error : {EMFILE, ENFILE, ENOMEM}) {
    EXPECT_EQ(ReasonForErrno(error, AttachReason::kNotPermitted),
              AttachReason::kServiceResources);
    AttachFailure failure =
        FailedLook(ErrnoStatus(error, "open"), AttachReason::kCollectorUnreadable);
    EXPECT_EQ(failure.reason, AttachReason::kServiceResources);
    EXPECT_EQ(failure.error, error);
    EXPECT_TRUE(failure.retryable);
  }
  EXPECT_EQ(FailedLook(ErrnoStatus(ESRCH, ""), AttachReason::kBadElf).reason,
            AttachReason::kTargetExited);
  EXPECT_EQ(FailedLook(ErrnoStatus(EIO, ""), AttachReason::kBadElf).reason,
            AttachReason::kBadElf);
  EXPECT_EQ(FailedLookAtProc(ErrnoStatus(ENOENT, "")).reason,
            AttachReason::kTargetExited);
  EXPECT_EQ(FailedLookAtProc(ErrnoStatus(EACCES, "")).reason,
            AttachReason::kNotPermitted);
  EXPECT_EQ(FailedLookAtProc(ErrnoStatus(EIO, "")).reason, AttachReason::kMemoryAccess);
}

// Takes all descriptors of this process away while it lives.
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

TEST(FailureTest, EveryCheckKnowsAServiceWithoutDescriptors) {
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
    ASSERT_TRUE(result.has_value());
    EXPECT_EQ(result->reason, AttachReason::kServiceResources) << result->detail;
    EXPECT_EQ(result->error, EMFILE) << result->detail;
  }
  for (const absl::Status& look : {maps, memory, thread, process}) {
    EXPECT_EQ(FailedLookAtProc(look).reason, AttachReason::kServiceResources) << look;
  }
}

}  // namespace
}  // namespace rocattach
