#include "userspace/cli/attach_console.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "userspace/base/clock.h"
#include "userspace/base/human.h"
#include "userspace/base/json.h"
#include "userspace/cli/attach_words.h"
#include "userspace/record/drain/dictionary.h"
#include "userspace/record/output/output_pause.h"
#include "userspace/record/settle_target.h"
#include "userspace/watch/windows/target_stderr.h"

namespace rocattach {
namespace {

constexpr uint64_t kSecondNs = 1'000'000'000;
// Time for a late attach to a process that could not be entered at its window.
constexpr uint64_t kRetryNs = 3 * kSecondNs;

}  // namespace

void AttachConsole::Tick(const RunTotals& totals) {
  absl::MutexLock lock(&mutex_);
  PrintReady();
  if (!terminal_ || options_.json || options_.quiet ||
      options_.log_format == LogFormat::kJson) {
    return;
  }
  const size_t awaited = Awaited();
  if (awaited != 0) {
    out_.ShowLive(absl::StrCat(
        "rocattach: waiting for ", awaited, " ", awaited == 1 ? "process" : "processes",
        " to use a GPU, ",
        HumanDuration((BootNs() - totals.begin_ns) / kSecondNs * kSecondNs)));
  } else {
    out_.ShowLive(absl::StrCat(
        "rocattach: ", HumanCount(totals.dispatches), " dispatches, ",
        HumanCount(totals.copies), " copies",
        totals.dropped == 0 ? ""
                            : absl::StrCat(", ", HumanCount(totals.dropped), " lost")));
  }
}

void AttachConsole::SetSessionAnswers(uint64_t answers) {
  absl::MutexLock lock(&mutex_);
  session_answers_ = answers;
}

void AttachConsole::Expect(const std::vector<ProcessId>& processes) {
  absl::MutexLock lock(&mutex_);
  for (const ProcessId& process : processes) results_[process.pid];
}

void AttachConsole::ReportFailure(const absl::Status& why) {
  absl::MutexLock lock(&mutex_);
  if (options_.json) {
    out_.AddEvent(Json{{"event", "failed"},
                       {"reason", ReasonOf(why)},
                       {"detail", std::string(why.message())}});
  } else {
    out_.Say({.level = LogLevel::kError,
              .event = "failed",
              .message = std::string(why.message())});
  }
}

void AttachConsole::PrintReady() {
  if (!options_.json || ready_printed_ || !Decided()) return;
  if (session_answers_ < attached_) return;
  ready_printed_ = true;
  out_.AddEvent(Json{{"event", "ready"}});
}

bool AttachConsole::decided() const {
  absl::MutexLock lock(&mutex_);
  return Decided();
}

bool AttachConsole::Decided() const {
  if (!running_done_) return false;
  for (const auto& [pid, result] : results_) {
    if (result.attached) continue;
    if (result.problem.empty() || BootNs() < result.retry_until_ns) return false;
  }
  return true;
}

bool AttachConsole::any_attached() const {
  absl::MutexLock lock(&mutex_);
  for (const auto& [pid, result] : results_) {
    if (result.attached && !result.ended) return true;
  }
  return false;
}

void AttachConsole::Announce(const ProcessResult& result, absl::string_view line) {
  const absl::Status status = WriteToStderrOf(result.id, line);
  if (status.ok()) return;
  if (options_.json) {
    out_.AddEvent(Json{{"event", "not_announced"},
                       {"pid", result.id.pid},
                       {"detail", std::string(status.message())}});
  } else {
    out_.Say({.level = LogLevel::kWarning,
              .event = "not_announced",
              .message = std::string(status.message()),
              .pid = result.id.pid});
  }
}

void AttachConsole::AnnounceAttach(ProcessResult* result) {
  if (!options_.announce || !result->attached || result->announced) return;
  result->announced = true;
  Announce(*result, "rocattach: attached to this process");
}

void AttachConsole::AnnounceDetach(const ProcessResult& result) {
  const bool runs = !result.ended || result.end.how() == v1::ProcessEnd::STILL_RUNNING;
  if (result.announced && runs) {
    Announce(result, "rocattach: detached from this process");
  }
}

ProcessResult& AttachConsole::Current(pid_t pid) {
  ProcessResult& result = results_[pid];
  if (result.ended) {
    former_.emplace_back(pid, std::move(result));
    result = ProcessResult();
  }
  return result;
}

void AttachConsole::OnVerdict(const v1::Process& process,
                              const v1::WindowEvent& verdict) {
  absl::MutexLock lock(&mutex_);
  const auto pid = static_cast<pid_t>(process.pid());
  ProcessResult& result = Current(pid);
  result.name = CleanText(process.comm());
  result.id = {pid, process.start_ticks()};
  result.window = verdict;
  result.attached = verdict.state() == v1::WINDOW_STATE_ATTACHED;
  if (result.attached) {
    ++attached_;
    result.problem.clear();  // left by an earlier attempt
    result.reason.clear();
  } else {
    result.reason = ReasonName(verdict.reason());
    result.problem = verdict.detail().empty() ? "not attached" : verdict.detail();
    result.passed =
        verdict.state() == v1::WINDOW_STATE_PASSED && options_.named.count(pid) == 0;
    // Only once for each process.
    if (MayBeEnteredLater(verdict) && result.retry_until_ns == 0) {
      result.retry_until_ns = BootNs() + kRetryNs;
    }
  }
  if (options_.json) {
    Json line = {{"event", result.attached ? "attached" : "not_attached"},
                 {"pid", pid},
                 {"comm", process.comm()},
                 {"reason", ReasonName(verdict.reason())},
                 {"detail", verdict.detail()},
                 {"retryable", verdict.retryable()},
                 {"target_modified", verdict.target_modified()}};
    if (result.attached) {
      line["entry"] = EntryOf(verdict);
      line["tid"] = StoppedThread(verdict);
      line["stopped_ns"] = StoppedNs(verdict);
    }
    out_.AddEvent(line);
    AnnounceAttach(&result);
    return PrintReady();
  }
  if (!result.attached) {
    const std::optional<std::string> why = said_.TextToSay(pid, result.problem);
    if (!why.has_value()) return;
    return out_.Say({.level = result.passed ? LogLevel::kInfo : LogLevel::kWarning,
                     .event = "not_attached",
                     .message = absl::StrCat("process ", pid, " (", result.name,
                                             ") was not attached to: ", *why),
                     .pid = pid,
                     .comm = result.name,
                     .reason = ReasonName(verdict.reason())});
  }
  AnnounceAttach(&result);
  if (options_.quiet) return;
  std::string text = absl::StrCat("attached to process ", pid, " (", result.name, "), ",
                                  StopText(verdict));
  if (!verdict.detail().empty()) absl::StrAppend(&text, "; ", verdict.detail());
  out_.Say({.event = "attached",
            .message = std::move(text),
            .pid = pid,
            .comm = result.name});
}

size_t AttachConsole::Awaited() const {
  return static_cast<size_t>(
      std::count_if(results_.begin(), results_.end(), [](const auto& entry) {
        const ProcessResult& result = entry.second;
        return result.awaited && !result.attached && result.problem.empty();
      }));
}

void AttachConsole::GiveUpAwaited() {
  for (const auto& [pid, result] : results_) {
    if (!result.awaited || result.attached || !result.problem.empty()) continue;
    PrintNotAttached(
        pid, absl::CancelledError(absl::StrCat("the wait for process ", pid,
                                               " was ended: ", result.awaited_for,
                                               "; it runs on as before")));
  }
}

void AttachConsole::OnNotStarted(pid_t pid, const absl::Status& why, bool awaited) {
  absl::MutexLock lock(&mutex_);
  const std::string detail(why.message());
  if (awaited) {
    results_[pid].awaited = true;
    results_[pid].awaited_for = detail;
  } else {
    // Not a failure: a process of a tree need not use a GPU.
    results_.erase(pid);
  }
  if (absl::IsNotFound(why)) return;
  if (options_.json) {
    out_.AddEvent(Json{{"event", awaited ? "waiting" : "not_attached"},
                       {"pid", pid},
                       {"reason", ReasonOf(why)},
                       {"detail", detail},
                       {"followed", true}});
  } else if (!options_.quiet) {
    out_.Say({.event = "not_started",
              .message = absl::StrCat(
                  detail, absl::IsAborted(why)
                              ? "; trying again until one can, or Ctrl-C is pressed"
                          : awaited ? "; waiting until it does, or Ctrl-C is pressed"
                                    : "; it is attached to when it does"),
              .pid = pid});
  }
}

void AttachConsole::OnNotAttached(pid_t pid, const absl::Status& why) {
  absl::MutexLock lock(&mutex_);
  PrintNotAttached(pid, why);
}

void AttachConsole::PrintNotAttached(pid_t pid, const absl::Status& why) {
  const std::string detail(why.message());
  results_[pid].problem = detail;
  results_[pid].reason = ReasonOf(why);
  if (options_.json) {
    out_.AddEvent(Json{{"event", "not_attached"},
                       {"pid", pid},
                       {"reason", ReasonOf(why)},
                       {"detail", detail}});
  } else if (said_.TextToSay(pid, detail).has_value()) {
    out_.Say({.level = LogLevel::kWarning,
              .event = "not_attached",
              .message = detail,
              .pid = pid,
              .reason = ReasonOf(why)});
  }
}

void AttachConsole::OnRunningDone() {
  absl::MutexLock lock(&mutex_);
  running_done_ = true;
  PrintReady();
}

void AttachConsole::OnEnd(const v1::Process& process, const v1::ProcessEnd& end,
                          const v1::LossAccount& account) {
  absl::MutexLock lock(&mutex_);
  ProcessResult& result = results_[static_cast<pid_t>(process.pid())];
  result.ended = true;
  result.end = end;
  result.account = account;
  if (options_.quiet || options_.json || end.how() == v1::ProcessEnd::STILL_RUNNING) {
    return;
  }
  const auto pid = static_cast<pid_t>(process.pid());
  out_.Say({.event = "end",
            .message = absl::StrCat("process ", pid, " (", result.name, ") has ended"),
            .pid = pid,
            .comm = result.name});
}

void AttachConsole::OnNotBelievable(const v1::Process& process,
                                    const std::string& why) {
  absl::MutexLock lock(&mutex_);
  results_[static_cast<pid_t>(process.pid())].problem =
      absl::StrCat("reports impossible numbers and is no longer read: ", why);
}

void AttachConsole::OnUnseenWork(const v1::Process& process, const std::string& why) {
  absl::MutexLock lock(&mutex_);
  results_[static_cast<pid_t>(process.pid())].problem =
      absl::StrCat("uses GPUs in a way that is not recorded: ", why);
}

void AttachConsole::OnRecordingPaused(const absl::Status& why) {
  absl::MutexLock lock(&mutex_);
  if (options_.json) {
    out_.AddEvent(Json{{"event", "recording_paused"}, {"reason", why.message()}});
  } else {
    out_.Say({.level = LogLevel::kError,
              .event = "recording_paused",
              .message = PausedText(why)});
  }
}

void AttachConsole::OnRecordingResumed(uint64_t records_lost) {
  absl::MutexLock lock(&mutex_);
  if (options_.json) {
    out_.AddEvent(Json{{"event", "recording_resumed"}, {"records_lost", records_lost}});
  } else {
    out_.Say({.event = "recording_resumed",
              .message = absl::StrCat("recording goes on; ", HumanCount(records_lost),
                                      " records were lost")});
  }
}

void AttachConsole::OnSessionRefused(pid_t pid, const std::string& why) {
  absl::MutexLock lock(&mutex_);
  const std::string problem = absl::StrCat("the session was refused: ", why);
  results_[pid].problem = problem;
  results_[pid].missing = {{"what the session was to record", why}};
  if (options_.json) {
    out_.AddEvent(Json{{"event", "session_refused"}, {"pid", pid}, {"reason", why}});
  } else if (const auto text = said_.TextToSay(pid, why); text.has_value()) {
    out_.Say({.level = LogLevel::kWarning,
              .event = "session_refused",
              .message = absl::StrCat("process ", pid, ": session refused: ", *text),
              .pid = pid});
  }
  results_[pid].problem_said = !options_.json;
}

void AttachConsole::OnSessionLeftOut(pid_t pid, const std::vector<LeftOut>& left_out) {
  absl::MutexLock lock(&mutex_);
  results_[pid].missing = left_out;
  if (options_.json) {
    out_.AddEvent(
        Json{{"event", "left_out"}, {"pid", pid}, {"missing", MissingJson(left_out)}});
    return;
  }
  for (const LeftOut& one : ByReason(left_out)) {
    const auto text = said_.TextToSay(pid, one.Text());
    if (!text.has_value()) continue;
    out_.Say({.level = LogLevel::kWarning,
              .event = "session_left_out",
              .message = absl::StrCat("process ", pid, ": recorded ", *text),
              .pid = pid});
  }
}

void AttachConsole::OnPeriodsSkipped(pid_t pid, uint64_t periods,
                                     const std::string& text) {
  absl::MutexLock lock(&mutex_);
  if (options_.json) {
    out_.AddEvent(Json{{"event", "periods_skipped"},
                       {"pid", pid},
                       {"periods", periods},
                       {"reason", text}});
  } else {
    out_.AddLine(absl::StrCat("rocattach: process ", pid, ": ", text));
  }
}

void AttachConsole::OnLibraryChanged(const std::string& path, const std::string& why) {
  absl::MutexLock lock(&mutex_);
  if (!options_.json) {
    out_.Say({.level = LogLevel::kWarning,
              .event = "library_changed",
              .message = absl::StrCat(CleanText(path), " ", why)});
  }
}

AttachResult AttachConsole::SummarizeOne(pid_t pid, const ProcessResult& result) {
  const ProcessOutcome outcome = OutcomeOf(result, options_.recording);
  if (options_.json) {
    out_.AddEvent(ResultJson(pid, result, outcome));
    return outcome.result;
  }
  if (!result.attached) return outcome.result;  // already printed
  if (!options_.quiet || outcome.result != AttachResult::kRecorded) {
    out_.Say({.level = outcome.result == AttachResult::kNotRecorded ? LogLevel::kWarning
                                                                    : LogLevel::kInfo,
              .event = "result",
              .message = ResultText(pid, result, options_.recording),
              .pid = pid,
              .comm = result.name});
  }
  return outcome.result;
}

AttachResult AttachConsole::SummarizeAll() {
  bool all_recorded = true, any_recorded = false;
  AttachResult outcome = AttachResult::kRecorded;
  const auto add = [&](pid_t pid, AttachResult one) {
    if (one == AttachResult::kNotRecorded) outcome = one;
    any_recorded |= one == AttachResult::kRecorded;
    all_recorded &= one == AttachResult::kRecorded || options_.named.count(pid) == 0;
  };
  for (const auto& [pid, process] : former_) add(pid, SummarizeOne(pid, process));
  for (const auto& [pid, process] : results_) add(pid, SummarizeOne(pid, process));
  if (results_.empty()) return AttachResult::kNotRecorded;
  if (outcome == AttachResult::kNotRecorded) return outcome;
  // A process that runs another program has one result for each.
  const bool one_is_enough = options_.children || !former_.empty();
  return one_is_enough
             ? (any_recorded ? AttachResult::kRecorded : AttachResult::kNothingHappened)
         : all_recorded ? AttachResult::kRecorded
                        : AttachResult::kNothingHappened;
}

void AttachConsole::SayFiles(const std::vector<std::string>& files) {
  const auto attached = [](const auto& entry) { return entry.second.attached; };
  const bool any = std::any_of(results_.begin(), results_.end(), attached) ||
                   std::any_of(former_.begin(), former_.end(), attached);
  for (const std::string& file : files) {
    out_.Say({.event = "wrote",
              .message = absl::StrCat(
                  any ? "recorded in " : "nothing was recorded; the verdicts are in ",
                  file, "; read it with rocattach report ", file)});
  }
}

AttachResult AttachConsole::Summarize(const RunResult& result) {
  absl::MutexLock lock(&mutex_);
  GiveUpAwaited();
  for (const auto& [pid, process] : results_) AnnounceDetach(process);
  AttachResult outcome = SummarizeAll();
  if (!result.output_status.ok()) outcome = AttachResult::kNotRecorded;
  if (results_.empty() && !options_.json) {
    out_.Say({.level = LogLevel::kWarning,
              .event = "summary",
              .message = "no process has used a GPU"});
  }
  if (!result.output_status.ok() && !options_.json) {
    out_.Say({.level = LogLevel::kError,
              .event = "output_incomplete",
              .message = absl::StrCat("the output is incomplete: ",
                                      result.output_status.message())});
  }
  if (!options_.json && !options_.quiet) SayFiles(result.files);
  return outcome;
}

void AttachConsole::PrintEnd(const RunResult& result, AttachResult outcome,
                             const absl::Status& converted) {
  if (!options_.json) return;
  absl::MutexLock lock(&mutex_);
  absl::Status output = result.output_status;
  output.Update(converted);
  // A recording in which nothing happened is complete.
  Json line = {{"event", "end"},
               {"complete", outcome != AttachResult::kNotRecorded && converted.ok()},
               {"files", result.files}};
  if (!output.ok()) line["output_error"] = std::string(output.message());
  out_.AddEvent(line);
}

}  // namespace rocattach
