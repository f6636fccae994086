#include "userspace/library/c_filter.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "userspace/base/session_status.h"
#include "userspace/base/status_macros.h"
#include "userspace/library/user_memory.h"

namespace rocattach {
namespace {

template <typename Ours, typename Theirs>
constexpr bool Same(Ours ours, Theirs theirs) {
  return static_cast<int>(ours) == static_cast<int>(theirs);
}
static_assert(Same(FilterKind::kDispatchTimestamps,
                   ROCATTACH_DISPATCH_TIMESTAMPS_COLLECTION) &&
              Same(FilterKind::kCounters, ROCATTACH_COUNTERS_COLLECTION) &&
              Same(FilterKind::kPcSampling, ROCATTACH_PC_SAMPLING_COLLECTION) &&
              Same(FilterKind::kThreadTrace, ROCATTACH_ATT_TRACE_COLLECTION) &&
              Same(FilterKind::kSpm, ROCATTACH_SPM_COLLECTION) &&
              Same(FilterKind::kApiTrace, ROCATTACH_API_TRACE) &&
              Same(FilterKind::kCountersSampler, ROCATTACH_COUNTERS_SAMPLER));
static_assert(Same(TraceDomain::kHsaApi, ROCATTACH_ACTIVITY_DOMAIN_HSA_API) &&
              Same(TraceDomain::kMemoryCopies, ROCATTACH_ACTIVITY_DOMAIN_HSA_OPS) &&
              Same(TraceDomain::kHipOperations, ROCATTACH_ACTIVITY_DOMAIN_HIP_OPS) &&
              Same(TraceDomain::kHipApi, ROCATTACH_ACTIVITY_DOMAIN_HIP_API) &&
              Same(TraceDomain::kKfdApi, ROCATTACH_ACTIVITY_DOMAIN_KFD_API) &&
              Same(TraceDomain::kExtensionApi, ROCATTACH_ACTIVITY_DOMAIN_EXT_API) &&
              Same(TraceDomain::kMarkers, ROCATTACH_ACTIVITY_DOMAIN_ROCTX) &&
              Same(TraceDomain::kRcclApi, ROCATTACH_ACTIVITY_DOMAIN_RCCL_API));

constexpr size_t kMaxNameBytes = 4096;

absl::Status Corrupted(absl::string_view what) {
  return SessionError(SessionStatus::kFilterDataCorrupted, what);
}

absl::StatusOr<std::vector<std::string>> ReadNames(const char* const* names,
                                                   uint64_t count,
                                                   absl::string_view what) {
  const auto pointers = ReadUserArray(names, count);
  if (!pointers.has_value()) return Corrupted(absl::StrCat("cannot read ", what));
  std::vector<std::string> result;
  for (const char* pointer : *pointers) {
    std::optional<std::string> name = ReadUserString(pointer, kMaxNameBytes);
    if (!name.has_value()) {
      return Corrupted(
          absl::StrCat("cannot read number ", result.size(), " of ", what));
    }
    result.push_back(*std::move(name));
  }
  return result;
}

absl::Status ReadData(const rocattach_filter_data_t& data, uint64_t count,
                      FilterSpec& spec) {
  switch (spec.kind) {
    case FilterKind::kDispatchTimestamps:
      if (count == 0) return absl::OkStatus();
      return SessionError(SessionStatus::kSessionFilterDataMismatch,
                          "timestamps take no data");
    case FilterKind::kCounters: {
      ASSIGN_OR_RETURN(spec.counters.emplace_back(),
                       ReadNames(data.counters_names, count, "the counter names"));
      return absl::OkStatus();
    }
    case FilterKind::kApiTrace: {
      const auto domains = ReadUserArray(data.trace_apis, count);
      if (!domains.has_value()) return Corrupted("cannot read the API domains");
      for (rocattach_tracer_activity_domain_t domain : *domains) {
        if (IsInRecordingsOnly(static_cast<TraceDomain>(domain))) {
          return SessionError(SessionStatus::kInvalidDomainId,
                              absl::StrCat("API domain ", domain));
        }
        spec.api_domains.push_back(static_cast<TraceDomain>(domain));
      }
      return absl::OkStatus();
    }
    case FilterKind::kCountersSampler: {
      if (count != 1) {
        return SessionError(SessionStatus::kSessionFilterDataMismatch,
                            "a sampler takes one set of parameters");
      }
      const auto read = ReadUserArray(data.counters_sampler_parameters, 1);
      if (!read.has_value()) return Corrupted("cannot read the sampler's parameters");
      const rocattach_counters_sampler_parameters_t& sampler = (*read)[0];
      ASSIGN_OR_RETURN(
          spec.counters.emplace_back(),
          ReadNames(sampler.counters, sampler.counters_num, "the counter names"));
      spec.sample_interval_ns = uint64_t{sampler.sampling_rate} * 1'000'000;
      spec.sample_duration_ns = uint64_t{sampler.sampling_duration} * 1'000'000;
      spec.sample_delay_ns = uint64_t{sampler.initial_delay} * 1'000'000;
      spec.sample_gpu_index = sampler.gpu_agent_index;
      return absl::OkStatus();
    }
    default:
      return absl::OkStatus();
  }
}

absl::Status ReadProperty(const rocattach_filter_property_t& property,
                          Selection& selection) {
  switch (property.kind) {
    case ROCATTACH_FILTER_NONE:
      return absl::OkStatus();
    case ROCATTACH_FILTER_HSA_TRACER_API_FUNCTIONS: {
      ASSIGN_OR_RETURN(
          selection.hsa_functions,
          ReadNames(property.data.names, property.data_count, "the HSA functions"));
      return absl::OkStatus();
    }
    case ROCATTACH_FILTER_HIP_TRACER_API_FUNCTIONS: {
      ASSIGN_OR_RETURN(
          selection.hip_functions,
          ReadNames(property.data.names, property.data_count, "the HIP functions"));
      return absl::OkStatus();
    }
    case ROCATTACH_FILTER_GPU_NAME: {
      ASSIGN_OR_RETURN(selection.gpus, ReadNames(property.data.names,
                                                 property.data_count, "the GPU names"));
      return absl::OkStatus();
    }
    case ROCATTACH_FILTER_RANGE:
      if (property.data_count != 2) {
        return SessionError(SessionStatus::kSessionFilterDataMismatch,
                            "a range has two numbers");
      }
      selection.dispatches.push_back({property.data.range[0], property.data.range[1]});
      return absl::OkStatus();
    case ROCATTACH_FILTER_KERNEL_NAMES: {
      ASSIGN_OR_RETURN(
          std::vector<std::string> names,
          ReadNames(property.data.names, property.data_count, "the kernel names"));
      for (std::string& name : names) {
        if (!name.empty() && name[0] == '!') {
          selection.kernel_exclude.push_back(name.substr(1));
        } else {
          selection.kernel_include.push_back(std::move(name));
        }
      }
      return absl::OkStatus();
    }
    case ROCATTACH_FILTER_DISPATCH_IDS: {
      const auto ranges =
          ReadUserArray(property.data.dispatch_ids, property.data_count);
      if (!ranges.has_value()) return Corrupted("cannot read the dispatch ids");
      for (const rocattach_dispatch_range_t& range : *ranges) {
        selection.dispatches.push_back({range.begin, range.end});
      }
      return absl::OkStatus();
    }
  }
  return SessionError(
      SessionStatus::kSessionFilterDataMismatch,
      absl::StrCat("filter property kind ", static_cast<int>(property.kind)));
}

}  // namespace

absl::StatusOr<FilterSpec> ReadFilter(rocattach_filter_kind_t kind,
                                      const rocattach_filter_data_t& data,
                                      uint64_t data_count,
                                      const rocattach_filter_property_t& property) {
  FilterSpec spec;
  spec.kind = static_cast<FilterKind>(kind);
  switch (spec.kind) {
    case FilterKind::kDispatchTimestamps:
    case FilterKind::kCounters:
    case FilterKind::kApiTrace:
    case FilterKind::kCountersSampler:
      RETURN_IF_ERROR(ReadData(data, data_count, spec));
      RETURN_IF_ERROR(ReadProperty(property, spec.selection));
      break;
    default:
      break;  // CheckFilter refuses it
  }
  return spec;
}

}  // namespace rocattach
