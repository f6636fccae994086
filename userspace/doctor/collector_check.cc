#include "userspace/doctor/collector_check.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "injector/elf/elf_needs.h"
#include "injector/elf/function_offset.h"
#include "userspace/abi/shared_memory.h"
#include "userspace/base/errno_status.h"
#include "userspace/base/file.h"
#include "userspace/base/status_macros.h"
#include "userspace/base/unique_fd.h"
#include "userspace/watch/windows/collector_file.h"

namespace rocattach {
namespace {

// A constructor that hangs must not hang the check.
constexpr unsigned kLoadSeconds = 10;

absl::Status CheckProbePoints(const std::string& path) {
  ASSIGN_OR_RETURN(UniqueFd fd, OpenFile(path, O_RDONLY));
  for (const char* function :
       {ROCATTACH_COLLECTOR_READY, ROCATTACH_COLLECTOR_UNLOADED}) {
    RETURN_IF_ERROR(FindFunctionFileOffset(fd.get(), function).status());
  }
  return absl::OkStatus();
}

bool OnNoExecMount(const std::string& path) {
  struct statvfs info;
  return statvfs(path.c_str(), &info) == 0 && (info.f_flag & ST_NOEXEC) != 0;
}

Check Failed(std::string found, std::string remedy) {
  return {.name = "collector",
          .state = CheckState::kFailed,
          .found = std::move(found),
          .meaning = "There is no working collector to inject.",
          .remedy = std::move(remedy),
          .items = {}};
}

}  // namespace

absl::Status TryLoad(const std::string& path) {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return ErrnoStatus(errno, "pipe2() failed");
  UniqueFd reader(fds[0]), writer(fds[1]);
  pid_t child = fork();
  if (child < 0) return ErrnoStatus(errno, "fork() failed");
  if (child == 0) {
    alarm(kLoadSeconds);
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    const char* error = library == nullptr ? dlerror() : "";
    if (error == nullptr) error = "dlopen failed without an error message";
    (void)!write(writer.get(), error, strnlen(error, 1000));
    if (library != nullptr) dlclose(library);
    _exit(0);
  }
  writer.reset();
  std::string error;
  char buffer[1024];
  for (;;) {
    ssize_t n = read(reader.get(), buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    error.append(buffer, static_cast<size_t>(n));
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return ErrnoStatus(errno, "waitpid() failed");
  }
  if (WIFSIGNALED(status)) {
    const char* name = sigabbrev_np(WTERMSIG(status));
    return absl::InternalError(absl::StrCat("loading ", path, " ended with SIG",
                                            name != nullptr ? name : "?"));
  }
  if (status != 0) {
    return absl::InternalError(
        absl::StrCat("loading ", path, " ended with wait status ", status));
  }
  if (!error.empty()) return absl::FailedPreconditionError(error);
  return absl::OkStatus();
}

std::string ObstacleForOthers(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) {
    return absl::StrCat(path, ": ", strerror(errno));
  }
  if ((info.st_mode & S_IROTH) == 0) {
    return absl::StrCat(path, " is not readable by other users");
  }
  for (size_t slash = path.rfind('/'); slash != std::string::npos && slash > 0;
       slash = path.rfind('/', slash - 1)) {
    std::string directory = path.substr(0, slash);
    if (stat(directory.c_str(), &info) != 0) {
      return absl::StrCat(directory, ": ", strerror(errno));
    }
    if ((info.st_mode & S_IXOTH) == 0) {
      return absl::StrCat(directory, " is not searchable by other users");
    }
  }
  return "";
}

Check CheckCollector(const std::string& given) {
  auto path = FindCollector(given);
  if (!path.ok()) {
    return Failed(std::string(path.status().message()),
                  "Install all of rocattach-watch (cmake --install), or specify the "
                  "file with --collector FILE.");
  }
  if (absl::Status status = CheckProbePoints(*path); !status.ok()) {
    return Failed(absl::StrCat(*path, ": ", status.message()),
                  "Install the collector that belongs to this version.");
  }
  if (OnNoExecMount(*path)) {
    return Failed(absl::StrCat(*path, " is on a file system mounted noexec"),
                  "Move it to a file system that is not mounted noexec.");
  }
  if (absl::Status status = TryLoad(*path); !status.ok()) {
    return Failed(std::string(status.message()),
                  "Install the collector that belongs to this version.");
  }
  auto needs = ReadElfNeeds(*path);
  if (!needs.ok()) {
    return Failed(absl::StrCat(*path, ": ", needs.status().message()),
                  "Install the collector that belongs to this version.");
  }
  Check check = {.name = "collector"};
  std::string glibc = HighestGlibcVersion(*needs);
  check.found = absl::StrCat(*path, ", loads, needs ",
                             glibc.empty() ? "no particular glibc version" : glibc);
  check.meaning =
      "Can be injected into any process with this C library version or later.";
  if (NewerGlibcVersion(glibc, kOldestGlibc)) {
    check.state = CheckState::kWarning;
    check.meaning = absl::StrCat("Programs in containers with an older C library than ",
                                 glibc, " cannot load it.");
    check.remedy = absl::StrCat("Install a collector that needs ", kOldestGlibc,
                                " or earlier, as released versions do.");
  } else if (std::string obstacle = ObstacleForOthers(*path); !obstacle.empty()) {
    check.state = CheckState::kWarning;
    check.meaning =
        absl::StrCat("Programs of other users cannot load it: ", obstacle, ".");
    check.remedy =
        "Make the path accessible (chmod o+x, o+r), or install it in /usr/local.";
  }
  return check;
}

}  // namespace rocattach
