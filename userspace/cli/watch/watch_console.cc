#include "userspace/cli/watch/watch_console.h"

#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "userspace/base/clock.h"
#include "userspace/base/human.h"
#include "userspace/cli/common/losses_json.h"
#include "userspace/cli/watch/watch_words.h"
#include "userspace/record/dictionary.h"
#include "userspace/record/window_state.h"

namespace rocattach {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kProgram[] = "rocattach-watch";
// At the end, output is flushed as long as its reader makes progress within this time.
constexpr int kPatienceMsec = 2000;
// Lines about a user's processes: this many seconds' worth may come at once.
constexpr uint32_t kBurstSeconds = 20;
// Different reasons why processes are left alone that are said.
constexpr size_t kMostSaid = 256;

std::string EndText(const v1::ProcessEnd& end) {
  switch (end.how()) {
    case v1::ProcessEnd::EXITED:
      return absl::StrCat("exited with status ", end.exit_code());
    case v1::ProcessEnd::SIGNALLED:
      return absl::StrCat("was killed by SIG",
                          sigabbrev_np(static_cast<int>(end.signal())) != nullptr
                              ? sigabbrev_np(static_cast<int>(end.signal()))
                              : absl::StrCat(end.signal()));
    case v1::ProcessEnd::EXECED:
      return "called exec";
    case v1::ProcessEnd::STILL_RUNNING:
      return "is still running";
    default:
      return "ended in an unknown way";
  }
}

std::string Name(const v1::Process& process) {
  return absl::StrCat(process.comm(), " (pid ", process.pid(), ")");
}

LogEntry EntryAbout(const v1::Process& process, LogLevel level, absl::string_view event,
                    std::string message) {
  return {.level = level,
          .event = event,
          .message = std::move(message),
          .pid = static_cast<pid_t>(process.pid()),
          .comm = process.comm(),
          .uid = process.uid()};
}

}  // namespace

WatchConsole::WatchConsole(WatchConsoleOptions options)
    : options_(options),
      terminal_(isatty(fileno(options.out)) != 0),
      out_(fileno(options.out)),
      lines_(options.lines_per_second, options.lines_per_second * kBurstSeconds) {}

WatchConsole::~WatchConsole() {
  out_.Finish(kPatienceMsec);
  errors_.Finish(kPatienceMsec);
}

void WatchConsole::Say(const LogEntry& entry) {
  ClearLiveLine();
  out_.Add(LogLine(options_.log_format, kProgram, entry, absl::Now()));
}

void WatchConsole::SayError(absl::string_view event, std::string message) {
  LineOutput& to = fileno(options_.out) == STDERR_FILENO ? out_ : errors_;
  to.Add(LogLine(
      options_.log_format, kProgram,
      {.level = LogLevel::kError, .event = event, .message = std::move(message)},
      absl::Now()));
}

void WatchConsole::Print(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  char* text = nullptr;
  const int length = vasprintf(&text, format, arguments);
  va_end(arguments);
  if (length < 0) return;
  out_.Add(absl::string_view(text, static_cast<size_t>(length)));
  free(text);
}

void WatchConsole::ClearLiveLine() {
  if (!live_line_shown_) return;
  out_.Add("\r\033[K");
  live_line_shown_ = false;
}

void WatchConsole::Announce(const Watcher& watcher) {
  absl::MutexLock lock(&mutex_);
  const LibraryScan& scan = watcher.libraries();
  if (options_.json) {
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
    Json line = {{"event", "ready"},
                 {"hold", std::string(HoldModeName(watcher.hold_mode()))},
                 {"hold_reason", watcher.hold_mode_reason()},
                 {"realtime", watcher.realtime()},
                 {"libraries", libraries},
                 {"writable_libraries", writable},
                 {"rejected", rejected},
                 {"output", watcher.output_name()}};
    if (const std::string metrics = watcher.metrics_address(); !metrics.empty()) {
      line["metrics"] = metrics;
    }
    Print("%s\n", WatchEventText(line).c_str());
    return;
  }
  for (const RejectedLibrary& library : scan.rejected) {
    Say(LogLevel::kWarning, "library_skipped",
        absl::StrCat("skipped ", CleanText(library.path), ": ",
                     CleanText(library.reason)));
  }
  if (scan.copies.empty()) {
    Say(LogLevel::kWarning, "no_library",
        "no HSA runtime found yet; a copy is probed when a process loads it. One with "
        "another name than libhsa-runtime64.so has to be specified with --library "
        "PATH");
  }
  if (options_.quiet) return;
  for (const LibraryCopy& copy : scan.copies) {
    if (std::string by = copy.file.Writers(); !by.empty()) {
      Say(LogLevel::kWarning, "library_writable",
          absl::StrCat(CleanText(copy.path), " is writable by ", by,
                       "; its probe is removed if the file is modified"));
    }
  }
  std::string reason = watcher.hold_mode_reason();
  if (options_.attach && watcher.hold_mode() == HoldMode::kNone) {
    reason = "as requested; no process is held or attached";
  }
  Say(LogLevel::kInfo, "ready",
      absl::StrFormat("%s %d HSA runtime %s, hold '%s'%s, output %s",
                      options_.attach ? "attaching through" : "watching",
                      scan.copies.size(), scan.copies.size() == 1 ? "copy" : "copies",
                      HoldModeName(watcher.hold_mode()),
                      reason.empty() ? "" : absl::StrCat(" (", reason, ")"),
                      watcher.output_name()));
  if (const std::string metrics = watcher.metrics_address(); !metrics.empty()) {
    Say(LogLevel::kInfo, "metrics",
        absl::StrCat("metrics at http://", metrics, "/metrics"));
  }
}

void WatchConsole::Tick(const RunTotals& totals) {
  {
    absl::MutexLock lock(&mutex_);
    ReportLeftOut();
    out_.Flush();
  }
  if (!terminal_ || !options_.live || options_.json || options_.quiet ||
      options_.log_format == LogFormat::kJson) {
    return;
  }
  absl::MutexLock lock(&mutex_);
  uint64_t now = BootNs();
  double seconds =
      last_tick_ns_ == 0 ? 0 : static_cast<double>(now - last_tick_ns_) / 1e9;
  // The total of a final account may be less than was drained.
  uint64_t more = totals.dispatches - std::min(last_dispatches_, totals.dispatches);
  double rate = seconds <= 0 ? 0 : static_cast<double>(more) / seconds;
  last_tick_ns_ = now;
  last_dispatches_ = totals.dispatches;
  ClearLiveLine();
  Print("%s running, %s attached | %s dispatches (%s/s), %s copies",
        HumanCount(totals.running).c_str(), HumanCount(totals.attached).c_str(),
        HumanCount(totals.dispatches).c_str(),
        HumanCount(static_cast<uint64_t>(rate)).c_str(),
        HumanCount(totals.copies).c_str());
  if (totals.missed + totals.refused > 0) {
    Print(" | %s missed, %s refused", HumanCount(totals.missed).c_str(),
          HumanCount(totals.refused).c_str());
  }
  if (totals.dropped + totals.unseen > 0) {
    Print(" |%s", WatchLossText(totals.dropped, totals.unseen).c_str() + 1);
  }
  live_line_shown_ = true;
}

void WatchConsole::OnVerdict(const v1::Process& process,
                             const v1::WindowEvent& verdict) {
  absl::MutexLock lock(&mutex_);
  if (!lines_.Take(process.uid(), BootNs())) return;
  if (options_.json) {
    Json line = {{"event", "window"},
                 {"pid", process.pid()},
                 {"comm", process.comm()},
                 {"executable", process.executable()},
                 {"uid", process.uid()},
                 {"verdict", std::string(VerdictName(verdict.state()))},
                 {"stage", v1::AttachStage_Name(verdict.stage())},
                 {"reason", v1::AttachReason_Name(verdict.reason())},
                 {"errno", verdict.error()},
                 {"retryable", verdict.retryable()},
                 {"target_modified", verdict.target_modified()},
                 {"detail", verdict.detail()},
                 {"hold_ns", verdict.hold_ns()},
                 {"hit_ns", verdict.hit_ns()},
                 {"seized_ns", verdict.seized_ns()},
                 {"stopped_ns", verdict.stopped_ns()},
                 {"released_ns", verdict.released_ns()},
                 {"armed_ns", verdict.armed_ns()}};
    Print("%s\n", WatchEventText(line).c_str());
    return;
  }
  bool problem = verdict.state() == v1::WINDOW_STATE_REFUSED ||
                 verdict.state() == v1::WINDOW_STATE_MISSED;
  if (options_.quiet && !problem) return;
  if (options_.passed_once && verdict.state() == v1::WINDOW_STATE_PASSED &&
      !IsFirst(verdict.detail())) {
    ++passed_unsaid_;
    return;
  }
  if (verdict.state() == v1::WINDOW_STATE_ATTACHED) {
    Say(EntryAbout(
        process, LogLevel::kInfo, "attached",
        absl::StrCat("attached to ", Name(process), ", held ",
                     HumanDuration(verdict.released_ns() - verdict.hit_ns()))));
    return;
  }
  // What cannot be attached to is often started over and over.
  if (verdict.state() == v1::WINDOW_STATE_REFUSED &&
      !IsFirst(absl::StrCat("refused: ", verdict.reason(), " ", verdict.detail()))) {
    ++refused_unsaid_;
    return;
  }
  const absl::string_view verdict_name = VerdictName(verdict.state());
  LogEntry entry = EntryAbout(
      process, problem ? LogLevel::kWarning : LogLevel::kInfo, verdict_name,
      absl::StrCat(verdict_name, " ", Name(process), ": ", verdict.detail()));
  // As in the documentation's table of verdicts: "no-dlopen".
  const std::string reason = v1::AttachReason_Name(verdict.reason());
  if (verdict.reason() != v1::ATTACH_REASON_NONE) {
    entry.reason = absl::AsciiStrToLower(
        absl::StrReplaceAll(absl::StripPrefix(reason, "ATTACH_REASON_"), {{"_", "-"}}));
  }
  Say(entry);
}

bool WatchConsole::IsFirst(const std::string& text) {
  return said_.size() < kMostSaid && said_.insert(text).second;
}

void WatchConsole::ReportLeftOut() {
  for (const UserRate::LeftOut& user : lines_.TakeLeftOut()) {
    if (options_.json) {
      Json line = {
          {"event", "lines_left_out"}, {"uid", user.uid}, {"lines", user.count}};
      Print("%s\n", WatchEventText(line).c_str());
    } else {
      Say({.level = LogLevel::kWarning,
           .event = "lines_left_out",
           .message = absl::StrCat(HumanCount(user.count),
                                   " more lines about processes of user ", user.uid,
                                   " were suppressed (--lines-per-second)"),
           .uid = user.uid});
    }
  }
  if (out_.lines_left_out() > lines_lost_reported_) {
    const uint64_t lost = out_.lines_left_out() - lines_lost_reported_;
    lines_lost_reported_ = out_.lines_left_out();
    if (options_.json) {
      Json line = {{"event", "lines_lost"}, {"lines", lost}};
      Print("%s\n", WatchEventText(line).c_str());
    } else {
      Say(LogLevel::kWarning, "lines_lost",
          absl::StrCat(HumanCount(lost),
                       " lines were lost because they were not read in time"));
    }
  }
}

void WatchConsole::OnMetricsPush(const absl::Status& state) {
  SayPush("metrics", "later totals contain what is missing now", state);
}

void WatchConsole::OnProfilePush(const absl::Status& state) {
  SayPush("profiles", "what cannot be delivered is kept for the next one", state);
}

void WatchConsole::SayPush(const std::string& what, const char* loss,
                           const absl::Status& state) {
  absl::MutexLock lock(&mutex_);
  const std::string event = absl::StrCat(what, state.ok() ? "_pushed" : "_push_failed");
  if (options_.json) {
    Json line = {{"event", event}};
    if (!state.ok()) line["reason"] = CleanText(std::string(state.message()));
    Print("%s\n", WatchEventText(line).c_str());
    return;
  }
  if (state.ok()) {
    Say(LogLevel::kInfo, event, absl::StrCat(what, " are pushed again"));
  } else {
    Say(LogLevel::kWarning, event,
        absl::StrCat(what, " cannot be pushed: ",
                     CleanText(std::string(state.message())), "; ", loss));
  }
}

void WatchConsole::OnLibraryChanged(const std::string& path, const std::string& why) {
  absl::MutexLock lock(&mutex_);
  if (options_.json) {
    const Json line = {{"event", "library_changed"}, {"path", path}, {"reason", why}};
    Print("%s\n", WatchEventText(line).c_str());
  } else {
    Say(LogLevel::kWarning, "library_changed", absl::StrCat(CleanText(path), " ", why));
  }
}

void WatchConsole::OnSourceFailed(const std::string& source, const std::string& why) {
  absl::MutexLock lock(&mutex_);
  if (options_.json) {
    const Json line = {{"event", "source_failed"}, {"source", source}, {"reason", why}};
    Print("%s\n", WatchEventText(line).c_str());
  } else {
    Say(LogLevel::kWarning, "source_failed",
        absl::StrCat("metrics lack what is known of ", source, ": ", CleanText(why),
                     " (reported once; rocattach_source_failures_total counts)"));
  }
}

void WatchConsole::OnSessionRefused(pid_t pid, const std::string& why) {
  absl::MutexLock lock(&mutex_);
  if (options_.json) {
    Json line = {{"event", "session_refused"}, {"pid", pid}, {"reason", why}};
    Print("%s\n", WatchEventText(line).c_str());
  } else {
    if (!IsFirst(absl::StrCat("session: ", why))) {
      ++session_refusals_unsaid_;
      return;
    }
    Say({.level = LogLevel::kWarning,
         .event = "session_refused",
         .message = absl::StrCat("process ", pid, ": session refused: ", why),
         .pid = pid});
  }
}

void WatchConsole::OnSessionLeftOut(pid_t pid, const std::vector<LeftOut>& left_out) {
  absl::MutexLock lock(&mutex_);
  if (options_.json) {
    Json line = {
        {"event", "session_left_out"}, {"pid", pid}, {"missing", Json::array()}};
    for (const LeftOut& one : left_out) {
      line["missing"].push_back({{"what", one.what}, {"why", one.why}});
    }
    Print("%s\n", WatchEventText(line).c_str());
    return;
  }
  for (const LeftOut& one : left_out) {
    // Once for all processes: most have the same reason.
    if (!IsFirst(absl::StrCat("left out: ", one.Text()))) continue;
    Say({.level = LogLevel::kWarning,
         .event = "session_left_out",
         .message = absl::StrCat("process ", pid, ": recorded ", one.Text()),
         .pid = pid});
  }
}

void WatchConsole::OnPeriodsSkipped(pid_t pid, uint64_t periods,
                                    const std::string& text) {
  absl::MutexLock lock(&mutex_);
  if (options_.json) {
    const Json line = {{"event", "periods_skipped"},
                       {"pid", pid},
                       {"periods", periods},
                       {"reason", text}};
    Print("%s\n", WatchEventText(line).c_str());
  } else if (IsFirst(text)) {
    Say({.level = LogLevel::kWarning,
         .event = "periods_skipped",
         .message = absl::StrCat("process ", pid, ": ", text),
         .pid = pid});
  }
}

void WatchConsole::OnNotAttached(pid_t pid, const absl::Status& why) {
  absl::MutexLock lock(&mutex_);
  if (options_.json) {
    Json line = {{"event", "not_attached"},
                 {"pid", pid},
                 {"reason", std::string(why.message())}};
    Print("%s\n", WatchEventText(line).c_str());
  } else {
    Say({.level = LogLevel::kWarning,
         .event = "not_attached",
         .message = std::string(why.message()),
         .pid = pid});
  }
}

void WatchConsole::OnNotStarted(pid_t pid, const absl::Status& why, bool awaited) {
  if (!awaited || options_.quiet || options_.json) return;
  absl::MutexLock lock(&mutex_);
  Say({.event = "not_started",
       .message = absl::StrCat(why.message(), "; waiting until it does"),
       .pid = pid});
}

void WatchConsole::OnNotBelievable(const v1::Process& process, const std::string& why) {
  absl::MutexLock lock(&mutex_);
  if (options_.json) {
    Json line = {{"event", "not_believable"},
                 {"pid", process.pid()},
                 {"comm", process.comm()},
                 {"reason", why}};
    Print("%s\n", WatchEventText(line).c_str());
  } else {
    Say(EntryAbout(
        process, LogLevel::kWarning, "not_believable",
        absl::StrCat(Name(process),
                     " reports impossible numbers and is no longer read: ", why)));
  }
}

void WatchConsole::OnRecordingPaused(const absl::Status& why) {
  absl::MutexLock lock(&mutex_);
  if (options_.json) {
    const Json line = {{"event", "recording_paused"}, {"reason", why.message()}};
    Print("%s\n", WatchEventText(line).c_str());
  } else {
    Say({.level = LogLevel::kError,
         .event = "recording_paused",
         .message = absl::StrCat("recording is paused: ",
                                 CleanText(std::string(why.message())))});
  }
}

void WatchConsole::OnRecordingResumed(uint64_t records_lost) {
  absl::MutexLock lock(&mutex_);
  if (options_.json) {
    const Json line = {{"event", "recording_resumed"}, {"records_lost", records_lost}};
    Print("%s\n", WatchEventText(line).c_str());
  } else {
    Say({.level = LogLevel::kWarning,
         .event = "recording_resumed",
         .message = absl::StrCat("recording resumed; ", HumanCount(records_lost),
                                 " records were lost")});
  }
}

void WatchConsole::OnSampling(const SamplingLevel& level, const std::string& why) {
  absl::MutexLock lock(&mutex_);
  if (options_.json) {
    Print("%s\n", WatchEventText(SamplingJson(level, why)).c_str());
  } else {
    Say({.level = level.every() ? LogLevel::kInfo : LogLevel::kWarning,
         .event = "sampling",
         .message = SamplingText(level, why)});
  }
}

void WatchConsole::OnEnd(const v1::Process& process, const v1::ProcessEnd& end,
                         const v1::LossAccount& account) {
  absl::MutexLock lock(&mutex_);
  if (!lines_.Take(process.uid(), BootNs())) return;
  const uint64_t lost = LostRecords(account);
  if (options_.json) {
    Json line = {{"event", "end"},
                 {"pid", process.pid()},
                 {"comm", process.comm()},
                 {"how", v1::ProcessEnd::How_Name(end.how())},
                 {"exit_code", end.exit_code()},
                 {"signal", end.signal()},
                 {"dispatches", account.dispatches_delivered()},
                 {"copies", account.copies_delivered()},
                 {"dropped", DroppedRecords(account)},
                 {"lost_by", LossesJson(account)},
                 {"sampled_out", account.sampled_out()},
                 {"untimed", account.untimed()},
                 {"unfinished", account.unfinished()},
                 {"unseen", account.packets_unseen()},
                 {"not_believable", account.not_believable()},
                 {"counted", account.counted_delivered()},
                 {"counted_dropped", account.counted_dropped()},
                 {"samples", account.samples_delivered()},
                 {"api_calls", account.api_calls_delivered()}};
    Print("%s\n", WatchEventText(line).c_str());
    return;
  }
  if (options_.quiet && lost == 0 && account.not_believable().empty()) {
    return;
  }
  std::string more;
  if (account.counted_seen() > 0) {
    more = absl::StrCat(", ", HumanCount(account.counted_delivered()), " measured");
  }
  if (account.sampled_out() > 0) {
    absl::StrAppend(&more, ", ", HumanCount(account.sampled_out()), " sampled out");
  }
  if (lost > 0) absl::StrAppend(&more, ", LOST: ", LossText(account));
  if (!account.not_believable().empty()) {
    more = ", losses UNKNOWN: its numbers are impossible";
  }
  const bool is_whole = lost == 0 && account.not_believable().empty();
  Say(EntryAbout(
      process, !is_whole ? LogLevel::kWarning : LogLevel::kInfo, "end",
      absl::StrCat(Name(process), " ", EndText(end), ": ",
                   HumanCount(account.dispatches_delivered()), " dispatches, ",
                   HumanCount(account.copies_delivered()), " copies", more)));
}

}  // namespace rocattach
