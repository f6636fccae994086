#include "userspace/library/attach_sessions.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "userspace/base/version.h"
#include "userspace/library/attach_log.h"
#include "userspace/library/attach_settings.h"

namespace rocattach {
namespace {

rocattach_status_t Refuse(rocattach_status_t status, absl::string_view why) {
  AttachLog(AttachLogLevel::kError, why);
  return status;
}

// Checks that there is such a process; the recorder checks the rest.
rocattach_status_t CheckPid(int pid) {
  if (pid <= 0) {
    return Refuse(ROCATTACH_STATUS_ERROR_INVALID_ARGUMENT,
                  absl::StrCat(pid, " is not a process ID"));
  }
  if (pid == getpid()) {
    return Refuse(ROCATTACH_STATUS_ERROR_INVALID_ARGUMENT,
                  "a process cannot attach to itself");
  }
  if (kill(pid, 0) != 0 && errno == ESRCH) {
    return Refuse(ROCATTACH_STATUS_ERROR_PTRACE_PROCESS_NOT_FOUND,
                  absl::StrCat("there is no process ", pid));
  }
  return ROCATTACH_STATUS_SUCCESS;
}

// The options of the recorder. Third-party tools are configured by variables of their
// own, which the recorder passes on.
std::vector<std::string> OptionsOf(const AttachSettings& settings) {
  if (!settings.tool_libraries.empty()) {
    return {absl::StrCat("--attach-tool-library=",
                         absl::StrJoin(settings.tool_libraries, ":"))};
  }
  for (const std::string& name : settings.ignored) {
    AttachLog(AttachLogLevel::kWarning,
              absl::StrCat(name, " is set, and has no effect"));
  }
  return settings.options;
}

// The folder of the file that contains this function; empty if that is not known.
std::string OwnFolder() {
  Dl_info info;
  if (dladdr(reinterpret_cast<const void*>(&OwnFolder), &info) == 0) return "";
  char* real = realpath(info.dli_fname, nullptr);
  if (real == nullptr) return "";
  std::string path = real;
  free(real);
  return path.substr(0, path.rfind('/'));
}

// Finds the program `rocattach` that belongs to this library: ROCATTACH_PROGRAM if it
// is set, else the path of the program in the installation, or the build, relative to
// the file that this code was loaded from. NOT_FOUND names the places searched.
absl::StatusOr<std::string> FindRecorderProgram() {
  std::vector<std::string> candidates;
  if (const char* given = secure_getenv("ROCATTACH_PROGRAM"); given != nullptr) {
    candidates = {given};
  } else {
    if (const std::string folder = OwnFolder(); !folder.empty()) {
      candidates = {
          absl::StrCat(folder, "/", ROCATTACH_BINDIR_FROM_LIBDIR, "/rocattach"),
          // The libraries with other names are one folder below.
          absl::StrCat(folder, "/../", ROCATTACH_BINDIR_FROM_LIBDIR, "/rocattach"),
          absl::StrCat(folder, "/../cli/rocattach"),
          absl::StrCat(folder, "/../../cli/rocattach"),
      };
    }
    candidates.push_back(absl::StrCat(ROCATTACH_INSTALL_BINDIR, "/rocattach"));
  }
  for (const std::string& candidate : candidates) {
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return absl::NotFoundError(
      absl::StrCat("the program rocattach is in none of these places: ",
                   absl::StrJoin(candidates, ", ")));
}

}  // namespace

bool AttachSessions::InATree(int pid) const {
  for (const auto& [root, entry] : entries_) {
    if (root != pid && entry.session != nullptr && entry.session->Has(pid)) return true;
  }
  return false;
}

bool AttachSessions::Reserve(int pid, bool tree) {
  std::lock_guard lock(mutex_);
  // Sessions that ended with their targets, without a detach, do not count.
  std::erase_if(entries_, [](const auto& item) {
    return item.second.session != nullptr && item.second.session->over();
  });
  if (InATree(pid)) return false;
  return entries_.try_emplace(pid, Entry{tree, nullptr}).second;
}

std::unique_ptr<AttachSession> AttachSessions::Take(int pid) {
  std::lock_guard lock(mutex_);
  const auto found = entries_.find(pid);
  return found == entries_.end() ? nullptr : std::move(found->second.session);
}

void AttachSessions::Release(int pid) {
  std::lock_guard lock(mutex_);
  entries_.erase(pid);
}

rocattach_status_t AttachSessions::Attach(int pid, bool tree) {
  if (const auto status = CheckPid(pid); status != ROCATTACH_STATUS_SUCCESS) {
    return status;
  }
  const AttachSettings settings = ReadAttachSettings(ReadEnvironment);
  const auto program = FindRecorderProgram();
  if (!program.ok()) {
    return Refuse(ROCATTACH_STATUS_ERROR, program.status().message());
  }
  if (!Reserve(pid, tree)) {
    return Refuse(ROCATTACH_STATUS_ERROR_INVALID_ARGUMENT,
                  absl::StrCat("process ", pid, " is attached to already"));
  }
  // Runs also if memory is exhausted on the way.
  absl::Cleanup release = [this, pid] { Release(pid); };
  auto session = std::make_unique<AttachSession>(pid, tree, limits_);
  const rocattach_status_t status =
      session->Attach(*program, OptionsOf(settings), settings.duration_msec);
  if (session->Has(pid)) {
    std::move(release).Cancel();
    std::lock_guard lock(mutex_);
    entries_[pid].session = std::move(session);
  }
  return status;
}

rocattach_status_t AttachSessions::Detach(int pid) {
  if (pid == 0) return DetachAll();
  if (auto session = Take(pid); session != nullptr) {
    absl::Cleanup release = [this, pid] { Release(pid); };
    return session->Detach();
  }
  std::lock_guard lock(mutex_);
  if (InATree(pid)) {
    return Refuse(ROCATTACH_STATUS_ERROR_NOT_SUPPORTED,
                  absl::StrCat("process ", pid,
                               " is recorded together with its tree; "
                               "detach from the root"));
  }
  return Refuse(ROCATTACH_STATUS_ERROR_INVALID_ARGUMENT,
                absl::StrCat("process ", pid, " is not attached to"));
}

rocattach_status_t AttachSessions::DetachTree(int pid) {
  if (pid == 0) return DetachAll();
  {
    std::lock_guard lock(mutex_);
    const auto found = entries_.find(pid);
    if (found == entries_.end() || !found->second.tree) {
      return Refuse(ROCATTACH_STATUS_ERROR_INVALID_ARGUMENT,
                    absl::StrCat("the tree of process ", pid, " is not attached to"));
    }
  }
  return Detach(pid);
}

rocattach_status_t AttachSessions::DetachAll() {
  std::map<int, std::unique_ptr<AttachSession>> all;
  {
    std::lock_guard lock(mutex_);
    for (auto& [pid, entry] : entries_) {
      if (entry.session != nullptr) all[pid] = std::move(entry.session);
    }
  }
  for (auto& [pid, session] : all) session->RequestEnd();
  for (auto& [pid, session] : all) {
    (void)session->Detach();
    Release(pid);
  }
  return ROCATTACH_STATUS_SUCCESS;
}

void AttachSessions::AfterForkInChild() {
  // Closes the child's copies of the descriptors.
  entries_.clear();
  mutex_.unlock();
}

}  // namespace rocattach
