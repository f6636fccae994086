#include "userspace/control/run_names.h"

#include <optional>
#include <string>

namespace rocattach {
namespace {

pid_t PidOf(const RecordHeader* record) {
  switch (record->kind) {
    case SessionRecordKind::kDispatch:
      return RecordAs<DispatchRecord>(record).pid;
    case SessionRecordKind::kTrace:
      return RecordAs<TraceRecord>(record).pid;
    default:
      return RecordAs<SampleRecord>(record).pid;
  }
}

void AddGpus(const TargetNames& names, v1::RunNames* out) {
  for (const GpuName& gpu : names.Gpus()) {
    v1::RunNames::Gpu* to = out->add_gpus();
    to->set_architecture(gpu.architecture);
    to->set_product_name(gpu.product_name);
    to->set_uuid(gpu.uuid);
    to->set_pci(gpu.pci);
    to->set_compute_units(gpu.compute_units);
  }
}

}  // namespace

void RunNames::Add(const RecordHeader* record, Sent* sent, v1::RunNames* out) {
  if (record->kind == SessionRecordKind::kDispatch) {
    const uint32_t kernel = RecordAs<DispatchRecord>(record).kernel_id;
    if (sent->kernels.contains(kernel)) return;
    // A name that is not known yet is looked up again for the next record.
    const std::optional<std::string> name = sent->names->Kernel(kernel);
    if (!name.has_value()) return;
    sent->kernels.insert(kernel);
    v1::RunNames::Kernel* to = out->add_kernels();
    to->set_id(kernel);
    to->set_name(*name);
  } else if (record->kind == SessionRecordKind::kTrace) {
    const auto& call = RecordAs<TraceRecord>(record);
    const std::pair<TraceDomain, uint32_t> function(call.domain, call.operation_id);
    if (call.domain == TraceDomain::kMemoryCopies ||
        sent->functions.contains(function)) {
      return;
    }
    const std::optional<std::string> name =
        sent->names->Function(function.first, function.second);
    if (!name.has_value()) return;
    sent->functions.insert(function);
    v1::RunNames::Function* to = out->add_functions();
    to->set_domain(static_cast<int32_t>(function.first));
    to->set_number(function.second);
    to->set_name(*name);
  }
}

std::vector<v1::RunNames> RunNames::For(const RecordHeader* begin,
                                        const RecordHeader* end,
                                        const SessionTargetNames* known) {
  std::vector<v1::RunNames> due;
  if (known == nullptr) return due;
  absl::MutexLock lock(&mutex_);
  const char* at = reinterpret_cast<const char*>(begin);
  while (at != reinterpret_cast<const char*>(end)) {
    const auto* record = reinterpret_cast<const RecordHeader*>(at);
    at += record->bytes;
    const pid_t pid = PidOf(record);
    Sent& sent = sent_[pid];
    v1::RunNames out;
    if (sent.names == nullptr) {
      sent.names = known->Find(pid);
      if (sent.names == nullptr) continue;
      AddGpus(*sent.names, &out);
    }
    Add(record, &sent, &out);
    if (out.ByteSizeLong() == 0) continue;
    out.set_pid(static_cast<uint32_t>(pid));
    due.push_back(std::move(out));
  }
  return due;
}

void RunNames::Ended(pid_t pid) {
  absl::MutexLock lock(&mutex_);
  sent_.erase(pid);
}

void AddSentNames(const v1::RunNames& sent, SessionTargetNames* names) {
  const std::shared_ptr<TargetNames> target =
      names->FindOrAdd(static_cast<pid_t>(sent.pid()));
  for (const v1::RunNames::Kernel& kernel : sent.kernels()) {
    target->AddKernel(kernel.id(), kernel.name());
  }
  for (const v1::RunNames::Function& function : sent.functions()) {
    target->AddFunction(static_cast<TraceDomain>(function.domain()), function.number(),
                        function.name());
  }
  if (sent.gpus().empty()) return;
  std::vector<GpuName> gpus;
  for (const v1::RunNames::Gpu& gpu : sent.gpus()) {
    gpus.push_back({gpu.architecture(), gpu.product_name(), gpu.uuid(), gpu.pci(),
                    gpu.compute_units()});
  }
  target->SetGpus(std::move(gpus));
}

}  // namespace rocattach
