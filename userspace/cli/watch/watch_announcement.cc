#include "userspace/cli/watch/watch_announcement.h"

#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "userspace/base/json.h"
#include "userspace/record/drain/dictionary.h"

namespace rocattach {
namespace {

void AnnounceToPrograms(const WatchAnnouncement& watcher, ConsoleOutput* out) {
  const LibraryScan& scan = *watcher.libraries;
  Json libraries = Json::array();
  for (const LibraryCopy& copy : scan.copies) libraries.push_back(copy.path);
  Json writable = Json::array();
  for (const LibraryCopy& copy : scan.copies) {
    if (std::string by = copy.file.Writers(); !by.empty()) {
      writable.push_back({{"path", copy.path}, {"by", by}});
    }
  }
  Json rejected = Json::array();
  for (const RejectedLibrary& library : scan.rejected) {
    rejected.push_back({{"path", library.path}, {"reason", library.reason}});
  }
  // "pid" is this process; its parent is the one that the user started.
  Json line = {{"event", "ready"},
               {"pid", getpid()},
               {"hold", std::string(HoldModeName(watcher.hold_mode))},
               {"hold_reason", watcher.hold_mode_reason},
               {"realtime", watcher.realtime},
               {"libraries", libraries},
               {"writable_libraries", writable},
               {"rejected", rejected},
               {"output", watcher.output}};
  if (!watcher.metrics_address.empty()) line["metrics"] = watcher.metrics_address;
  if (!watcher.danger.empty()) line["danger"] = watcher.danger;
  out->AddEvent(line);
}

// Reports problems of the libraries, also with --quiet.
void ReportLibraries(const LibraryScan& scan, ConsoleOutput* out) {
  for (const RejectedLibrary& library : scan.rejected) {
    out->Say(LogLevel::kWarning, "library_skipped",
             absl::StrCat("skipped ", CleanText(library.path), ": ",
                          CleanText(library.reason)));
  }
  if (scan.copies.empty()) {
    out->Say(
        LogLevel::kWarning, "no_library",
        "no HSA runtime found yet; a copy is probed when a process loads it. One with "
        "another name than libhsa-runtime64.so has to be specified with --library "
        "PATH");
  }
}

}  // namespace

void AnnounceWatcher(const WatchAnnouncement& watcher,
                     const WatchConsoleOptions& options, ConsoleOutput* out) {
  if (options.json) return AnnounceToPrograms(watcher, out);
  const LibraryScan& scan = *watcher.libraries;
  ReportLibraries(scan, out);
  if (!watcher.danger.empty()) {
    out->Say(LogLevel::kWarning, "danger", absl::StrCat("WARNING: ", watcher.danger));
  }
  if (options.quiet) return;
  for (const LibraryCopy& copy : scan.copies) {
    if (std::string by = copy.file.Writers(); !by.empty()) {
      out->Say(LogLevel::kWarning, "library_writable",
               absl::StrCat(CleanText(copy.path), " is writable by ", by,
                            "; its probe is removed if the file is modified"));
    }
  }
  std::string reason = watcher.hold_mode_reason;
  if (options.attach && watcher.hold_mode == HoldMode::kNone) {
    reason = "as requested; no process is held or attached";
  }
  out->Say(
      LogLevel::kInfo, "ready",
      absl::StrFormat(
          "%s %d HSA runtime %s, hold '%s'%s, output %s",
          options.attach ? "attaching through" : "watching", scan.copies.size(),
          scan.copies.size() == 1 ? "copy" : "copies", HoldModeName(watcher.hold_mode),
          reason.empty() ? "" : absl::StrCat(" (", reason, ")"), watcher.output));
  if (!watcher.metrics_address.empty()) {
    out->Say(LogLevel::kInfo, "metrics",
             absl::StrCat("metrics at http://", watcher.metrics_address, "/metrics"));
  }
}

}  // namespace rocattach
