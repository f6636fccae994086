#include "userspace/report/report_text.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "userspace/base/clock.h"
#include "userspace/base/human.h"
#include "userspace/report/report_page.h"
#include "userspace/report/report_process.h"
#include "userspace/report/report_words.h"
#include "userspace/report/text.h"
#include "userspace/stream/merged_clock.h"

namespace rocattach {
namespace {

constexpr size_t kMaxShownDamages = 10;

// "3 attached, 1 missed".
template <typename Processes>
std::string Verdicts(const Processes& processes) {
  std::map<int, uint64_t> states;
  for (const auto& process : processes) {
    if (const v1::WindowEvent* verdict = process->Verdict()) ++states[verdict->state()];
  }
  std::vector<std::string> words;
  words.reserve(states.size());
  for (const auto& [state, count] : states) {
    words.push_back(absl::StrCat(HumanCount(count), " ",
                                 ShortName(static_cast<v1::WindowState>(state))));
  }
  return absl::StrJoin(words, ", ");
}

// Each process with a problem, and a description of the problem.
std::vector<std::string> ProblemsOf(const RecordingReport& recording) {
  std::vector<std::string> problems;
  for (const auto& process : recording.processes) {
    const std::string problem = ProblemOf(recording, *process);
    if (!problem.empty()) {
      problems.push_back(absl::StrCat(ProcessName(*process), ": ", problem));
    }
  }
  return problems;
}

std::string Totals(const RecordingReport& recording, bool has_problems,
                   const ReportPage& page) {
  uint64_t dispatches = 0, copies = 0;
  for (const auto& process : recording.processes) {
    dispatches += process->dispatches;
    copies += process->copies_count;
  }
  const uint64_t lost = recording.Lost();
  std::string text = Plural(recording.processes.size(), "process", "processes");
  const std::string verdicts = Verdicts(recording.processes);
  if (!verdicts.empty()) absl::StrAppend(&text, " (", verdicts, ")");
  absl::StrAppend(&text, ", ", Plural(dispatches, "dispatch", "dispatches"), ", ",
                  Plural(copies, "copy", "copies"), ", ");
  if (!recording.WhyIncomplete().empty()) {
    absl::StrAppend(&text, page.Red(),
                    lost == 0 ? "what is lost is not known"
                              : absl::StrCat("at least ", HumanCount(lost), " lost"),
                    page.Off());
  } else if (lost > 0) {
    absl::StrAppend(&text, page.Red(), HumanCount(lost), " lost", page.Off());
  } else if (has_problems) {
    absl::StrAppend(&text, page.Red(), "with the losses below", page.Off());
  } else {
    absl::StrAppend(&text, page.Green(), "nothing lost", page.Off());
  }
  return text;
}

// Problems come first. The processes' own parts of the report give details.
void Problems(const std::vector<std::string>& problems, ReportPage* page) {
  constexpr size_t kShown = 10;
  for (size_t i = 0; i < problems.size() && i < kShown; ++i) {
    page->Line("problem", problems[i], page->Red());
  }
  if (problems.size() > kShown) {
    page->Line(
        "", absl::StrCat("… and with ", Plural(problems.size() - kShown, "more process",
                                               "more processes")));
  }
}

// Processes with a smaller rank are shown first: failures, then those with operations.
int Rank(const ProcessReport& process) {
  const v1::WindowEvent* verdict = process.Verdict();
  if (process.Lost() > 0 || process.Imbalance() != 0 || process.NotBelievable() ||
      process.LacksAccount() || process.DiedDuringAttach()) {
    return 0;
  }
  if (verdict == nullptr || verdict->state() == v1::WINDOW_STATE_REFUSED ||
      verdict->state() == v1::WINDOW_STATE_MISSED) {
    return 1;
  }
  return process.dispatches + process.copies_count > 0 ? 2 : 3;
}

void Processes(const RecordingReport& recording, const TextReportOptions& options,
               ReportPage* page) {
  const size_t limit = options.limit;
  const KernelGroups none;
  const KernelGroups& groups = options.groups != nullptr ? *options.groups : none;
  const auto& all = recording.processes;
  std::vector<size_t> chosen(all.size());
  std::iota(chosen.begin(), chosen.end(), 0);
  std::vector<const ProcessReport*> left_out;
  if (limit != 0 && limit < all.size()) {
    std::stable_sort(chosen.begin(), chosen.end(),
                     [&](size_t a, size_t b) { return Rank(*all[a]) < Rank(*all[b]); });
    for (size_t i = limit; i < chosen.size(); ++i) {
      left_out.push_back(all[chosen[i]].get());
    }
    chosen.resize(limit);
    std::sort(chosen.begin(), chosen.end());
  }
  for (size_t i : chosen) WriteProcess(recording, *all[i], groups, page);
  if (left_out.empty()) return;
  uint64_t dispatches = 0, copies = 0;
  for (const ProcessReport* process : left_out) {
    dispatches += process->dispatches;
    copies += process->copies_count;
  }
  page->Gap();
  page->Raw(absl::StrCat(
      "… and ", Plural(left_out.size(), "more process", "more processes"), " (",
      Verdicts(left_out), "), ", Plural(dispatches, "dispatch", "dispatches"), ", ",
      Plural(copies, "copy", "copies"), " (--limit 0 shows all)\n"));
}

void Quantiles(const char* key, const v1::Quantiles& quantiles, ReportPage* page) {
  if (quantiles.count() == 0) return;
  page->Line(key, absl::StrCat("median ", HumanDuration(quantiles.median_ns()),
                               ", p99 ", HumanDuration(quantiles.p99_ns()), ", max ",
                               HumanDuration(quantiles.max_ns()), " (",
                               Plural(quantiles.count(), "window", "windows"), ")"));
}

void Summary(const v1::WatcherSummary& summary, ReportPage* page) {
  page->Gap();
  page->Raw(absl::StrCat(page->Bold(), "Watcher", page->Off(), "\n"));
  page->Line("windows",
             absl::StrCat(HumanCount(summary.windows_attached()), " attached, ",
                          HumanCount(summary.windows_passed()), " passed, ",
                          HumanCount(summary.windows_refused()), " refused, ",
                          HumanCount(summary.windows_missed()), " missed"),
             summary.windows_missed() > 0 ? page->Red() : "");
  if (summary.windows_unrelated() > 0) {
    page->Line("others", absl::StrCat(Plural(summary.windows_unrelated(), "GPU process",
                                             "GPU processes"),
                                      " that the command did not start, not attached"));
  }
  if (summary.windows_over_budget() > 0) {
    page->Line("over budget",
               absl::StrCat(Plural(summary.windows_over_budget(), "window", "windows"),
                            " refused: a user's processes opened too many"),
               page->Red());
  }
  Quantiles("held", summary.hit_to_released(), page);
  Quantiles("in probe", summary.hold(), page);
  Quantiles("stopped", summary.hit_to_stopped(), page);
  if (summary.events_lost() + summary.claims_full() + summary.hold_deadlines() > 0) {
    page->Line(
        "trouble",
        absl::StrCat(HumanCount(summary.events_lost()), " events lost, ",
                     HumanCount(summary.claims_full()), " windows without room, ",
                     HumanCount(summary.hold_deadlines()), " holds past the deadline"),
        page->Red());
  }
  std::string cost = absl::StrCat(
      "ran for ", HumanDuration(ElapsedNs(summary.begin_ns(), summary.end_ns())));
  if (summary.recorder_cpu_ns() > 0) {
    absl::StrAppend(&cost, ", used ", HumanDuration(summary.recorder_cpu_ns()),
                    " of CPU time");
  }
  if (summary.end_ns() > summary.begin_ns()) page->Line("cost", cost);
}

// Prints what was lost before the recording was recovered.
void Recovered(const v1::Recovery& lost, ReportPage* page) {
  std::string text =
      absl::StrCat("Recovered from a damaged file: ", HumanCount(lost.frames_missing()),
                   " frames were missing, ", HumanCount(lost.bytes_skipped()),
                   " bytes were in no intact frame");
  if (lost.frames_left_out() > 0) {
    absl::StrAppend(&text, ", ", HumanCount(lost.frames_left_out()),
                    " could not be decoded");
  }
  if (lost.records_lost() > 0) {
    absl::StrAppend(&text, "; at least ",
                    Plural(lost.records_lost(), "record was", "records were"), " lost");
  }
  if (lost.end_made()) absl::StrAppend(&text, "; it had no end");
  page->Raw(absl::StrCat(LostInRecovery(lost) ? page->Red() : page->Yellow(), text, ".",
                         page->Off(), "\n"));
}

// Prints how precisely its times compare with those of the recordings merged with it.
void Merged(const v1::StreamHeader& header, ReportPage* page) {
  const std::optional<MergedClock> merged = MergedClockOf(header);
  if (!merged.has_value() || merged->offset_ns == 0) return;
  const auto offset = static_cast<uint64_t>(merged->offset_ns);
  page->Line("merged",
             absl::StrCat("times shifted by ", merged->offset_ns < 0 ? "-" : "+",
                          HumanDuration(merged->offset_ns < 0 ? 0 - offset : offset),
                          ", at most ", HumanDuration(merged->error_ns), " wrong"));
}

void Recording(const RecordingReport& recording, const TextReportOptions& options,
               ReportPage* page) {
  page->Gap();
  const std::vector<std::string> incomplete = recording.WhyIncomplete();
  if (!incomplete.empty()) {
    page->Raw(absl::StrCat(page->Red(), "INCOMPLETE: ", absl::StrJoin(incomplete, "; "),
                           ".", page->Off(), "\n"));
  }
  std::string title = "Recording without its first frame";
  if (recording.header) {
    const v1::StreamHeader& header = *recording.header;
    title = absl::StrCat("Recorded ",
                         WallTime(header.clock(), header.clock().boottime_ns()), " on ",
                         TerminalSafe(header.hostname()), " (Linux ",
                         TerminalSafe(header.kernel_release()), ", rocattach-watch ",
                         TerminalSafe(header.producer_version()), ")");
  }
  const std::vector<std::string> problems = ProblemsOf(recording);
  page->Raw(absl::StrCat(page->Bold(), title, page->Off(), "\n",
                         Totals(recording, !problems.empty(), *page), "\n"));
  if (recording.header) Merged(*recording.header, page);
  Problems(problems, page);
  if (!recording.from_beginning) {
    page->Raw(absl::StrCat(page->Yellow(),
                           "Joined in the middle: what was recorded before is ",
                           "not counted.", page->Off(), "\n"));
  }
  if (recording.end && recording.end->has_recovery()) {
    Recovered(recording.end->recovery(), page);
  }
  Processes(recording, options, page);
  if (recording.summary) Summary(*recording.summary, page);
}

void ReaderDamage(const Report& report, ReportPage* page) {
  const ReadStats& stats = report.stats;
  if (report.entries_omitted > 0) {
    page->Raw(absl::StrCat(
        page->Yellow(),
        "The report is incomplete: ", HumanCount(report.entries_omitted),
        " entries are beyond what it keeps in memory.", page->Off(), "\n"));
  }
  if (!stats.damaged() && stats.unknown_frames == 0) return;
  page->Raw(
      absl::StrCat(stats.damaged() ? page->Red() : page->Yellow(),
                   stats.damaged() ? "The stream is damaged" : "The stream is newer",
                   page->Off(), ": ", Plural(stats.frames, "frame", "frames"),
                   " intact, ", HumanCount(stats.missing_frames), " missing, ",
                   HumanCount(stats.undecodable_frames), " undecodable, ",
                   HumanCount(stats.unknown_frames), " unknown; ",
                   HumanCount(stats.skipped_bytes), " bytes skipped",
                   stats.lost_records == 0
                       ? ""
                       : absl::StrCat("; at least ", HumanCount(stats.lost_records),
                                      " records lost"),
                   "\n"));
  size_t shown = 0;
  for (const Damage& damage : report.damages) {
    if (damage.kind == Damage::Kind::kNoEnd ||
        damage.kind == Damage::Kind::kNoBeginning) {
      continue;
    }
    if (++shown > kMaxShownDamages) {
      page->Raw("  … and more (rocattach dump --type damage)\n");
      break;
    }
    page->Raw(absl::StrCat("  ", damage.what, "\n"));
  }
}

}  // namespace

std::string FormatReport(const Report& report, const TextReportOptions& options) {
  ReportPage page(options);
  ReaderDamage(report, &page);
  for (const RecordingReport& recording : report.recordings) {
    Recording(recording, options, &page);
  }
  return page.Finish();
}

}  // namespace rocattach
