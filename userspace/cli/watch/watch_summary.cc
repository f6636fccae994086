#include "userspace/cli/watch/watch_summary.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "userspace/base/human.h"
#include "userspace/base/json.h"
#include "userspace/cli/watch/watch_words.h"

namespace rocattach {
namespace {

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

void WatchSummary::PrintMissed(const MissedWindows& missed) const {
  constexpr std::pair<MissReason, const char*> kTexts[] = {
      {MissReason::kLate,
       "started a new copy of the HSA runtime before it had a probe: recorded from a "
       "later moment on at best"},
      {MissReason::kUncertain,
       "mapped a new copy of the HSA runtime and ended before it was known whether a "
       "window was missed"},
      {MissReason::kTooManyCopies,
       "used a copy of the HSA runtime without a probe: there are too many copies "
       "(--max-libraries, --max-libraries-per-user)"},
      {MissReason::kNotProbed,
       "mapped a file that is named like the HSA runtime and cannot be probed"},
      {MissReason::kUnknownCopy,
       "used the kernel driver without a known copy of the HSA runtime: it is linked "
       "statically, or has another name (--library)"}};
  for (const auto& [reason, text] : kTexts) {
    const uint64_t count = missed[reason];
    if (count == 0) continue;
    const std::string processes =
        count == 1 ? "1 process" : absl::StrCat(HumanCount(count), " processes");
    out_->Say(LogLevel::kWarning, "missed_windows", absl::StrCat(processes, " ", text));
  }
}

void WatchSummary::PrintSession(const RunResult& result) const {
  if (result.session_refused) {
    out_->SayError("session_empty",
                   "the session collected nothing: every process refused it");
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
  if (result.session_too_late) {
    out_->SayError(
        "session_empty",
        absl::StrCat("the session collected nothing: when it was in force, ",
                     HumanCount(totals.before_session),
                     " dispatches had been made already. Let new processes wait "
                     "longer for it: --session-wait-msec"));
  } else if (what.empty()) {
    out_->SayError(
        "session_empty",
        "the session collected nothing: nothing matched its filters within its "
        "periods");
  } else if (!options_.quiet && !options_.json) {
    out_->Say(LogLevel::kInfo, "session_collected",
              absl::StrCat("the session collected ", absl::StrJoin(what, ", ")));
  }
}

void WatchSummary::PrintJson(const RunResult& result) const {
  const RunTotals& totals = result.totals;
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
               {"sampled_out", totals.sampled_out},
               {"unseen", totals.unseen},
               {"not_believable", totals.not_believable},
               {"unseen_work", totals.unseen_work},
               {"events_lost", result.kernel.lost},
               {"claims_full", result.kernel.claims_full},
               {"over_budget", RefusalsJson(result.refusals)},
               {"hold_deadlines", result.kernel.deadlines},
               {"missed_windows", MissedJson(result.missed_windows)},
               {"files", result.files},
               {"command_runs_on", result.command_runs_on},
               {"output_error", std::string(result.output_status.message())}};
  out_->AddEvent(line);
}

void WatchSummary::PrintLosses(const RunResult& result) const {
  if (!result.output_status.ok()) {
    out_->Say(
        LogLevel::kError, "output_incomplete",
        absl::StrCat("the recording is incomplete: ", result.output_status.message()));
  }
  const uint64_t lost_windows = result.kernel.lost + result.kernel.claims_full;
  if (lost_windows > 0) {
    out_->Say(LogLevel::kWarning, "events_lost",
              absl::StrCat(HumanCount(lost_windows),
                           " kernel events were lost: windows may have been missed"));
  }
  PrintMissed(result.missed_windows);
  if (const uint64_t count = result.totals.not_believable; count > 0) {
    out_->Say(LogLevel::kWarning, "not_believable",
              absl::StrCat(count == 1 ? "1 process"
                                      : absl::StrCat(HumanCount(count), " processes"),
                           " reported impossible numbers, so the losses are unknown"));
  }
  if (const uint64_t count = result.totals.unseen_work; count > 0) {
    out_->Say(LogLevel::kWarning, "unseen_work",
              absl::StrCat(count == 1 ? "1 process"
                                      : absl::StrCat(HumanCount(count), " processes"),
                           " used GPUs in ways that are not recorded"));
  }
  for (const UserRefusals& user : result.refusals) {
    out_->Say({.level = LogLevel::kWarning,
               .event = "over_budget",
               .message = absl::StrCat(
                   HumanCount(user.windows), " windows of ", BudgetUser(user.uid),
                   " were refused: over the user's budget (--windows-per-second, "
                   "--processes-per-user)"),
               .uid = user.uid});
  }
}

void WatchSummary::Print(const RunResult& result) const {
  if (unnamed_.session_refused > 0) {
    out_->Say(LogLevel::kInfo, "session_refused",
              absl::StrCat(HumanCount(unnamed_.session_refused),
                           " more session refusals, for the same reasons"));
  }
  PrintSession(result);
  if (options_.json) return PrintJson(result);
  PrintLosses(result);
  if (!options_.quiet) PrintTotals(result);
}

void WatchSummary::PrintTotals(const RunResult& result) const {
  const RunTotals& totals = result.totals;
  out_->Say(
      LogLevel::kInfo, "summary",
      absl::StrCat(
          HumanCount(totals.attached), " attached, ", HumanCount(totals.passed),
          " passed, ", HumanCount(totals.refused), " refused, ",
          HumanCount(totals.missed), " missed; ", HumanCount(totals.dispatches),
          " dispatches, ", HumanCount(totals.copies), " copies",
          totals.sampled_out == 0 ? ""
                                  : absl::StrCat(", ", HumanCount(totals.sampled_out),
                                                 " dispatches sampled out"),
          totals.dropped + totals.unseen == 0
              ? ", 0 lost"
              : WatchLossText(totals.dropped, totals.unseen)));
  if (unnamed_.refused > 0) {
    out_->Say(LogLevel::kInfo, "refused",
              absl::StrCat(HumanCount(unnamed_.refused),
                           " of those that were refused are not named: same reasons"));
  }
  if (unnamed_.passed > 0) {
    out_->Say(LogLevel::kInfo, "passed",
              absl::StrCat(HumanCount(unnamed_.passed),
                           " of those that passed are not named: same reasons"));
  }
  if (totals.unrelated > 0) {
    out_->Say(LogLevel::kInfo, "unrelated",
              absl::StrCat(HumanCount(totals.unrelated),
                           " other GPU processes started meanwhile"));
  }
  if (totals.hit_to_released.count() > 0) {
    out_->Say(LogLevel::kInfo, "held",
              absl::StrCat("held ", DistributionText(totals.hit_to_released)));
  }
  for (const std::string& file : result.files) {
    out_->Say(LogLevel::kInfo, "wrote", absl::StrCat("wrote ", file));
  }
  if (result.command_runs_on) {
    out_->Say(
        LogLevel::kInfo, "command_runs_on",
        "--duration-msec elapsed; waiting for the command, which continues unrecorded");
  }
}

}  // namespace rocattach
