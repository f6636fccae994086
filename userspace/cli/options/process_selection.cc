#include "userspace/cli/options/process_selection.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "userspace/base/process.h"
#include "userspace/base/status_macros.h"
#include "userspace/watch/control_group.h"
#include "userspace/watch/late/running_process.h"

namespace rocattach {
namespace {

constexpr size_t kMostPasswdBytes = 1 << 20;
// Commands of rocattach that users mistake for words of rocattach-watch.
constexpr const char* kClientCommands[] = {"attach",  "profile",  "report",  "dump",
                                           "recover", "counters", "session", "doctor"};

// -p with process IDs selects only these processes, which run already. They are entered
// now, or at their first hsa_init.
absl::Status SelectRunning(const std::vector<pid_t>& pids, WatchArguments* args) {
  WatcherOptions& watcher = args->watcher;
  if (!args->command.empty()) {
    return absl::InvalidArgumentError(
        "-p PID and a command were given; give one of them");
  }
  if (!watcher.attach) {
    return absl::InvalidArgumentError(
        "-p PID attaches to that process: add --auto, or select by name with -n");
  }
  const PolicyRules& rules = watcher.policy;
  if (!rules.allow.empty() || !rules.deny.empty() || rules.only_uid.has_value() ||
      watcher.all_running) {
    return absl::InvalidArgumentError(
        "-p PID selects the processes by itself: leave out -n, --uid, --deny and "
        "--attach-running");
  }
  for (pid_t pid : pids) {
    if (absl::Status status = CheckIsProcess(pid); !status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("-p ", pid, ": ", status.message()));
    }
    if (watcher.only_cgroup.has_value() && !watcher.only_cgroup->Contains(pid)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "-p ", pid, ": the process is not in the control group ", args->cgroup));
    }
    args->named.push_back(IdentityOf(pid));
  }
  watcher.running = args->named;
  watcher.wait_for_start = true;
  return absl::OkStatus();
}

// The kernel knows an executable by its real path, so a path that has a link in it, or
// is relative to the working directory, is matched in both forms. Otherwise --deny with
// such a path would deny nothing.
void AddRealPaths(std::vector<std::string>* globs) {
  for (size_t i = 0, given = globs->size(); i < given; ++i) {
    std::error_code missing;
    if ((*globs)[i].find('/') == std::string::npos) continue;
    std::string real = std::filesystem::canonical((*globs)[i], missing).string();
    if (!missing && real != (*globs)[i]) globs->push_back(std::move(real));
  }
}

}  // namespace

absl::StatusOr<uid_t> ParseUser(const std::string& user) {
  uid_t uid = 0;
  if (absl::SimpleAtoi(user, &uid)) return uid;
  std::vector<char> room(1024);
  passwd entry = {};
  passwd* found = nullptr;
  int error = 0;
  while ((error = getpwnam_r(user.c_str(), &entry, room.data(), room.size(), &found)) ==
             ERANGE &&
         room.size() < kMostPasswdBytes) {
    room.resize(room.size() * 2);
  }
  if (found != nullptr) return entry.pw_uid;
  return absl::InvalidArgumentError(absl::StrCat(
      "--uid ", user, ": ",
      error == 0 ? "there is no user of that name"
                 : absl::StrCat("the name could not be looked up: ", strerror(error))));
}

absl::Status InterpretSelection(WatchArguments* args) {
  WatcherOptions& watcher = args->watcher;
  if (!args->user.empty()) {
    ASSIGN_OR_RETURN(watcher.policy.only_uid, ParseUser(args->user));
  }
  if (!args->cgroup.empty()) {
    auto group = ControlGroup::Open(args->cgroup);
    if (!group.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--cgroup: ", group.status().message()));
    }
    watcher.only_cgroup = *std::move(group);
  }
  std::vector<pid_t> pids;
  for (const std::string& word : args->processes) {
    if (pid_t pid = 0; absl::SimpleAtoi(word, &pid)) {
      pids.push_back(pid);
      continue;
    }
    fprintf(stderr,
            "rocattach-watch: -p %s: names are given with -n; -p is for process IDs, "
            "and will not accept names in a later version\n",
            word.c_str());
    watcher.policy.allow.push_back(word);
  }
  AddRealPaths(&watcher.policy.allow);
  AddRealPaths(&watcher.policy.deny);
  return pids.empty() ? absl::OkStatus() : SelectRunning(pids, args);
}

absl::Status CheckMeaning(const CLI::App& app, const WatchArguments& args) {
  const std::string& word = args.command.front();
  // After "--" there is always a command, whatever its name.
  const std::vector<std::string>& words = args.watcher.recorder_arguments;
  if (std::find(words.begin(), words.end(), "--") != words.end()) {
    return absl::OkStatus();
  }
  std::string meant;
  if (app.get_option_no_throw("--" + word) != nullptr) {
    meant = absl::StrCat("did you mean --", word, "?");
  } else if (std::find(std::begin(kClientCommands), std::end(kClientCommands), word) !=
             std::end(kClientCommands)) {
    meant = absl::StrCat("did you mean 'rocattach ", word, "'?");
  } else {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("there is no program '", word, "' to run; ", meant));
}

}  // namespace rocattach
