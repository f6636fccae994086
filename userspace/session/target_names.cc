#include "userspace/session/target_names.h"

namespace rocattach {

void TargetNames::AddKernel(uint32_t kernel, std::string mangled) {
  absl::MutexLock lock(&mutex_);
  kernels_[kernel] = std::move(mangled);
}

void TargetNames::AddFunction(TraceDomain domain, uint32_t function, std::string name) {
  absl::MutexLock lock(&mutex_);
  functions_[{domain, function}] = std::move(name);
}

void TargetNames::SetGpus(std::vector<GpuName> gpus) {
  absl::MutexLock lock(&mutex_);
  gpus_ = std::move(gpus);
}

std::optional<std::string> TargetNames::Kernel(uint32_t kernel) const {
  absl::MutexLock lock(&mutex_);
  auto found = kernels_.find(kernel);
  if (found == kernels_.end()) return std::nullopt;
  return found->second;
}

std::optional<std::string> TargetNames::Function(TraceDomain domain,
                                                 uint32_t function) const {
  absl::MutexLock lock(&mutex_);
  auto found = functions_.find({domain, function});
  if (found == functions_.end()) return std::nullopt;
  return found->second;
}

std::vector<GpuName> TargetNames::Gpus() const {
  absl::MutexLock lock(&mutex_);
  return gpus_;
}

void SessionTargetNames::Set(pid_t pid, std::shared_ptr<TargetNames> names) {
  absl::MutexLock lock(&mutex_);
  targets_[pid] = std::move(names);
}

void SessionTargetNames::Remove(pid_t pid) {
  absl::MutexLock lock(&mutex_);
  targets_.erase(pid);
}

std::shared_ptr<TargetNames> SessionTargetNames::Find(pid_t pid) const {
  absl::MutexLock lock(&mutex_);
  auto found = targets_.find(pid);
  return found == targets_.end() ? nullptr : found->second;
}

std::shared_ptr<TargetNames> SessionTargetNames::FindOrAdd(pid_t pid) {
  absl::MutexLock lock(&mutex_);
  std::shared_ptr<TargetNames>& names = targets_[pid];
  if (names == nullptr) names = std::make_shared<TargetNames>();
  return names;
}

}  // namespace rocattach
