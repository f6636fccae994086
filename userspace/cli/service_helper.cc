#include "userspace/cli/service_helper.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "userspace/base/errno_status.h"
#include "userspace/base/file.h"

namespace rocattach {
namespace {

constexpr int kNiceness = 10;
constexpr char kOomScore[] = "500";  // of 1000: before the service and its targets
constexpr rlim_t kMostMemory = rlim_t{2} << 30;

// Files are root's as before, in directories of any user.
absl::Status DropPrivileges() {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {};
  if (syscall(SYS_capget, &header, sets) != 0) {
    return ErrnoStatus(errno, "capget() failed");
  }
  const __u32 kept = sets[0].permitted & (__u32{1} << CAP_DAC_OVERRIDE);
  sets[0] = {kept, kept, 0};
  sets[1] = {};
  if (syscall(SYS_capset, &header, sets) != 0) {
    return ErrnoStatus(errno, "capset() failed");
  }
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    return ErrnoStatus(errno, "prctl(PR_SET_NO_NEW_PRIVS) failed");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status BecomeHelperOf(pid_t service) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != service) {
    return absl::FailedPreconditionError(
        absl::StrCat("process ", service, ", for which this runs, has ended"));
  }
  setpriority(PRIO_PROCESS, 0, kNiceness);
  if (auto file = OpenFile("/proc/self/oom_score_adj", O_WRONLY); file.ok()) {
    (void)WriteAll(file->get(), kOomScore);
  }
  const rlimit memory = {kMostMemory, kMostMemory};
  setrlimit(RLIMIT_DATA, &memory);
  return DropPrivileges();
}

}  // namespace rocattach
