#include "injector/process/thread_status.h"

#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "userspace/base/file.h"
#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

constexpr size_t kStatusLimit = 1 << 20;

// The id that file access is checked against: the last of real, effective, saved, file.
uint32_t FileId(absl::string_view values) {
  std::vector<absl::string_view> ids =
      absl::StrSplit(values, absl::ByAnyChar("\t "), absl::SkipEmpty());
  uint32_t id;
  // An unreadable id becomes an unused one, which can only cause a refusal.
  return ids.size() == 4 && absl::SimpleAtoi(ids[3], &id) ? id : UINT32_MAX;
}

std::vector<gid_t> Groups(absl::string_view values) {
  std::vector<gid_t> groups;
  for (absl::string_view value :
       absl::StrSplit(values, absl::ByAnyChar("\t "), absl::SkipEmpty())) {
    uint32_t group;
    if (absl::SimpleAtoi(value, &group)) groups.push_back(group);
  }
  return groups;
}

uint64_t HexMask(absl::string_view value) {
  uint64_t mask = 0;
  return absl::SimpleHexAtoi(value, &mask) ? mask : 0;
}

}  // namespace

ThreadStatus ParseThreadStatus(absl::string_view text) {
  ThreadStatus status;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    size_t colon = line.find(':');
    if (colon == absl::string_view::npos) continue;
    absl::string_view name = line.substr(0, colon);
    absl::string_view value = absl::StripAsciiWhitespace(line.substr(colon + 1));
    if (name == "State" && !value.empty()) {
      status.state = value[0];
    } else if (name == "NSpid") {
      // Ordered from the reader's namespace to the thread's own.
      (void)absl::SimpleAtoi(value.substr(value.find_last_of("\t ") + 1),
                             &status.inner_tid);
    } else if (name == "PPid") {
      (void)absl::SimpleAtoi(value, &status.parent);
    } else if (name == "TracerPid") {
      (void)absl::SimpleAtoi(value, &status.tracer);
    } else if (name == "Uid") {
      status.file_uid = FileId(value);
    } else if (name == "Gid") {
      status.file_gid = FileId(value);
    } else if (name == "Groups") {
      status.groups = Groups(value);
    } else if (name == "CapEff") {
      status.effective_capabilities = HexMask(value);
    } else if (name == "SigPnd" || name == "ShdPnd") {
      status.pending |= HexMask(value);
    } else if (name == "SigBlk") {
      status.blocked = HexMask(value);
    } else if (name == "Seccomp") {
      (void)absl::SimpleAtoi(value, &status.seccomp_mode);
    }
  }
  return status;
}

absl::StatusOr<ThreadStatus> ReadThreadStatus(pid_t pid, pid_t tid) {
  ASSIGN_OR_RETURN(
      std::string text,
      ReadFile(absl::StrCat("/proc/", pid, "/task/", tid, "/status"), kStatusLimit));
  return ParseThreadStatus(text);
}

}  // namespace rocattach
