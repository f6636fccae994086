#include "userspace/cli/watch/watch_console.h"

#include <signal.h>
#include <string.h>

#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "userspace/base/clock.h"
#include "userspace/base/human.h"
#include "userspace/base/json.h"
#include "userspace/cli/common/losses_json.h"
#include "userspace/cli/watch/watch_announcement.h"
#include "userspace/cli/watch/watch_summary.h"
#include "userspace/cli/watch/watch_words.h"
#include "userspace/record/drain/dictionary.h"
#include "userspace/record/output/output_pause.h"
#include "userspace/record/window_state.h"
#include "userspace/stream/hold.h"
#include "userspace/watch/discovery/translated_processes.h"

namespace rocattach {
namespace {

// Burst of lines about a user's processes, as seconds' worth of their rate.
constexpr uint32_t kBurstSeconds = 20;
// Maximum number of different reasons that are reported.
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

// "held 395 us", or "no thread was held".
std::string StopText(const v1::WindowEvent& verdict) {
  const uint64_t hold_ns = HoldNs(verdict);
  return hold_ns == 0 ? "no thread was held"
                      : absl::StrCat("held ", HumanDuration(hold_ns));
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
      out_(options),
      lines_(options.lines_per_second, options.lines_per_second * kBurstSeconds) {}

void WatchConsole::Announce(const Watcher& watcher) {
  absl::MutexLock lock(&mutex_);
  AnnounceWatcher({.hold_mode = watcher.hold_mode(),
                   .hold_mode_reason = watcher.hold_mode_reason(),
                   .realtime = watcher.realtime(),
                   .libraries = &watcher.libraries(),
                   .output = watcher.output_name(),
                   .metrics_address = watcher.metrics_address(),
                   .danger = TranslatedProcesses::WhatIsLacking()},
                  options_, &out_);
}

void WatchConsole::Tick(const RunTotals& totals) {
  absl::MutexLock lock(&mutex_);
  ReportLeftOut();
  out_.Flush();
  if (out_.shows_live()) out_.ShowLive(live_line_.Text(totals, BootNs()));
}

void WatchConsole::Summarize(const RunResult& result) {
  absl::MutexLock lock(&mutex_);
  out_.ClearLive();
  ReportLeftOut();
  WatchSummary(options_, unnamed_, &out_).Print(result);
}

void WatchConsole::ReportLeftOut() {
  for (const UserRate::LeftOut& user : lines_.TakeLeftOut()) {
    if (options_.json) {
      out_.AddEvent(
          {{"event", "lines_left_out"}, {"uid", user.uid}, {"lines", user.count}});
    } else {
      out_.Say({.level = LogLevel::kWarning,
                .event = "lines_left_out",
                .message = absl::StrCat(
                    HumanCount(user.count), " more lines about processes of user ",
                    user.uid, " were suppressed (--lines-per-second)"),
                .uid = user.uid});
    }
  }
  const uint64_t lost = out_.TakeLinesLost();
  if (lost == 0) return;
  if (options_.json) {
    out_.AddEvent({{"event", "lines_lost"}, {"lines", lost}});
  } else {
    out_.Say(LogLevel::kWarning, "lines_lost",
             absl::StrCat(HumanCount(lost),
                          " lines were lost because they were not read in time"));
  }
}

void WatchConsole::OnVerdict(const v1::Process& process,
                             const v1::WindowEvent& verdict) {
  absl::MutexLock lock(&mutex_);
  if (!lines_.Allow(process.uid(), BootNs())) return;
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
                 {"hold_ns", HoldNs(verdict)},
                 {"probe_ns", verdict.probe_ns()},
                 {"hit_ns", verdict.hit_ns()},
                 {"seized_ns", verdict.seized_ns()},
                 {"stopped_ns", verdict.stopped_ns()},
                 {"released_ns", verdict.released_ns()},
                 {"armed_ns", verdict.armed_ns()}};
    out_.AddEvent(line);
    return;
  }
  bool problem = verdict.state() == v1::WINDOW_STATE_REFUSED ||
                 verdict.state() == v1::WINDOW_STATE_MISSED;
  if (options_.quiet && !problem) return;
  if (options_.passed_once && verdict.state() == v1::WINDOW_STATE_PASSED &&
      !IsFirst(verdict.detail())) {
    ++unnamed_.passed;
    return;
  }
  if (verdict.state() == v1::WINDOW_STATE_ATTACHED) {
    out_.Say(EntryAbout(
        process, LogLevel::kInfo, "attached",
        absl::StrCat("attached to ", Name(process), ", ", StopText(verdict))));
    return;
  }
  // Programs that cannot be attached to are often started over and over.
  if (verdict.state() == v1::WINDOW_STATE_REFUSED &&
      !IsFirst(absl::StrCat("refused: ", verdict.reason(), " ", verdict.detail()))) {
    ++unnamed_.refused;
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
  out_.Say(entry);
}

bool WatchConsole::IsFirst(const std::string& text) {
  return said_.size() < kMostSaid && said_.insert(text).second;
}

void WatchConsole::OnMetricsPush(const absl::Status& state) {
  SayPush("metrics", "later totals contain what is missing now", state);
}

void WatchConsole::OnProfilePush(const absl::Status& state) {
  SayPush("profiles", "they are kept, and pushed again while the service runs", state);
}

void WatchConsole::SayPush(const std::string& what, const char* loss,
                           const absl::Status& state) {
  absl::MutexLock lock(&mutex_);
  const std::string event = absl::StrCat(what, state.ok() ? "_pushed" : "_push_failed");
  if (options_.json) {
    Json line = {{"event", event}};
    if (!state.ok()) line["reason"] = CleanText(std::string(state.message()));
    out_.AddEvent(line);
    return;
  }
  if (state.ok()) {
    out_.Say(LogLevel::kInfo, event, absl::StrCat(what, " are pushed again"));
  } else {
    out_.Say(LogLevel::kWarning, event,
             absl::StrCat(what, " cannot be pushed: ",
                          CleanText(std::string(state.message())), "; ", loss));
  }
}

void WatchConsole::OnLibraryChanged(const std::string& path, const std::string& why) {
  absl::MutexLock lock(&mutex_);
  if (options_.json) {
    const Json line = {{"event", "library_changed"}, {"path", path}, {"reason", why}};
    out_.AddEvent(line);
  } else {
    out_.Say(LogLevel::kWarning, "library_changed",
             absl::StrCat(CleanText(path), " ", why));
  }
}

void WatchConsole::OnSourceFailed(const std::string& source, const std::string& why) {
  absl::MutexLock lock(&mutex_);
  if (options_.json) {
    const Json line = {{"event", "source_failed"}, {"source", source}, {"reason", why}};
    out_.AddEvent(line);
  } else {
    out_.Say(
        LogLevel::kWarning, "source_failed",
        absl::StrCat("metrics lack what is known of ", source, ": ", CleanText(why),
                     " (reported once; rocattach_source_failures_total counts)"));
  }
}

void WatchConsole::OnSessionRefused(pid_t pid, const std::string& why) {
  absl::MutexLock lock(&mutex_);
  if (options_.json) {
    Json line = {{"event", "session_refused"}, {"pid", pid}, {"reason", why}};
    out_.AddEvent(line);
  } else {
    if (!IsFirst(absl::StrCat("session: ", why))) {
      ++unnamed_.session_refused;
      return;
    }
    out_.Say({.level = LogLevel::kWarning,
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
    out_.AddEvent(line);
    return;
  }
  for (const LeftOut& one : ByReason(left_out)) {
    // Once for all processes: most have the same reason.
    if (!IsFirst(absl::StrCat("left out: ", one.Text()))) continue;
    out_.Say({.level = LogLevel::kWarning,
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
    out_.AddEvent(line);
  } else if (IsFirst(text)) {
    out_.Say({.level = LogLevel::kWarning,
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
    out_.AddEvent(line);
  } else {
    out_.Say({.level = LogLevel::kWarning,
              .event = "not_attached",
              .message = std::string(why.message()),
              .pid = pid});
  }
}

void WatchConsole::OnNotStarted(pid_t pid, const absl::Status& why, bool awaited) {
  if (!awaited || options_.quiet || options_.json) return;
  absl::MutexLock lock(&mutex_);
  out_.Say({.event = "not_started",
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
    out_.AddEvent(line);
  } else {
    out_.Say(EntryAbout(
        process, LogLevel::kWarning, "not_believable",
        absl::StrCat(Name(process),
                     " reports impossible numbers and is no longer read: ", why)));
  }
}

void WatchConsole::OnUnseenWork(const v1::Process& process, const std::string& why) {
  absl::MutexLock lock(&mutex_);
  if (options_.json) {
    Json line = {{"event", "unseen_work"},
                 {"pid", process.pid()},
                 {"comm", process.comm()},
                 {"library", process.hsa_library()},
                 {"reason", why}};
    out_.AddEvent(line);
  } else {
    out_.Say(
        EntryAbout(process, LogLevel::kWarning, "unseen_work",
                   absl::StrCat(Name(process), " (", process.hsa_library(),
                                ") uses GPUs in a way that is not recorded: ", why)));
  }
}

void WatchConsole::OnRecordingPaused(const absl::Status& why) {
  absl::MutexLock lock(&mutex_);
  if (options_.json) {
    const Json line = {{"event", "recording_paused"}, {"reason", why.message()}};
    out_.AddEvent(line);
  } else {
    out_.Say({.level = LogLevel::kError,
              .event = "recording_paused",
              .message = PausedText(why)});
  }
}

void WatchConsole::OnRecordingResumed(uint64_t records_lost) {
  absl::MutexLock lock(&mutex_);
  if (options_.json) {
    const Json line = {{"event", "recording_resumed"}, {"records_lost", records_lost}};
    out_.AddEvent(line);
  } else {
    out_.Say({.level = LogLevel::kWarning,
              .event = "recording_resumed",
              .message = absl::StrCat("recording resumed; ", HumanCount(records_lost),
                                      " records were lost")});
  }
}

void WatchConsole::OnSampling(const SamplingLevel& level, const std::string& why) {
  absl::MutexLock lock(&mutex_);
  if (options_.json) {
    out_.AddEvent(SamplingJson(level, why));
  } else {
    out_.Say({.level = level.every() ? LogLevel::kInfo : LogLevel::kWarning,
              .event = "sampling",
              .message = SamplingText(level, why)});
  }
}

void WatchConsole::OnEnd(const v1::Process& process, const v1::ProcessEnd& end,
                         const v1::LossAccount& account) {
  absl::MutexLock lock(&mutex_);
  if (!lines_.Allow(process.uid(), BootNs())) return;
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
                 {"unseen_work", account.unseen_work()},
                 {"counted", account.counted_delivered()},
                 {"counted_dropped", account.counted_dropped()},
                 {"samples", account.samples_delivered()},
                 {"api_calls", account.api_calls_delivered()}};
    out_.AddEvent(line);
    return;
  }
  const bool is_whole =
      lost == 0 && account.not_believable().empty() && account.unseen_work().empty();
  if (options_.quiet && is_whole) return;
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
  if (!account.unseen_work().empty()) {
    absl::StrAppend(&more, ", and work that was NOT SEEN");
  }
  out_.Say(EntryAbout(
      process, !is_whole ? LogLevel::kWarning : LogLevel::kInfo, "end",
      absl::StrCat(Name(process), " ", EndText(end), ": ",
                   HumanCount(account.dispatches_delivered()), " dispatches, ",
                   HumanCount(account.copies_delivered()), " copies", more)));
}

}  // namespace rocattach
