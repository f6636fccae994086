#include "userspace/report/comparison.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "userspace/base/human.h"
#include "userspace/base/json.h"
#include "userspace/report/report_page.h"
#include "userspace/report/report_words.h"
#include "userspace/report/student_t.h"
#include "userspace/report/table.h"
#include "userspace/report/text.h"

namespace rocattach {
namespace {

// Adds every kernel of a report by name; kernels without a name count as one.
void AddKernels(const Report& report, bool is_after,
                std::map<std::string, KernelChange>* kernels) {
  for (const RecordingReport& recording : report.recordings) {
    for (const auto& process : recording.processes) {
      for (const auto& [id, kernel] : process->kernels) {
        if (kernel.count == 0) continue;
        KernelChange& change = (*kernels)[kernel.name];
        (is_after ? change.count_after : change.count_before) += kernel.count;
        (is_after ? change.after : change.before).Merge(kernel.durations);
      }
    }
  }
}

std::string Missing(const Report& report) {
  if (!report.HasLosses()) return "";
  uint64_t lost = 0;
  std::vector<std::string> why;
  for (const RecordingReport& recording : report.recordings) {
    lost += recording.Lost();
    for (std::string& reason : recording.WhyIncomplete()) {
      why.push_back(std::move(reason));
    }
  }
  if (report.stats.damaged()) why.insert(why.begin(), "it is damaged");
  std::string text = why.empty() ? "" : why.front();
  if (lost > 0) {
    absl::StrAppend(&text, text.empty() ? "" : "; ", "at least ",
                    Plural(lost, "record", "records"), " lost");
  }
  return text.empty() ? "something was lost" : text;
}

double Fraction(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

ChangeVerdict VerdictOf(const KernelChange& kernel, double threshold) {
  if (kernel.count_before == 0) return ChangeVerdict::kNew;
  if (kernel.count_after == 0) return ChangeVerdict::kGone;
  if (!kernel.change) return ChangeVerdict::kTooFew;
  // The same factor in both directions, so that A against B is the opposite of B
  // against A.
  const double up = threshold, down = 1 / (1 + threshold) - 1;
  if (kernel.change->low > up) return ChangeVerdict::kSlower;
  if (kernel.change->high < down) return ChangeVerdict::kFaster;
  if (kernel.change->low >= down && kernel.change->high <= up) {
    return ChangeVerdict::kSame;
  }
  return ChangeVerdict::kUnclear;
}

uint64_t Difference(const KernelChange& kernel) {
  const uint64_t before = kernel.before.sum(), after = kernel.after.sum();
  return before > after ? before - after : after - before;
}

}  // namespace

const char* ChangeVerdictName(ChangeVerdict verdict) {
  switch (verdict) {
    case ChangeVerdict::kSlower:
      return "slower";
    case ChangeVerdict::kFaster:
      return "faster";
    case ChangeVerdict::kSame:
      return "same";
    case ChangeVerdict::kUnclear:
      return "unclear";
    case ChangeVerdict::kTooFew:
      return "too few";
    case ChangeVerdict::kNew:
      return "new";
    case ChangeVerdict::kGone:
      return "gone";
  }
  return "";
}

std::optional<Change> CompareMeans(const DurationHistogram& before,
                                   const DurationHistogram& after, double confidence) {
  if (before.count() < 2 || after.count() < 2 || before.average() <= 0 ||
      after.average() <= 0) {
    return std::nullopt;
  }
  // The variance of the logarithm of a mean is about that of the mean over its square.
  auto variance_of_log = [](const DurationHistogram& d) {
    return d.variance() / (static_cast<double>(d.count()) * d.average() * d.average());
  };
  const double a = variance_of_log(before), b = variance_of_log(after);
  const double center = std::log(after.average() / before.average());
  double reach = 0;
  if (a + b > 0) {
    // Degrees of freedom by Welch and Satterthwaite.
    const double freedom = (a + b) * (a + b) /
                           (a * a / static_cast<double>(before.count() - 1) +
                            b * b / static_cast<double>(after.count() - 1));
    reach = StudentQuantile((1 + confidence) / 2, std::max(freedom, 1.0)) *
            std::sqrt(a + b);
  }
  return Change{std::expm1(center), std::expm1(center - reach),
                std::expm1(center + reach)};
}

Comparison CompareReports(const Report& before, const Report& after,
                          const ComparisonOptions& options) {
  Comparison result;
  result.options = options;
  result.missing_before = Missing(before);
  result.missing_after = Missing(after);
  std::map<std::string, KernelChange> kernels;
  AddKernels(before, /*is_after=*/false, &kernels);
  AddKernels(after, /*is_after=*/true, &kernels);
  for (const auto& [name, kernel] : kernels) {
    result.total_before_ns += kernel.before.sum();
    result.total_after_ns += kernel.after.sum();
  }
  for (auto& [name, kernel] : kernels) {
    kernel.name = name;
    kernel.share = std::max(Fraction(kernel.before.sum(), result.total_before_ns),
                            Fraction(kernel.after.sum(), result.total_after_ns));
    kernel.change = CompareMeans(kernel.before, kernel.after, options.confidence);
    kernel.verdict = VerdictOf(kernel, options.threshold);
    const bool matters = kernel.share >= options.min_share;
    kernel.regression = matters && kernel.verdict == ChangeVerdict::kSlower;
    kernel.improvement = matters && kernel.verdict == ChangeVerdict::kFaster;
    result.regressions += kernel.regression ? 1 : 0;
    result.improvements += kernel.improvement ? 1 : 0;
    result.kernels.push_back(std::move(kernel));
  }
  std::stable_sort(result.kernels.begin(), result.kernels.end(),
                   [](const KernelChange& a, const KernelChange& b) {
                     return Difference(a) > Difference(b);
                   });
  return result;
}

// A comparison of two recordings, for users and for programs.

namespace {

// "+12.3 %".
std::string Signed(double fraction) {
  return absl::StrFormat("%+.1f %%", fraction * 100);
}

std::string NameText(const KernelChange& kernel) {
  return kernel.name.empty() ? "(kernels without a name)" : TerminalSafe(kernel.name);
}

std::string VerdictText(const KernelChange& kernel) {
  if (kernel.regression) return "SLOWER";
  return ChangeVerdictName(kernel.verdict);
}

std::string MeanText(const DurationHistogram& durations) {
  return durations.count() == 0 ? "-" : HumanDuration(durations.mean());
}

void Kernels(const Comparison& comparison, const ComparisonTextOptions& options,
             ReportPage* page) {
  if (comparison.kernels.empty()) return;
  Table table({"share", "count A", "count B", "mean A", "mean B", "change",
               absl::StrFormat("%g %% interval", comparison.options.confidence * 100),
               "verdict", "kernel"},
              {"count A", "count B", "mean A"});
  size_t shown = 0;
  for (const KernelChange& kernel : comparison.kernels) {
    if (options.top != 0 && shown >= options.top && !kernel.regression) continue;
    ++shown;
    std::string change = "-", interval = "-";
    if (kernel.change) {
      change = Signed(kernel.change->change);
      interval =
          absl::StrCat(Signed(kernel.change->low), " to ", Signed(kernel.change->high));
    }
    table.Add({absl::StrFormat("%.1f %%", kernel.share * 100),
               HumanCount(kernel.count_before), HumanCount(kernel.count_after),
               MeanText(kernel.before), MeanText(kernel.after), change, interval,
               VerdictText(kernel), NameText(kernel)});
  }
  page->Add(table);
  if (shown < comparison.kernels.size()) {
    page->Raw(absl::StrCat(
        "  … and ",
        Plural(comparison.kernels.size() - shown, "more kernel", "more kernels"),
        " (--top 0 shows all)\n"));
  }
}

void Missing(const char* which, const std::string& what, ReportPage* page) {
  if (what.empty()) return;
  page->Raw(absl::StrCat(page->Red(), "INCOMPLETE: recording ", which, ": ", what, ".",
                         page->Off(), "\n"));
}

Json SideJson(uint64_t count, const DurationHistogram& durations) {
  return {{"count", count},
          {"timed", durations.count()},
          {"total_ns", durations.sum()},
          {"mean_ns", NumberJson(durations.average())},
          {"stddev_ns", NumberJson(durations.deviation())},
          {"min_ns", durations.min()},
          {"p50_ns", durations.Quantile(0.5)},
          {"p99_ns", durations.Quantile(0.99)},
          {"max_ns", durations.max()}};
}

Json KernelJson(const KernelChange& kernel) {
  Json json = {{"name", kernel.name},
               {"verdict", ChangeVerdictName(kernel.verdict)},
               {"regression", kernel.regression},
               {"improvement", kernel.improvement},
               {"share", kernel.share}};
  if (kernel.change) {
    json["change"] = kernel.change->change;
    json["low"] = kernel.change->low;
    json["high"] = kernel.change->high;
  } else {
    json["change"] = json["low"] = json["high"] = nullptr;
  }
  json["a"] = SideJson(kernel.count_before, kernel.before);
  json["b"] = SideJson(kernel.count_after, kernel.after);
  return json;
}

}  // namespace

std::string FormatComparison(const Comparison& comparison,
                             const ComparisonTextOptions& options) {
  TextReportOptions text;
  text.width = options.width;
  text.color = options.color;
  ReportPage page(text);
  Missing("A", comparison.missing_before, &page);
  Missing("B", comparison.missing_after, &page);
  std::string totals =
      absl::StrCat("Kernel time: A ", HumanDuration(comparison.total_before_ns), ", B ",
                   HumanDuration(comparison.total_after_ns));
  if (comparison.total_before_ns > 0) {
    const double before = static_cast<double>(comparison.total_before_ns);
    const double after = static_cast<double>(comparison.total_after_ns);
    absl::StrAppend(&totals, " (", Signed(after / before - 1), ")");
  }
  const char* color = comparison.regressions > 0    ? page.Red()
                      : comparison.improvements > 0 ? page.Green()
                                                    : "";
  page.Raw(absl::StrCat(page.Bold(), totals, page.Off(), "\n", color,
                        Plural(comparison.regressions, "kernel is", "kernels are"),
                        " slower, ",
                        Plural(comparison.improvements, "kernel is", "kernels are"),
                        " faster by more than ",
                        absl::StrFormat("%g %%", comparison.options.threshold * 100),
                        *color ? page.Off() : "", "\n"));
  Kernels(comparison, options, &page);
  return page.Finish();
}

std::string FormatComparisonJson(const Comparison& comparison) {
  Json kernels = Json::array();
  for (const KernelChange& kernel : comparison.kernels) {
    kernels.push_back(KernelJson(kernel));
  }
  const Json json = {{"incomplete_a", comparison.missing_before},
                     {"incomplete_b", comparison.missing_after},
                     {"method", "welch-log-means"},
                     {"confidence", comparison.options.confidence},
                     {"threshold", comparison.options.threshold},
                     {"min_share", comparison.options.min_share},
                     {"total_a_ns", comparison.total_before_ns},
                     {"total_b_ns", comparison.total_after_ns},
                     {"regressions", comparison.regressions},
                     {"improvements", comparison.improvements},
                     {"kernels", std::move(kernels)}};
  return DumpJson(json) + "\n";
}

}  // namespace rocattach
