#include "userspace/service/session_request.h"

#include <algorithm>
#include <utility>

namespace rocattach {
namespace {

bool IsSdkDomain(TraceDomain domain) {
  return domain != TraceDomain::kMemoryCopies &&
         domain != TraceDomain::kMemoryAllocations;
}

}  // namespace

bool NeedsSdk(const std::vector<FilterSpec>& filters) {
  return std::any_of(filters.begin(), filters.end(), [](const FilterSpec& filter) {
    return filter.kind == FilterKind::kCounters ||
           filter.kind == FilterKind::kCountersSampler ||
           (filter.kind == FilterKind::kApiTrace &&
            std::any_of(filter.api_domains.begin(), filter.api_domains.end(),
                        IsSdkDomain));
  });
}

bool IsForAllProcesses(const SessionRequest& request) {
  return request.targets.empty();
}

absl::Status CheckTimes(const SessionRequest& request) {
  bool too_long = request.duration_ns > kLongestTimeNs;
  for (const CollectionPeriod& period : request.periods) {
    if (period.duration_ns == 0) {
      return absl::InvalidArgumentError("a period without a duration");
    }
    too_long |= period.delay_ns > kLongestTimeNs || period.duration_ns > kLongestTimeNs;
  }
  return too_long ? absl::InvalidArgumentError("a time of more than nine years")
                  : absl::OkStatus();
}

void DescribeFilter(const FilterSpec& filter, SessionInfo* info) {
  for (std::string& name : filter.CounterList()) {
    info->counters.push_back(std::move(name));
  }
  const auto add = [&](const char* what) { info->collects.push_back(what); };
  if (filter.kind == FilterKind::kDispatchTimestamps) add("dispatches");
  if (filter.kind == FilterKind::kCounters) add("counters of dispatches");
  if (filter.kind == FilterKind::kCountersSampler) add("counters of whole GPUs");
  for (TraceDomain domain : filter.api_domains) {
    if (domain == TraceDomain::kHsaApi) add("HSA calls");
    if (domain == TraceDomain::kHipApi) add("HIP calls");
    if (domain == TraceDomain::kMemoryCopies) add("memory copies");
    if (domain == TraceDomain::kMarkers) add("markers");
    if (domain == TraceDomain::kRcclApi) add("RCCL calls");
    if (domain == TraceDomain::kMemoryAllocations) add("memory allocations");
    if (domain == TraceDomain::kScratchMemory) add("scratch memory");
  }
}

}  // namespace rocattach
