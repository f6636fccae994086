#include "userspace/session/filter_check.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "userspace/abi/records.h"
#include "userspace/base/session_status.h"
#include "userspace/base/status_macros.h"
#include "userspace/counters/definition_file.h"
#include "userspace/session/kernel_filter.h"

namespace rocattach {
namespace {

constexpr size_t kMaxNames = 4096;
constexpr size_t kMaxRanges = 4096;

absl::Status Corrupted(absl::string_view what) {
  return SessionError(SessionStatus::kFilterDataCorrupted, what);
}

absl::Status Mismatch(absl::string_view what) {
  return SessionError(SessionStatus::kSessionFilterDataMismatch, what);
}

bool CollectsCounters(FilterKind kind) {
  return kind == FilterKind::kCounters || kind == FilterKind::kCountersSampler;
}

bool IsOfDispatches(FilterKind kind) {
  return kind == FilterKind::kDispatchTimestamps || kind == FilterKind::kCounters;
}

absl::Status CheckKind(FilterKind kind) {
  switch (kind) {
    case FilterKind::kDispatchTimestamps:
    case FilterKind::kCounters:
    case FilterKind::kApiTrace:
    case FilterKind::kCountersSampler:
      return absl::OkStatus();
    default:
      return SessionError(SessionStatus::kFilterNotSupported,
                          absl::StrCat("filter kind ", static_cast<int>(kind)));
  }
}

absl::Status CheckNames(const std::vector<std::string>& names, absl::string_view what) {
  if (names.size() > kMaxNames) return Corrupted(absl::StrCat("too many ", what));
  for (const std::string& name : names) {
    if (name.empty()) return Corrupted(absl::StrCat("an empty name among ", what));
  }
  return absl::OkStatus();
}

absl::Status CheckRanges(const std::vector<NumberRange>& ranges) {
  if (ranges.size() > kMaxRanges) return Corrupted("too many ranges");
  for (const NumberRange& range : ranges) {
    if (range.first == 0 || range.last < range.first) {
      return Corrupted(absl::StrCat("range ", range.first, " to ", range.last,
                                    ": counting starts at 1 and goes up"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckData(const FilterSpec& spec) {
  if (CollectsCounters(spec.kind)) {
    const std::vector<std::string> names = spec.CounterList();
    if (names.empty()) return Corrupted("no counters named");
    if (names.size() > kMaxNames) return Corrupted("too many counters");
    for (const std::string& name : names) {
      if (!IsCounterName(name)) {
        return Corrupted(absl::StrCat("\"", name, "\" cannot be a counter's name"));
      }
    }
    if (spec.rotation_iterations == 0) return Corrupted("rotation every 0 dispatches");
  }
  if (spec.kind == FilterKind::kCountersSampler && spec.sample_interval_ns == 0) {
    return Corrupted("sampling interval of 0");
  }
  if (spec.kind == FilterKind::kApiTrace && spec.api_domains.empty()) {
    return Corrupted("no API domains named");
  }
  const Selection& selection = spec.selection;
  RETURN_IF_ERROR(CheckNames(selection.gpus, "GPUs"));
  RETURN_IF_ERROR(CheckNames(selection.hsa_functions, "HSA functions"));
  RETURN_IF_ERROR(CheckNames(selection.hip_functions, "HIP functions"));
  RETURN_IF_ERROR(CheckRanges(selection.dispatches));
  RETURN_IF_ERROR(CheckRanges(selection.iterations));
  return KernelFilter::Create(selection.kernel_include, selection.kernel_exclude)
      .status();
}

absl::Status CheckConditions(const FilterSpec& spec) {
  const Selection& selection = spec.selection;
  if (!IsOfDispatches(spec.kind) &&
      !(selection.kernel_include.empty() && selection.kernel_exclude.empty() &&
        selection.dispatches.empty() && selection.iterations.empty())) {
    return Mismatch("kernels and dispatches can be chosen for dispatch filters only");
  }
  auto traces = [&](TraceDomain domain) {
    return spec.kind == FilterKind::kApiTrace &&
           std::count(spec.api_domains.begin(), spec.api_domains.end(), domain) > 0;
  };
  if (!selection.hsa_functions.empty() && !traces(TraceDomain::kHsaApi)) {
    return Mismatch("HSA functions are named, but the filter does not trace HSA_API");
  }
  if (!selection.hip_functions.empty() && !traces(TraceDomain::kHipApi)) {
    return Mismatch("HIP functions are named, but the filter does not trace HIP_API");
  }
  if (!selection.gpus.empty() && spec.kind == FilterKind::kApiTrace) {
    return Mismatch("API calls do not belong to a GPU");
  }
  if (!CollectsCounters(spec.kind) && !spec.counters.empty()) {
    return Mismatch("counters are named in a filter that does not collect them");
  }
  if (spec.kind != FilterKind::kApiTrace && spec.arguments) {
    return Mismatch("arguments belong to API calls");
  }
  if (!CollectsCounters(spec.kind) && spec.instances) {
    return Mismatch("values of instances belong to counters");
  }
  if (spec.kind != FilterKind::kApiTrace && !spec.api_domains.empty()) {
    return Mismatch("API domains are named in a filter that does not trace them");
  }
  return absl::OkStatus();
}

absl::Status CheckDomains(const FilterSpec& spec) {
  for (TraceDomain domain : spec.api_domains) {
    switch (domain) {
      case TraceDomain::kHsaApi:
      case TraceDomain::kMemoryCopies:
      case TraceDomain::kHipApi:
      case TraceDomain::kMarkers:
      case TraceDomain::kRcclApi:
      case TraceDomain::kMemoryAllocations:
      case TraceDomain::kScratchMemory:
        break;
      case TraceDomain::kHipOperations:
      case TraceDomain::kKfdApi:
      case TraceDomain::kExtensionApi:
        return SessionError(
            SessionStatus::kIncorrectDomain,
            absl::StrCat("API domain ", static_cast<int>(domain), " cannot be traced"));
      default:
        return SessionError(SessionStatus::kInvalidDomainId,
                            absl::StrCat("API domain ", static_cast<int>(domain)));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckFunctions(TraceDomain domain, const std::vector<std::string>& names,
                            SessionBackend& backend) {
  for (const std::string& name : names) {
    if (!backend.MayHaveApiFunction(domain, name)) {
      return SessionError(SessionStatus::kInvalidOperationId,
                          absl::StrCat("no API function \"", name, "\""));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckFilter(const FilterSpec& spec, const CounterCatalog& catalog,
                         SessionBackend& backend) {
  RETURN_IF_ERROR(CheckKind(spec.kind));
  RETURN_IF_ERROR(CheckData(spec));
  RETURN_IF_ERROR(CheckConditions(spec));
  if (CollectsCounters(spec.kind)) {
    for (const std::string& name : spec.CounterList()) {
      RETURN_IF_ERROR(catalog.CheckKnown(name));
    }
  }
  RETURN_IF_ERROR(CheckDomains(spec));
  RETURN_IF_ERROR(
      CheckFunctions(TraceDomain::kHsaApi, spec.selection.hsa_functions, backend));
  return CheckFunctions(TraceDomain::kHipApi, spec.selection.hip_functions, backend);
}

namespace {

// Bytes of a marker's text that a process records.
constexpr size_t kLongestMarker = sizeof(rocattach_api_call::text);

}  // namespace

size_t RecordBytes(const FilterSpec& spec) {
  const size_t values = spec.CounterList().size() * sizeof(RecordValue);
  switch (spec.kind) {
    case FilterKind::kApiTrace:
      return std::count(spec.api_domains.begin(), spec.api_domains.end(),
                        TraceDomain::kMarkers) == 0
                 ? sizeof(TraceRecord)
                 : TraceBytes(kLongestMarker + 1);
    case FilterKind::kCountersSampler:
      return sizeof(SampleRecord) + values;
    default:
      return sizeof(DispatchRecord) + values;
  }
}

SessionMode ModeOf(FilterKind kind) {
  return kind == FilterKind::kApiTrace ? SessionMode::kTracing
                                       : SessionMode::kProfiling;
}

size_t SmallestRecordBytes() {
  return std::min({sizeof(TraceRecord), sizeof(SampleRecord), sizeof(DispatchRecord)});
}

}  // namespace rocattach
