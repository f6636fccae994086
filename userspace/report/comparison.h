// The changes between two recordings of the same work, kernel by kernel.
#ifndef ROCATTACH_USERSPACE_REPORT_COMPARISON_H_
#define ROCATTACH_USERSPACE_REPORT_COMPARISON_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "userspace/base/duration_histogram.h"
#include "userspace/report/report.h"

namespace rocattach {

struct ComparisonOptions {
  // The confidence level of intervals, 0 to 1.
  double confidence = 0.95;
  // A change of a kernel's mean by up to this fraction counts as no change.
  double threshold = 0.05;
  // A kernel with less than this fraction of the kernel time in both recordings is
  // neither a regression nor an improvement.
  double min_share = 0.01;
};

enum class ChangeVerdict {
  kSlower,   // the whole interval is above the threshold
  kFaster,   // the whole interval is below it
  kSame,     // the whole interval is within it
  kUnclear,  // none of these: more dispatches are needed
  kTooFew,   // fewer than two dispatches with times on a side
  kNew,      // only in the second recording
  kGone,     // only in the first
};
const char* ChangeVerdictName(ChangeVerdict verdict);

// A change as fractions of the first mean: 0.1 is ten per cent longer.
struct Change {
  double change = 0;
  double low = 0, high = 0;  // the confidence interval
};

// The change of the mean duration, with an interval from Welch's t test for unequal
// variances on the logarithms of the means (delta method), which gives an interval of
// their ratio. Nullopt with fewer than two durations on a side, or with a mean of zero.
std::optional<Change> CompareMeans(const DurationHistogram& before,
                                   const DurationHistogram& after, double confidence);

struct KernelChange {
  std::string name;  // empty: kernels without a name
  uint64_t count_before = 0, count_after = 0;
  DurationHistogram before, after;
  double share = 0;  // of the kernel time; the larger value of both recordings
  std::optional<Change> change;
  ChangeVerdict verdict = ChangeVerdict::kUnclear;
  // Slower, and with a share of at least min_share.
  bool regression = false;
  bool improvement = false;
};

struct Comparison {
  ComparisonOptions options;
  // By absolute difference of the total times, largest first.
  std::vector<KernelChange> kernels;
  uint64_t total_before_ns = 0, total_after_ns = 0;  // kernel time
  size_t regressions = 0, improvements = 0;
  // A description of what is missing in each recording; empty if nothing is.
  std::string missing_before, missing_after;
};

// Kernels are compared by name, over all processes and GPUs of a report.
Comparison CompareReports(const Report& before, const Report& after,
                          const ComparisonOptions& options);

// Output of a comparison: text for users, or one JSON object.
struct ComparisonTextOptions {
  size_t width = 0;  // columns of the terminal; 0: no limit
  bool color = false;
  size_t top = 20;  // kernels; 0: all. Regressions are always shown.
};
std::string FormatComparison(const Comparison& comparison,
                             const ComparisonTextOptions& options);
std::string FormatComparisonJson(const Comparison& comparison);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_REPORT_COMPARISON_H_
