// A comparison of two recordings, for users and for programs.
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "userspace/base/human.h"
#include "userspace/report/comparison.h"
#include "userspace/report/message_json.h"
#include "userspace/report/report_page.h"
#include "userspace/report/report_words.h"
#include "userspace/report/table.h"
#include "userspace/report/text.h"

namespace rocattach {
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
  return page.Take();
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
