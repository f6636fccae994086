#include "userspace/session/plan_domains.h"

#include <gtest/gtest.h>

#include <iterator>
#include <set>
#include <string>

#include "userspace/abi/plan.h"
#include "userspace/session/session_backend.h"

namespace rocattach {
namespace {

constexpr TraceDomain kApis[] = {TraceDomain::kHsaApi, TraceDomain::kHipApi,
                                 TraceDomain::kMarkers, TraceDomain::kRcclApi};

TEST(PlanDomainsTest, EachApiHasANumberAndATextOfItsOwn) {
  std::set<uint32_t> numbers;
  std::set<std::string> texts;
  for (const TraceDomain api : kApis) {
    EXPECT_EQ(TraceDomainOf(PlanApiOf(api)), api);
    EXPECT_LT(PlanApiOf(api), uint32_t{ROCATTACH_PLAN_API_DOMAINS});
    EXPECT_FALSE(PlanKindOf(api).has_value());
    numbers.insert(PlanApiOf(api));
    texts.emplace(ApiText(api));
  }
  EXPECT_EQ(numbers.size(), std::size(kApis));
  EXPECT_EQ(texts.size(), std::size(kApis));
}

TEST(PlanDomainsTest, DomainsWithoutAnApiAreKindsOfRecords) {
  EXPECT_EQ(PlanKindOf(TraceDomain::kMemoryCopies)->record_kind,
            uint32_t{ROCATTACH_PLAN_RECORD_COPIES});
  EXPECT_EQ(PlanKindOf(TraceDomain::kMemoryAllocations)->record_kind,
            uint32_t{ROCATTACH_PLAN_RECORD_MEMORY});
  EXPECT_EQ(PlanKindOf(TraceDomain::kScratchMemory)->record_kind,
            uint32_t{ROCATTACH_PLAN_RECORD_SCRATCH});
}

}  // namespace
}  // namespace rocattach
