#include "userspace/base/time_namespace.h"

#include <sys/stat.h>

#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "userspace/base/file.h"
#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

constexpr size_t kMostBytes = 4096;
constexpr int64_t kNsPerSecond = 1'000'000'000;
// An offset in seconds that is still one in nanoseconds.
constexpr int64_t kMostSeconds = INT64_MAX / kNsPerSecond - 1;

}  // namespace

ino_t TimeNamespaceOf(absl::string_view process, absl::string_view kind) {
  struct stat info;
  const std::string path = absl::StrCat("/proc/", process, "/ns/", kind);
  return stat(path.c_str(), &info) == 0 ? info.st_ino : 0;
}

absl::StatusOr<int64_t> ParseBootOffset(absl::string_view text) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    int64_t seconds = 0;
    int64_t nanoseconds = 0;
    // Linux 5.6 names the clock by its number.
    if (words.size() != 3 || (words[0] != "boottime" && words[0] != "7")) continue;
    if (!absl::SimpleAtoi(words[1], &seconds) ||
        !absl::SimpleAtoi(words[2], &nanoseconds) || seconds > kMostSeconds ||
        seconds < -kMostSeconds || nanoseconds < 0 || nanoseconds >= kNsPerSecond) {
      break;
    }
    return seconds * kNsPerSecond + nanoseconds;
  }
  return absl::DataLossError("timens_offsets has no offset of CLOCK_BOOTTIME");
}

absl::StatusOr<int64_t> ReadBootOffset(absl::string_view process) {
  if (TimeNamespaceOf(process, "time") !=
      TimeNamespaceOf(process, "time_for_children")) {
    return absl::FailedPreconditionError(absl::StrCat(
        "process ", process,
        " is in a time namespace and has made another for its children, so its clock's "
        "offset cannot be read; its children can be recorded"));
  }
  ASSIGN_OR_RETURN(
      const std::string text,
      ReadFile(absl::StrCat("/proc/", process, "/timens_offsets"), kMostBytes));
  return ParseBootOffset(text);
}

absl::Status CheckOwnClocks() {
  if (TimeNamespaceOf("self", "time") == 0) return absl::OkStatus();
  auto offset = ReadBootOffset("self");
  // A namespace that it has made for its children does not apply to itself.
  if (absl::IsFailedPrecondition(offset.status()) ||
      absl::IsNotFound(offset.status())) {
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(offset.status());
  if (*offset == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "this process is in a time namespace whose boot time differs by ",
      *offset / kNsPerSecond,
      " s, so its times would not be those of the kernel; start it in the initial time "
      "namespace (nsenter --time=/proc/1/ns/time)"));
}

}  // namespace rocattach
