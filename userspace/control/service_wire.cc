#include "userspace/control/service_wire.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "userspace/base/human.h"
#include "userspace/base/status_macros.h"
#include "userspace/control/session_wire.h"
#include "userspace/watch/discovery/sdk_version.h"

namespace rocattach {
namespace {

// The service's counters and those in the request; null if it has none.
absl::StatusOr<std::shared_ptr<const CounterCatalog>> CatalogOf(
    const v1::SessionRequest& request, const CounterCatalog& known) {
  if (request.counter_files().empty()) return nullptr;
  auto catalog = std::make_shared<CounterCatalog>(known);
  for (const v1::CounterFile& file : request.counter_files()) {
    RETURN_IF_ERROR(catalog->Add(file.text(), file.name()));
  }
  return catalog;
}

// "counters of 100 dispatches", "5 API calls" …
std::vector<std::string> CollectedWords(const CollectedCounts& counts) {
  std::vector<std::string> words;
  const auto add = [&](const char* before, uint64_t count, const char* what) {
    if (count == 0) return;
    words.push_back(absl::StrCat(before, HumanCount(count), " ", what));
  };
  add("counters of ", counts.counted, "dispatches");
  add("", counts.dispatches, "dispatches");
  add("", counts.samples, "samples of GPUs");
  add("", counts.api_calls, "API calls and markers");
  add("", counts.copies, "memory copies");
  add("", counts.memory, "allocations and releases of memory");
  return words;
}

}  // namespace

absl::StatusOr<SessionRequest> RequestFromProto(const v1::SessionRequest& request,
                                                const CounterCatalog& known) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const CounterCatalog> catalog,
                   CatalogOf(request, known));
  SessionRequest spec;
  for (const v1::ProcessIdentity& process : request.processes()) {
    spec.targets.push_back(FromProto(process));
  }
  for (const v1::Filter& filter : request.filters()) {
    spec.filters.push_back(FilterFromProto(filter));
    spec.filters.back().catalog = catalog;
  }
  for (const v1::Period& period : request.periods()) {
    spec.periods.push_back({period.delay_ns(), period.duration_ns(), period.repeat()});
  }
  spec.duration_ns = request.duration_ns();
  return spec;
}

v1::SessionStatus StatusToProto(const SessionInfo& info) {
  v1::SessionStatus out;
  out.set_session(info.number);
  out.set_active(info.active);
  out.set_over(info.over);
  out.set_begin_ns(info.begin_ns);
  out.set_end_ns(info.end_ns);
  out.set_waiting_for(info.waiting_for);
  for (const std::string& what : info.collects) out.add_collects(what);
  for (std::string& what : CollectedWords(info.collected)) {
    out.add_collected(std::move(what));
  }
  for (const std::string& name : info.counters) out.add_counters(name);
  for (pid_t pid : info.running) out.add_pids(static_cast<uint32_t>(pid));
  for (const auto& [pid, reason] : info.refused) {
    v1::RefusedProcess* refused = out.add_refused();
    refused->set_pid(static_cast<uint32_t>(pid));
    refused->set_reason(reason);
  }
  return out;
}

v1::AttachedProcess AttachedToProto(ProcessId target,
                                    const TargetDescription& description) {
  v1::AttachedProcess process;
  process.set_pid(static_cast<uint32_t>(target.pid));
  for (const TargetGpu& gpu : description.gpus) process.add_gpus(gpu.architecture);
  const auto can = [&](uint32_t kind) {
    return (description.record_kinds & kind) != 0;
  };
  process.set_can_count(can(ROCATTACH_PLAN_RECORD_COUNTERS));
  process.set_can_sample(can(ROCATTACH_PLAN_RECORD_SAMPLES));
  if (process.can_count()) return process;
  process.set_reason(description.missing_reason);
  const bool has_sdk = can(ROCATTACH_PLAN_RECORD_API);
  if (has_sdk || !process.can_sample()) return process;
  // Samples need the SDK to be added, which not every version allows.
  const absl::Status addable = CheckSdkOfProcessCanBeAdded(target.pid);
  process.set_can_sample(addable.ok());
  if (!addable.ok()) process.set_reason(std::string(addable.message()));
  return process;
}

}  // namespace rocattach
