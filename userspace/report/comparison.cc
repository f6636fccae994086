#include "userspace/report/comparison.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "userspace/base/human.h"
#include "userspace/report/report_words.h"
#include "userspace/report/student_t.h"

namespace rocattach {
namespace {

// Every kernel of a report by name; those without a name are one.
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
    // Welch and Satterthwaite.
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

}  // namespace rocattach
