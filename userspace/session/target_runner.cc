#include "userspace/session/target_runner.h"

#include <utility>

#include "userspace/base/session_status.h"
#include "userspace/session/filter_check.h"
#include "userspace/session/target_device.h"

namespace rocattach {

TargetRunner::TargetRunner(std::shared_ptr<SessionBackend> backend,
                           std::shared_ptr<const CounterCatalog> catalog)
    : owners_(std::make_shared<TargetOwners>()) {
  owners_->backend = std::move(backend);
  owners_->catalog = std::move(catalog);
}

absl::Status TargetRunner::CheckFilter(const FilterSpec& filter) {
  const CounterCatalog& catalog =
      filter.catalog != nullptr ? *filter.catalog : *owners_->catalog;
  return rocattach::CheckFilter(filter, catalog, *owners_->backend);
}

absl::StatusOr<ProcessId> TargetRunner::FindTarget(pid_t pid) {
  auto target = owners_->backend->FindTarget(pid);
  if (target.ok()) return target;
  return SessionError(SessionStatus::kInvalidArguments, target.status().message());
}

std::shared_ptr<TargetRun> TargetRunner::NewTargetRun(RunSpec spec) {
  return TargetRun::New(owners_, std::move(spec));
}

void TargetRunner::Arrived(ProcessId target) {
  std::shared_ptr<TargetRun> run;
  {
    absl::MutexLock lock(&owners_->mutex);
    run = owners_->run_of_all.lock();
  }
  if (run != nullptr) run->Arrived(target);
}

absl::StatusOr<std::string> TargetRunner::CheckDevice(
    const std::vector<std::string>& counters, int gpu_index) {
  return TargetDevice::Check(*owners_, counters, gpu_index);
}

absl::StatusOr<std::shared_ptr<DeviceRun>> TargetRunner::StartDevice(
    SessionId session, const std::vector<std::string>& counters,
    const std::string& gpu_key) {
  return TargetDevice::Start(owners_, session, counters, gpu_key);
}

}  // namespace rocattach
