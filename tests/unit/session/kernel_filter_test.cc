#include "userspace/session/kernel_filter.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "absl/strings/str_cat.h"
#include "userspace/base/clock.h"
#include "userspace/base/session_status.h"
#include "userspace/session/number_ranges.h"

namespace rocattach {
namespace {

bool Matches(const std::vector<std::string>& include,
             const std::vector<std::string>& exclude, const std::string& name) {
  auto filter = KernelFilter::Create(include, exclude);
  EXPECT_TRUE(filter.ok()) << filter.status();
  Demangler demangler;
  return filter.ok() && filter->Matches(name, &demangler);
}

TEST(KernelFilter, IncludesThenExcludes) {
  EXPECT_TRUE(Matches({}, {}, "anything"));
  EXPECT_TRUE(Matches({"gemm"}, {}, "big_gemm_kernel"));
  EXPECT_FALSE(Matches({"^gemm"}, {}, "big_gemm_kernel"));
  EXPECT_TRUE(Matches({"a", "b"}, {}, "xbx"));
  EXPECT_FALSE(Matches({"gemm"}, {"big"}, "big_gemm_kernel"));
  EXPECT_TRUE(Matches({}, {"big"}, "small"));
  EXPECT_FALSE(Matches({}, {"big"}, "big"));
}

TEST(KernelFilter, LooksAtMangledAndDemangledNames) {
  const std::string symbol = "_Z10vector_addPKfS0_Pfi";
  EXPECT_TRUE(Matches({"vector_add\\(float const"}, {}, symbol));
  EXPECT_TRUE(Matches({"_Z10vector"}, {}, symbol));
  EXPECT_FALSE(Matches({}, {"float"}, symbol));
}

// A name of 300 bytes whose demangled form needs more memory than there is.
TEST(KernelFilter, NamesThatStandForGigabytesCostLittle) {
  std::string bomb = "_Z1f1aI";
  for (int i = 1; i < 46; ++i) bomb += "S_I";
  bomb += "iiE";
  for (int i = 1; i < 46; ++i) {
    const char digit = static_cast<char>(i <= 10 ? '0' + i - 1 : 'A' + i - 11);
    bomb +=
        i <= 36 ? std::string{'S', digit, '_', 'E'} : absl::StrCat("S1", i - 37, "_E");
  }
  rusage before = {}, after = {};
  getrusage(RUSAGE_SELF, &before);
  EXPECT_TRUE(Matches({"^_Z1f1aI"}, {}, bomb)) << "matched as it is";
  getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 16 << 10) << "KiB";
}

TEST(KernelFilter, SurvivesAnyName) {
  EXPECT_TRUE(Matches({"."}, {}, std::string(1 << 20, 'x')));
  EXPECT_TRUE(Matches({"\\xff"}, {}, "\xff\xfe not utf-8"));
  EXPECT_TRUE(Matches({"_Z"}, {}, "_Z" + std::string(100000, 'N')));
  EXPECT_FALSE(Matches({"x"}, {}, ""));
}

// Expressions that take exponential time in a backtracking engine. The test has no time
// limit of its own; with backtracking it would not end before the run's timeout.
TEST(KernelFilter, ExpressionsThatBlowUpElsewhereStayLinear) {
  const std::string name = std::string(50'000, 'a') + "!";
  for (const char* pattern :
       {"(a+)+$", "(a|a)*b", "(a|aa)+c", "^(a?){30}a{30}b", "(.*a){12}b", "(x+x+)+y"}) {
    EXPECT_FALSE(Matches({pattern}, {}, name)) << pattern;
  }
}

TEST(KernelFilter, RefusesWhatItCannotCompile) {
  auto refused = [](const std::vector<std::string>& include) {
    return SessionStatusOf(KernelFilter::Create(include, {}).status()) ==
           SessionStatus::kFilterDataCorrupted;
  };
  EXPECT_TRUE(refused({""}));
  EXPECT_TRUE(refused({"("}));
  EXPECT_TRUE(refused({"(a)\\1"}));
  EXPECT_TRUE(refused({"(?=look)"}));
  EXPECT_TRUE(refused({std::string(5000, 'a')}));
  EXPECT_TRUE(refused({"((a{100}){100}){100}"}));
  EXPECT_TRUE(refused(std::vector<std::string>(300, "a")));
}

TEST(NumberRanges, ParseAndNormalize) {
  EXPECT_EQ(*ParseRanges("3"), (std::vector<NumberRange>{{3, 3}}));
  EXPECT_EQ(*ParseRanges("[1-3], [5],[4]"), (std::vector<NumberRange>{{1, 5}}));
  EXPECT_EQ(*ParseRanges("[1, 3-5]"), (std::vector<NumberRange>{{1, 1}, {3, 5}}));
  EXPECT_EQ(*ParseRanges("9-"), (std::vector<NumberRange>{{9, UINT64_MAX}}));
  EXPECT_EQ(*ParseRanges("9-,5-20"), (std::vector<NumberRange>{{5, UINT64_MAX}}));
  for (const char* text : {"", "x", "1-x", "0", "5-3", "[1", "1]", "[[1]]", "1,,2",
                           "-3", "99999999999999999999999"}) {
    EXPECT_FALSE(ParseRanges(text).ok()) << text;
  }
}

TEST(NumberRanges, Membership) {
  const std::vector<NumberRange> ranges =
      Normalize({{10, 20}, {1, 3}, {30, UINT64_MAX}});
  for (uint64_t value : {1u, 3u, 10u, 20u, 30u, 1000u}) {
    EXPECT_TRUE(InRanges(ranges, value)) << value;
  }
  for (uint64_t value : {0u, 4u, 9u, 21u, 29u}) {
    EXPECT_FALSE(InRanges(ranges, value)) << value;
  }
  EXPECT_TRUE(InRanges({}, 7));
}

}  // namespace
}  // namespace rocattach
