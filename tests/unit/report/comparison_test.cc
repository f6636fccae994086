#include "userspace/report/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "userspace/report/student_t.h"

namespace rocattach {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Values from printed tables.
TEST(StudentQuantile, MatchesPrintedTables) {
  EXPECT_NEAR(StudentQuantile(0.975, 1), 12.7062, 1e-4);
  EXPECT_NEAR(StudentQuantile(0.975, 2), 4.30265, 1e-5);
  EXPECT_NEAR(StudentQuantile(0.95, 5), 2.01505, 1e-5);
  EXPECT_NEAR(StudentQuantile(0.975, 10), 2.22814, 1e-5);
  EXPECT_NEAR(StudentQuantile(0.995, 30), 2.75000, 1e-5);
  EXPECT_NEAR(StudentQuantile(0.975, 4.5), 2.6585, 2e-3);
  EXPECT_NEAR(StudentQuantile(0.975, 1e9), 1.95996, 1e-5);
  EXPECT_NEAR(StudentQuantile(0.5, 7), 0, 1e-6);
}

DurationHistogram Durations(std::initializer_list<uint64_t> list) {
  DurationHistogram durations;
  for (uint64_t ns : list) durations.Add(ns);
  return durations;
}

// Calculated by hand: logarithms of the means 10 and 20; variances of the means 1 and
// 4, over the squares of the means 0.01 each; 4 degrees of freedom; t 2.7764.
TEST(CompareMeans, IsWelchsIntervalOfTheQuotient) {
  const DurationHistogram a = Durations({8'000, 10'000, 12'000});
  const DurationHistogram b = Durations({16'000, 20'000, 24'000});
  const auto change = CompareMeans(a, b, 0.95);
  ASSERT_TRUE(change.has_value());
  const double reach = 2.77645 * std::sqrt(2 * 4e6 / 3 / 1e8);
  EXPECT_NEAR(change->change, 1.0, 1e-9);
  EXPECT_NEAR(change->low, 2 * std::exp(-reach) - 1, 1e-4);
  EXPECT_NEAR(change->high, 2 * std::exp(reach) - 1, 1e-4);
  // The comparison in the other direction gives the inverse.
  const auto back = CompareMeans(b, a, 0.95);
  EXPECT_NEAR((1 + back->low) * (1 + change->high), 1, 1e-9);
}

TEST(CompareMeans, NeedsTwoOnEachSide) {
  EXPECT_FALSE(CompareMeans(Durations({5}), Durations({5, 6}), 0.95).has_value());
  EXPECT_FALSE(CompareMeans(Durations({5, 6}), Durations({5}), 0.95).has_value());
  EXPECT_FALSE(CompareMeans(Durations({0, 0}), Durations({5, 6}), 0.95).has_value());
  const auto exact = CompareMeans(Durations({5, 5}), Durations({6, 6}), 0.95);
  ASSERT_TRUE(exact.has_value());
  EXPECT_NEAR(exact->low, 0.2, 1e-9);
  EXPECT_NEAR(exact->high, 0.2, 1e-9);
}

// About 95 % of the 95 % intervals contain the truth, with skewed durations and with
// different numbers of them.
TEST(CompareMeans, IntervalsHaveTheirNominalCoverage) {
  std::mt19937 random(3);
  std::gamma_distribution<double> a(4, 2'500), b(3, 4'000);  // means 10,000 and 12,000
  int covered = 0;
  constexpr int kRounds = 2000;
  for (int round = 0; round < kRounds; ++round) {
    DurationHistogram before, after;
    for (int i = 0; i < 60; ++i) before.Add(static_cast<uint64_t>(a(random)));
    for (int i = 0; i < 90; ++i) after.Add(static_cast<uint64_t>(b(random)));
    const auto change = CompareMeans(before, after, 0.95);
    covered += change->low <= 0.2 && 0.2 <= change->high ? 1 : 0;
  }
  EXPECT_GE(covered, kRounds * 93 / 100);
  EXPECT_LE(covered, kRounds * 97 / 100);
}

Report ReportOf(const std::vector<std::pair<std::string, DurationHistogram>>& kernels) {
  Report report;
  report.recordings.emplace_back();
  report.recordings[0].end.emplace();
  auto process = std::make_unique<ProcessReport>();
  uint32_t id = 0;
  for (const auto& [name, durations] : kernels) {
    KernelReport& kernel = process->kernels[++id];
    kernel.name = name;
    kernel.count = durations.count();
    kernel.durations = durations;
  }
  process->account.emplace().set_final(true);
  report.recordings[0].processes.push_back(std::move(process));
  return report;
}

const KernelChange& Find(const Comparison& comparison, const std::string& name) {
  for (const KernelChange& kernel : comparison.kernels) {
    if (kernel.name == name) return kernel;
  }
  ADD_FAILURE() << "no kernel " << name;
  return comparison.kernels.front();
}

TEST(CompareReports, ClassifiesChangedKernels) {
  const DurationHistogram fast = Durations({1000, 1010, 990, 1000});
  const DurationHistogram slow = Durations({1200, 1210, 1190, 1200});
  const DurationHistogram wild = Durations({100, 2000, 500, 1500});
  const DurationHistogram tiny = Durations({2, 2, 2}), tinier = Durations({1, 1, 1});
  const Report before = ReportOf({{"slower", fast},
                                  {"faster", slow},
                                  {"same", fast},
                                  {"unclear", wild},
                                  {"gone", fast},
                                  {"tiny", tinier}});
  const Report after = ReportOf({{"slower", slow},
                                 {"faster", fast},
                                 {"same", fast},
                                 {"unclear", Durations({150, 2100, 400, 1700})},
                                 {"new", fast},
                                 {"tiny", tiny}});
  const Comparison comparison = CompareReports(before, after, {});
  EXPECT_EQ(Find(comparison, "slower").verdict, ChangeVerdict::kSlower);
  EXPECT_TRUE(Find(comparison, "slower").regression);
  EXPECT_EQ(Find(comparison, "faster").verdict, ChangeVerdict::kFaster);
  EXPECT_EQ(Find(comparison, "same").verdict, ChangeVerdict::kSame);
  EXPECT_EQ(Find(comparison, "unclear").verdict, ChangeVerdict::kUnclear);
  EXPECT_EQ(Find(comparison, "new").verdict, ChangeVerdict::kNew);
  EXPECT_EQ(Find(comparison, "gone").verdict, ChangeVerdict::kGone);
  EXPECT_EQ(Find(comparison, "tiny").verdict, ChangeVerdict::kSlower);
  EXPECT_FALSE(Find(comparison, "tiny").regression) << "too small to matter";
  EXPECT_EQ(comparison.regressions, 1u);
  EXPECT_EQ(comparison.improvements, 1u);
  EXPECT_EQ(comparison.missing_before, "");

  const std::string text = FormatComparison(comparison, {});
  EXPECT_THAT(text,
              HasSubstr("1 kernel is slower, 1 kernel is faster by more than 5 %"));
  EXPECT_THAT(text, HasSubstr("+20.0 %"));
  EXPECT_THAT(text, HasSubstr("SLOWER  slower"));
  EXPECT_THAT(text, Not(HasSubstr("INCOMPLETE")));
  const auto json = nlohmann::json::parse(FormatComparisonJson(comparison));
  EXPECT_EQ(json["regressions"], 1);
  EXPECT_EQ(json["kernels"].size(), 7u);
  for (const auto& kernel : json["kernels"]) {
    if (kernel["name"] != "slower") continue;
    EXPECT_EQ(kernel["verdict"], "slower");
    EXPECT_NEAR(kernel["change"], 0.2, 1e-9);
    EXPECT_EQ(kernel["a"]["mean_ns"], 1000);
    EXPECT_EQ(kernel["b"]["count"], 4);
  }
}

TEST(CompareReports, TheThresholdDecides) {
  const Report before = ReportOf({{"k", Durations({1000, 1001, 999})}});
  const Report after = ReportOf({{"k", Durations({1080, 1081, 1079})}});
  ComparisonOptions options;
  EXPECT_EQ(CompareReports(before, after, options).regressions, 1u);
  options.threshold = 0.1;
  EXPECT_EQ(CompareReports(before, after, options).regressions, 0u);
  EXPECT_EQ(CompareReports(before, after, options).kernels[0].verdict,
            ChangeVerdict::kSame);
}

// Regressions are shown, however many kernels there are.
TEST(CompareReports, RegressionsAreAlwaysShown) {
  std::vector<std::pair<std::string, DurationHistogram>> a, b;
  for (int i = 0; i < 30; ++i) {
    a.emplace_back(absl::StrCat("big", i), Durations({100'000, 100'000}));
    b.emplace_back(absl::StrCat("big", i), Durations({50'000, 50'000}));
  }
  a.emplace_back("small", Durations({20'000, 20'000}));
  b.emplace_back("small", Durations({24'000, 24'000}));
  ComparisonOptions options;
  options.min_share = 0.001;
  ComparisonTextOptions text;
  text.top = 3;
  const std::string shown =
      FormatComparison(CompareReports(ReportOf(a), ReportOf(b), options), text);
  EXPECT_THAT(shown, HasSubstr("SLOWER  small"));
  EXPECT_THAT(shown, HasSubstr("… and 27 more kernels (--top 0 shows all)"));
}

TEST(CompareReports, IncompleteRecordingsAreNamedFirst) {
  Report before = ReportOf({{"k\x1b[2J", Durations({1, 2})}});
  before.recordings[0].end.reset();
  const std::string text = FormatComparison(CompareReports(before, before, {}), {});
  EXPECT_EQ(text.rfind("INCOMPLETE: recording A: it has no end", 0), 0u) << text;
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace rocattach
