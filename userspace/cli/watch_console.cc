#include "userspace/cli/watch_console.h"

#include <google/protobuf/util/json_util.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "userspace/base/clock.h"
#include "userspace/base/human.h"
#include "userspace/base/session_status.h"
#include "userspace/record/dictionary.h"
#include "userspace/record/window_state.h"

namespace rocattach {
namespace {

using Json = nlohmann::ordered_json;

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

Json Distribution(const DurationHistogram& durations) {
  return {{"count", durations.count()},
          {"median", durations.Quantile(0.5)},
          {"p99", durations.Quantile(0.99)},
          {"max", durations.max()}};
}

std::string DistributionText(const DurationHistogram& durations) {
  return absl::StrFormat(
      "median %s, p99 %s, max %s", HumanDuration(durations.Quantile(0.5)),
      HumanDuration(durations.Quantile(0.99)), HumanDuration(durations.max()));
}

// ", 5 LOST, 7 UNSEEN"; nothing if nothing was lost. Unseen packets are those
// that the GPU consumed before the collector could read them.
std::string LossText(uint64_t dropped, uint64_t unseen) {
  std::string words;
  if (dropped > 0) absl::StrAppend(&words, ", ", HumanCount(dropped), " LOST");
  if (unseen > 0) absl::StrAppend(&words, ", ", HumanCount(unseen), " UNSEEN");
  return words;
}

// A target's text must not be able to break out of a JSON line or a terminal; the
// recorder has made it valid UTF-8 without control characters already.
std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
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

void WatchConsole::PrintError(absl::string_view line) {
  (fileno(options_.out) == STDERR_FILENO ? out_ : errors_).Add(line);
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
  std::lock_guard<std::mutex> lock(mutex_);
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
    Print("%s\n", Dump(line).c_str());
    return;
  }
  for (const RejectedLibrary& library : scan.rejected) {
    Print("rocattach-watch: skipped %s: %s\n", CleanText(library.path).c_str(),
          CleanText(library.reason).c_str());
  }
  if (scan.copies.empty()) {
    Print(
        "rocattach-watch: no HSA runtime found yet; a copy is probed when a process "
        "loads it. One with another name than libhsa-runtime64.so has to be specified "
        "with --library PATH\n");
  }
  if (options_.quiet) return;
  for (const LibraryCopy& copy : scan.copies) {
    if (std::string by = copy.file.Writers(); !by.empty()) {
      Print(
          "rocattach-watch: %s is writable by %s; its probe is removed if the file is "
          "modified\n",
          CleanText(copy.path).c_str(), by.c_str());
    }
  }
  std::string reason = watcher.hold_mode_reason();
  if (options_.attach && watcher.hold_mode() == HoldMode::kNone) {
    reason = "as requested; no process is held or attached";
  }
  Print("rocattach-watch: %s %zu HSA runtime %s, hold '%s'%s, output %s\n",
        options_.attach ? "attaching through" : "watching", scan.copies.size(),
        scan.copies.size() == 1 ? "copy" : "copies",
        std::string(HoldModeName(watcher.hold_mode())).c_str(),
        reason.empty() ? "" : absl::StrCat(" (", reason, ")").c_str(),
        watcher.output_name().c_str());
  if (const std::string metrics = watcher.metrics_address(); !metrics.empty()) {
    Print("rocattach-watch: metrics at http://%s/metrics\n", metrics.c_str());
  }
}

void WatchConsole::Tick(const RunTotals& totals) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    ReportLeftOut();
    out_.Flush();
  }
  if (!terminal_ || !options_.live || options_.json || options_.quiet) return;
  std::lock_guard<std::mutex> lock(mutex_);
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
    Print(" |%s", LossText(totals.dropped, totals.unseen).c_str() + 1);
  }
  live_line_shown_ = true;
}

void WatchConsole::OnVerdict(const v1::Process& process,
                             const v1::WindowEvent& verdict) {
  std::lock_guard<std::mutex> lock(mutex_);
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
    Print("%s\n", Dump(line).c_str());
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
  ClearLiveLine();
  if (verdict.state() == v1::WINDOW_STATE_ATTACHED) {
    Print("rocattach-watch: attached to %s, held %s\n", Name(process).c_str(),
          HumanDuration(verdict.released_ns() - verdict.hit_ns()).c_str());
  } else {
    Print("rocattach-watch: %s %s: %s\n",
          std::string(VerdictName(verdict.state())).c_str(), Name(process).c_str(),
          verdict.detail().c_str());
  }
}

bool WatchConsole::IsFirst(const std::string& text) {
  return said_.size() < kMostSaid && said_.insert(text).second;
}

void WatchConsole::ReportLeftOut() {
  for (const UserRate::LeftOut& user : lines_.TakeLeftOut()) {
    if (options_.json) {
      Json line = {
          {"event", "lines_left_out"}, {"uid", user.uid}, {"lines", user.count}};
      Print("%s\n", Dump(line).c_str());
    } else {
      ClearLiveLine();
      Print(
          "rocattach-watch: %s more lines about processes of user %u were suppressed "
          "(--lines-per-second)\n",
          HumanCount(user.count).c_str(), user.uid);
    }
  }
  if (out_.lines_left_out() > lines_lost_reported_) {
    const uint64_t lost = out_.lines_left_out() - lines_lost_reported_;
    lines_lost_reported_ = out_.lines_left_out();
    if (options_.json) {
      Json line = {{"event", "lines_lost"}, {"lines", lost}};
      Print("%s\n", Dump(line).c_str());
    } else {
      Print("rocattach-watch: %s lines were lost because they were not read in time\n",
            HumanCount(lost).c_str());
    }
  }
}

void WatchConsole::SummarizeMissed(const MissedWindows& missed) {
  const auto say = [this, &missed](MissReason reason, const char* what) {
    if (missed[reason] == 0) return;
    const std::string count =
        missed[reason] == 1 ? "1 process"
                            : absl::StrCat(HumanCount(missed[reason]), " processes");
    Print("rocattach-watch: %s %s\n", count.c_str(), what);
  };
  say(MissReason::kLate,
      "started a new copy of the HSA runtime before it had a probe: recorded from a "
      "later moment on at best");
  say(MissReason::kUncertain,
      "mapped a new copy of the HSA runtime and ended before it was known whether a "
      "window was missed");
  say(MissReason::kTooManyCopies,
      "used a copy of the HSA runtime without a probe: there are too many copies "
      "(--max-libraries, --max-libraries-per-user)");
  say(MissReason::kNotProbed,
      "mapped a file that is named like the HSA runtime and cannot be probed");
}

void WatchConsole::OnLibraryChanged(const std::string& path, const std::string& why) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (options_.json) {
    const Json line = {{"event", "library_changed"}, {"path", path}, {"reason", why}};
    Print("%s\n", Dump(line).c_str());
  } else {
    ClearLiveLine();
    Print("rocattach-watch: %s %s\n", CleanText(path).c_str(), why.c_str());
  }
}

void WatchConsole::OnSessionRefused(pid_t pid, const std::string& why) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (options_.json) {
    Json line = {{"event", "session_refused"}, {"pid", pid}, {"reason", why}};
    Print("%s\n", Dump(line).c_str());
  } else {
    const std::string reason = WithoutStatusName(why);
    if (!IsFirst(absl::StrCat("session: ", reason))) {
      ++session_refusals_unsaid_;
      return;
    }
    ClearLiveLine();
    Print("rocattach-watch: process %d: session refused: %s\n", pid, reason.c_str());
  }
}

void WatchConsole::OnNotAttached(pid_t pid, const absl::Status& why) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (options_.json) {
    Json line = {{"event", "not_attached"},
                 {"pid", pid},
                 {"reason", std::string(why.message())}};
    Print("%s\n", Dump(line).c_str());
  } else {
    ClearLiveLine();
    Print("rocattach-watch: %s\n", std::string(why.message()).c_str());
  }
}

void WatchConsole::OnNotStarted(pid_t, const absl::Status& why, bool awaited) {
  if (!awaited || options_.quiet || options_.json) return;
  std::lock_guard<std::mutex> lock(mutex_);
  ClearLiveLine();
  Print("rocattach-watch: %s; waiting until it does\n",
        std::string(why.message()).c_str());
}

void WatchConsole::OnNotBelievable(const v1::Process& process, const std::string& why) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (options_.json) {
    Json line = {{"event", "not_believable"},
                 {"pid", process.pid()},
                 {"comm", process.comm()},
                 {"reason", why}};
    Print("%s\n", Dump(line).c_str());
  } else {
    ClearLiveLine();
    Print("rocattach-watch: %s reports impossible numbers and is no longer read: %s\n",
          Name(process).c_str(), why.c_str());
  }
}

void WatchConsole::OnEnd(const v1::Process& process, const v1::ProcessEnd& end,
                         const v1::LossAccount& account) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!lines_.Take(process.uid(), BootNs())) return;
  uint64_t dropped = account.dropped_ring_full() + account.dropped_collector() +
                     account.dropped_invalid() + account.dropped_inflight() +
                     account.dropped_writer();
  if (options_.json) {
    Json line = {{"event", "end"},
                 {"pid", process.pid()},
                 {"comm", process.comm()},
                 {"how", v1::ProcessEnd::How_Name(end.how())},
                 {"exit_code", end.exit_code()},
                 {"signal", end.signal()},
                 {"dispatches", account.dispatches_delivered()},
                 {"copies", account.copies_delivered()},
                 {"dropped", dropped},
                 {"untimed", account.untimed()},
                 {"unfinished", account.unfinished()},
                 {"unseen", account.packets_unseen()},
                 {"not_believable", account.not_believable()},
                 {"counted", account.counted_delivered()},
                 {"counted_dropped", account.counted_dropped()},
                 {"samples", account.samples_delivered()},
                 {"api_calls", account.api_calls_delivered()}};
    Print("%s\n", Dump(line).c_str());
    return;
  }
  if (options_.quiet && dropped + account.packets_unseen() == 0 &&
      account.not_believable().empty()) {
    return;
  }
  ClearLiveLine();
  std::string more;
  if (account.counted_seen() > 0) {
    more = absl::StrCat(", ", HumanCount(account.counted_delivered()), " measured");
  }
  absl::StrAppend(&more, LossText(dropped, account.packets_unseen()));
  if (!account.not_believable().empty()) {
    more = ", losses UNKNOWN: its numbers are impossible";
  }
  Print("rocattach-watch: %s %s: %s dispatches, %s copies%s\n", Name(process).c_str(),
        EndText(end).c_str(), HumanCount(account.dispatches_delivered()).c_str(),
        HumanCount(account.copies_delivered()).c_str(), more.c_str());
}

namespace {

Json MissedJson(const MissedWindows& missed) {
  Json json = Json::object();
  for (MissReason reason : kMissReasons) {
    json[std::string(MissReasonName(reason))] = missed[reason];
  }
  return json;
}

Json RefusalsJson(const std::vector<UserRefusals>& refusals) {
  Json all = Json::array();
  for (const UserRefusals& user : refusals) {
    all.push_back({{"uid", user.uid}, {"windows", user.windows}});
  }
  return all;
}

}  // namespace

void WatchConsole::SummarizeSession(const RunResult& result) {
  if (result.session_refused) {
    PrintError(
        "rocattach-watch: the session collected nothing: every process refused it\n");
    return;
  }
  const RunTotals& totals = result.totals;
  if (!result.session_measures || totals.attached == 0) return;
  std::vector<std::string> what;
  if (totals.measured > 0) {
    what.push_back(
        absl::StrCat("counters of ", HumanCount(totals.measured), " dispatches"));
  }
  if (totals.samples > 0) {
    what.push_back(absl::StrCat(HumanCount(totals.samples), " samples of GPUs"));
  }
  if (totals.api_calls > 0) {
    what.push_back(absl::StrCat(HumanCount(totals.api_calls), " API calls"));
  }
  if (totals.memory > 0) {
    what.push_back(
        absl::StrCat(HumanCount(totals.memory), " allocations and releases of memory"));
  }
  if (what.empty()) {
    PrintError(
        "rocattach-watch: the session collected nothing: nothing matched its filters "
        "within its periods\n");
  } else if (!options_.quiet && !options_.json) {
    Print("rocattach-watch: the session collected %s\n",
          absl::StrJoin(what, ", ").c_str());
  }
}

void WatchConsole::Summarize(const RunResult& result) {
  std::lock_guard<std::mutex> lock(mutex_);
  const RunTotals& totals = result.totals;
  ClearLiveLine();
  ReportLeftOut();
  if (session_refusals_unsaid_ > 0) {
    Print("rocattach-watch: %s more session refusals, for the same reasons\n",
          HumanCount(session_refusals_unsaid_).c_str());
  }
  SummarizeSession(result);
  if (options_.json) {
    Json line = {{"event", "summary"},
                 {"windows",
                  {{"attached", totals.attached},
                   {"passed", totals.passed},
                   {"refused", totals.refused},
                   {"missed", totals.missed},
                   {"unrelated", totals.unrelated}}},
                 {"hit_to_stopped_ns", Distribution(totals.hit_to_stopped)},
                 {"hit_to_released_ns", Distribution(totals.hit_to_released)},
                 {"dispatches", totals.dispatches},
                 {"copies", totals.copies},
                 {"counted", totals.measured},
                 {"samples", totals.samples},
                 {"api_calls", totals.api_calls},
                 {"memory_operations", totals.memory},
                 {"dropped", totals.dropped},
                 {"unseen", totals.unseen},
                 {"not_believable", totals.not_believable},
                 {"events_lost", result.kernel.lost},
                 {"claims_full", result.kernel.claims_full},
                 {"over_budget", RefusalsJson(result.refusals)},
                 {"hold_deadlines", result.kernel.deadlines},
                 {"missed_windows", MissedJson(result.missed_windows)},
                 {"files", result.files},
                 {"command_runs_on", result.command_runs_on},
                 {"output_error", std::string(result.output_status.message())}};
    Print("%s\n", Dump(line).c_str());
    return;
  }
  if (!result.output_status.ok()) {
    Print("rocattach-watch: the recording is incomplete: %s\n",
          std::string(result.output_status.message()).c_str());
  }
  uint64_t lost_windows = result.kernel.lost + result.kernel.claims_full;
  if (lost_windows > 0) {
    Print("rocattach-watch: %s kernel events were lost: windows may have been missed\n",
          HumanCount(lost_windows).c_str());
  }
  SummarizeMissed(result.missed_windows);
  if (totals.not_believable > 0) {
    Print(
        "rocattach-watch: %s reported impossible numbers, so the losses are unknown\n",
        totals.not_believable == 1
            ? "1 process"
            : absl::StrCat(HumanCount(totals.not_believable), " processes").c_str());
  }
  for (const UserRefusals& user : result.refusals) {
    Print(
        "rocattach-watch: %s windows of %s were refused: over the user's budget "
        "(--windows-per-second, --processes-per-user)\n",
        HumanCount(user.windows).c_str(), BudgetUser(user.uid).c_str());
  }
  if (options_.quiet) return;
  Print(
      "rocattach-watch: %s attached, %s passed, %s refused, %s missed; "
      "%s dispatches, %s copies%s\n",
      HumanCount(totals.attached).c_str(), HumanCount(totals.passed).c_str(),
      HumanCount(totals.refused).c_str(), HumanCount(totals.missed).c_str(),
      HumanCount(totals.dispatches).c_str(), HumanCount(totals.copies).c_str(),
      totals.dropped + totals.unseen == 0
          ? ", 0 lost"
          : LossText(totals.dropped, totals.unseen).c_str());
  if (passed_unsaid_ > 0) {
    Print("rocattach-watch: %s of those that passed are not named: same reasons\n",
          HumanCount(passed_unsaid_).c_str());
  }
  if (totals.unrelated > 0) {
    Print("rocattach-watch: %s other GPU processes started meanwhile\n",
          HumanCount(totals.unrelated).c_str());
  }
  if (totals.hit_to_released.count() > 0) {
    Print("rocattach-watch: held %s\n",
          DistributionText(totals.hit_to_released).c_str());
  }
  for (const std::string& file : result.files) {
    Print("rocattach-watch: wrote %s\n", file.c_str());
  }
  if (result.command_runs_on) {
    Print(
        "rocattach-watch: --duration-msec elapsed; waiting for the command, which "
        "continues unrecorded\n");
  }
}

}  // namespace rocattach
