#include "userspace/control/session_wire.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "userspace/base/session_status.h"

namespace rocattach {
namespace {

// A message is sent in a header, which has room for 8 KiB; if it is longer, the call
// fails without a status of ours. Characters other than ASCII take three times their
// number of bytes.
constexpr size_t kMostMessageBytes = 2000;

// The protocol uses the numbers of the C API.
static_assert(int{v1::FILTER_KIND_DISPATCHES} ==
              static_cast<int>(FilterKind::kDispatchTimestamps));
static_assert(int{v1::FILTER_KIND_COUNTERS} == static_cast<int>(FilterKind::kCounters));
static_assert(int{v1::FILTER_KIND_API} == static_cast<int>(FilterKind::kApiTrace));
static_assert(int{v1::FILTER_KIND_SAMPLES} ==
              static_cast<int>(FilterKind::kCountersSampler));
static_assert(int{v1::TRACE_DOMAIN_HSA} == static_cast<int>(TraceDomain::kHsaApi));
static_assert(int{v1::TRACE_DOMAIN_MEMORY_COPIES} ==
              static_cast<int>(TraceDomain::kMemoryCopies));
static_assert(int{v1::TRACE_DOMAIN_HIP} == static_cast<int>(TraceDomain::kHipApi));
static_assert(int{v1::TRACE_DOMAIN_MARKERS} == static_cast<int>(TraceDomain::kMarkers));
static_assert(int{v1::TRACE_DOMAIN_RCCL} == static_cast<int>(TraceDomain::kRcclApi));
static_assert(int{v1::TRACE_DOMAIN_SCRATCH_MEMORY} ==
              static_cast<int>(TraceDomain::kScratchMemory));

using Words = google::protobuf::RepeatedPtrField<std::string>;
using Ranges = google::protobuf::RepeatedPtrField<v1::NumberRange>;

void Put(const std::vector<std::string>& from, Words* to) {
  to->Add(from.begin(), from.end());
}

void Put(const std::vector<NumberRange>& from, Ranges* to) {
  for (const NumberRange& range : from) {
    v1::NumberRange* out = to->Add();
    out->set_first(range.first);
    out->set_last(range.last);
  }
}

std::vector<std::string> Get(const Words& words) {
  return {words.begin(), words.end()};
}

std::vector<NumberRange> Get(const Ranges& ranges) {
  std::vector<NumberRange> list;
  for (const v1::NumberRange& range : ranges) {
    list.push_back({range.first(), range.last()});
  }
  return list;
}

absl::Status SameCode(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                      status.error_message());
}

// An error that gRPC has made, not the service.
absl::Status ConnectionError(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::CANCELLED:  // only a service that ends cancels calls
      return absl::UnavailableError(
          "rocattach-watch has closed the connection: it is ending, it has too many "
          "connections, or you are neither root nor the user that runs it");
    case grpc::StatusCode::UNIMPLEMENTED:
      return absl::UnimplementedError(
          "this rocattach-watch does not know the request: it is of another version "
          "than this program; use the same version of both");
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return absl::DeadlineExceededError(
          "rocattach-watch has not carried this out in time");
    default:
      return SameCode(status);
  }
}

}  // namespace

std::string WireMessage(absl::string_view message) {
  if (message.size() <= kMostMessageBytes) return std::string(message);
  size_t end = kMostMessageBytes;
  // Do not cut within a character.
  while (end > 0 && (static_cast<unsigned char>(message[end]) & 0xc0) == 0x80) --end;
  return absl::StrCat(message.substr(0, end), "…");
}

v1::ProcessIdentity ToProto(ProcessId target) {
  v1::ProcessIdentity out;
  out.set_pid(static_cast<uint32_t>(target.pid));
  out.set_start_ticks(target.start_ticks);
  return out;
}

ProcessId FromProto(const v1::ProcessIdentity& process) {
  return {static_cast<pid_t>(process.pid()), process.start_ticks()};
}

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  v1::SessionErrorDetail detail;
  detail.set_status(static_cast<int>(SessionStatusOf(status)));
  detail.set_owner(SessionOwnerOf(status));
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()),
                      WireMessage(status.message()), detail.SerializeAsString());
}

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  v1::SessionErrorDetail detail;
  const bool told = !status.error_details().empty() &&
                    detail.ParseFromString(status.error_details()) &&
                    !SessionStatusName(detail.status()).empty() && detail.status() != 0;
  if (!told) return ConnectionError(status);
  const auto number = static_cast<SessionStatus>(detail.status());
  absl::Status result = number == SessionStatus::kError
                            ? SameCode(status)
                            : SessionError(number, status.error_message());
  if (detail.owner() != 0) SetSessionOwner(detail.owner(), &result);
  return result;
}

v1::SessionRequest RequestToProto(const std::vector<FilterSpec>& filters,
                                  const std::vector<ProcessId>& targets) {
  v1::SessionRequest request;
  for (const FilterSpec& filter : filters) {
    *request.add_filters() = FilterToProto(filter);
  }
  for (ProcessId target : targets) *request.add_processes() = ToProto(target);
  return request;
}

v1::Filter FilterToProto(const FilterSpec& spec) {
  v1::Filter out;
  out.set_kind(static_cast<v1::FilterKind>(spec.kind));
  v1::Selection* selection = out.mutable_selection();
  Put(spec.selection.gpus, selection->mutable_gpus());
  Put(spec.selection.kernel_include, selection->mutable_kernel_include());
  Put(spec.selection.kernel_exclude, selection->mutable_kernel_exclude());
  Put(spec.selection.dispatches, selection->mutable_dispatches());
  Put(spec.selection.iterations, selection->mutable_iterations());
  Put(spec.selection.hsa_functions, selection->mutable_hsa_functions());
  Put(spec.selection.hip_functions, selection->mutable_hip_functions());
  for (const auto& group : spec.counters) {
    Put(group, out.add_counters()->mutable_names());
  }
  Put(spec.optional, out.mutable_optional_counters());
  out.set_single_pass(spec.single_pass);
  out.set_keep_groups(spec.keep_groups);
  out.set_rotation_iterations(spec.rotation_iterations);
  out.set_rotation_ns(spec.rotation_ns);
  for (TraceDomain domain : spec.api_domains) {
    out.add_api_domains(static_cast<v1::TraceDomain>(domain));
  }
  for (TraceDomain domain : spec.optional_domains) {
    out.add_optional_domains(static_cast<v1::TraceDomain>(domain));
  }
  out.set_instances(spec.instances);
  out.set_arguments(spec.arguments);
  out.set_sample_interval_ns(spec.sample_interval_ns);
  out.set_sample_duration_ns(spec.sample_duration_ns);
  out.set_sample_delay_ns(spec.sample_delay_ns);
  out.set_sample_gpu(static_cast<uint32_t>(spec.sample_gpu_index + 1));
  return out;
}

FilterSpec FilterFromProto(const v1::Filter& filter) {
  FilterSpec spec;
  spec.kind = static_cast<FilterKind>(filter.kind());
  const v1::Selection& selection = filter.selection();
  spec.selection.gpus = Get(selection.gpus());
  spec.selection.kernel_include = Get(selection.kernel_include());
  spec.selection.kernel_exclude = Get(selection.kernel_exclude());
  spec.selection.dispatches = Get(selection.dispatches());
  spec.selection.iterations = Get(selection.iterations());
  spec.selection.hsa_functions = Get(selection.hsa_functions());
  spec.selection.hip_functions = Get(selection.hip_functions());
  for (const v1::CounterGroup& group : filter.counters()) {
    spec.counters.push_back(Get(group.names()));
  }
  spec.optional = Get(filter.optional_counters());
  spec.single_pass = filter.single_pass();
  spec.keep_groups = filter.keep_groups();
  spec.rotation_iterations = std::max<uint64_t>(1, filter.rotation_iterations());
  spec.rotation_ns = filter.rotation_ns();
  for (int domain : filter.api_domains()) {
    spec.api_domains.push_back(static_cast<TraceDomain>(domain));
  }
  for (int domain : filter.optional_domains()) {
    spec.optional_domains.push_back(static_cast<TraceDomain>(domain));
  }
  spec.instances = filter.instances();
  spec.arguments = filter.arguments();
  spec.sample_interval_ns = filter.sample_interval_ns();
  spec.sample_duration_ns = filter.sample_duration_ns();
  spec.sample_delay_ns = filter.sample_delay_ns();
  // A number that does not fit an int names no GPU either.
  constexpr uint32_t kMost = INT32_MAX;
  spec.sample_gpu_index = static_cast<int>(std::min(filter.sample_gpu(), kMost)) - 1;
  return spec;
}

}  // namespace rocattach
