#include "userspace/session/target_device.h"

#include <time.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "userspace/base/clock.h"
#include "userspace/base/session_status.h"
#include "userspace/base/status_macros.h"
#include "userspace/session/requested_values.h"

namespace rocattach {
namespace {

// Maximum time that Poll waits for a reading that covers its call.
constexpr uint64_t kPollTimeoutNs = 1'000'000'000;

// The GPUs that attached processes see; see TargetDevice::Check.
std::vector<TargetGpu> MachineGpus(SessionBackend& backend) {
  std::vector<std::vector<TargetGpu>> views;
  for (ProcessId target : backend.Targets()) {
    auto description = backend.Describe(target);
    if (description.ok()) views.push_back(std::move(description->gpus));
  }
  std::stable_sort(views.begin(), views.end(),
                   [](const auto& a, const auto& b) { return a.size() > b.size(); });
  std::vector<TargetGpu> gpus;
  std::set<std::string> keys;
  for (const std::vector<TargetGpu>& view : views) {
    for (const TargetGpu& gpu : view) {
      if (keys.insert(gpu.key).second) gpus.push_back(gpu);
    }
  }
  return gpus;
}

FilterSpec SamplerOf(const std::vector<std::string>& counters, int gpu_index) {
  FilterSpec spec;
  spec.kind = FilterKind::kCountersSampler;
  spec.counters = {counters};
  spec.single_pass = true;
  spec.sample_interval_ns = TargetDevice::kIntervalNs;
  spec.sample_gpu_index = gpu_index;
  return spec;
}

}  // namespace

// Adds up the readings of the process.
class DeviceSums : public RecordSink {
 public:
  void OnDispatches(ProcessId, absl::Span<const DispatchEvent>) override {}
  void OnCopies(ProcessId, absl::Span<const rocattach_copy>) override {}
  void OnApiCalls(ProcessId, absl::Span<const ApiEvent>) override {}
  void OnSamples(ProcessId, absl::Span<const SampleEvent> events) override {
    absl::MutexLock lock(&mutex_);
    for (const SampleEvent& event : events) {
      agent_id_ = event.agent_id;
      end_ns_ = event.end_ns;
      for (const rocattach_counter_value& reading : event.readings) Add(reading);
    }
  }
  void OnTargetEnded(ProcessId) override {
    absl::MutexLock lock(&mutex_);
    ended_ = true;
  }

  struct Now {
    std::vector<rocattach_counter_value> readings;
    uint32_t agent_id = 0;
    uint64_t end_ns = 0;  // end of the time that they cover
    bool ended = false;
  };
  Now Read() const {
    absl::MutexLock lock(&mutex_);
    Now now;
    for (const auto& [counter, reading] : sums_) now.readings.push_back(reading);
    now.agent_id = agent_id_;
    now.end_ns = end_ns_;
    now.ended = ended_;
    return now;
  }

 private:
  void Add(const rocattach_counter_value& reading)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    auto [entry, is_new] = sums_.try_emplace(reading.counter, reading);
    if (is_new) return;
    rocattach_counter_value& sum = entry->second;
    sum.sum += reading.sum;
    if (sum.instances == 1) {
      sum.minimum = sum.maximum = sum.sum;
    } else {
      // The extremes of instances are not known for a sum of several readings.
      sum.minimum = sum.maximum = std::nan("");
    }
  }

  mutable absl::Mutex mutex_;
  std::map<uint16_t, rocattach_counter_value> sums_ ABSL_GUARDED_BY(mutex_);
  uint32_t agent_id_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t end_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

absl::StatusOr<std::string> TargetDevice::Check(
    TargetOwners& owners, const std::vector<std::string>& counters, int gpu_index) {
  if (counters.empty()) {
    return SessionError(SessionStatus::kInvalidArguments, "no counters named");
  }
  const std::vector<TargetGpu> gpus = MachineGpus(*owners.backend);
  if (gpu_index < 0 || static_cast<size_t>(gpu_index) >= gpus.size()) {
    return SessionError(
        SessionStatus::kAgentNotFound,
        absl::StrCat("GPU ", gpu_index, " of the ", gpus.size(),
                     " that processes with a collector use; a GPU is measured through "
                     "such a process"));
  }
  const TargetGpu& gpu = gpus[static_cast<size_t>(gpu_index)];
  const ArchitectureCounters* known = owners.catalog->Find(gpu.architecture);
  if (known == nullptr) {
    return SessionError(
        SessionStatus::kCounterInformationMissing,
        absl::StrCat("the counters of ", gpu.architecture, " are not known"));
  }
  RETURN_IF_ERROR(PlanPasses(*known, {counters}, {.single_pass = true}).status());
  return gpu.key;
}

absl::StatusOr<std::shared_ptr<DeviceRun>> TargetDevice::Start(
    const std::shared_ptr<TargetOwners>& owners, SessionId session,
    const std::vector<std::string>& counters, const std::string& gpu_key) {
  absl::Status refused;  // the first reason
  for (ProcessId target : owners->backend->Targets()) {
    const auto description = owners->backend->Describe(target);
    if (!description.ok()) continue;
    const auto& gpus = description->gpus;
    const auto gpu = std::find_if(gpus.begin(), gpus.end(),
                                  [&](const TargetGpu& g) { return g.key == gpu_key; });
    if (gpu == gpus.end()) continue;
    auto plan = CompilePlan(session,
                            {SamplerOf(counters, static_cast<int>(gpu - gpus.begin()))},
                            *description, owners->catalog);
    if (!plan.ok()) {
      refused.Update(plan.status());
      continue;
    }
    auto device =
        std::make_shared<TargetDevice>(owners, session, target, counters, *plan);
    const absl::Status begun = device->Begin();
    if (begun.ok()) return std::shared_ptr<DeviceRun>(std::move(device));
    // The message that the counters are in use explains more than the reason why
    // another process cannot be used.
    const bool busy = SessionStatusOf(begun) == SessionStatus::kHasActiveSession;
    if (busy) {
      refused = begun;
    } else {
      refused.Update(begun);
    }
  }
  if (!refused.ok()) return refused;
  return SessionError(
      SessionStatus::kError,
      absl::StrCat("no process with a collector uses GPU ", gpu_key, " any more"));
}

TargetDevice::TargetDevice(std::shared_ptr<TargetOwners> owners, SessionId session,
                           ProcessId target, std::vector<std::string> counters,
                           std::shared_ptr<const CompiledPlan> plan)
    : owners_(std::move(owners)),
      session_(session),
      target_(target),
      counters_(std::move(counters)),
      plan_(std::move(plan)),
      sums_(std::make_shared<DeviceSums>()) {}

absl::Status TargetDevice::Begin() {
  const std::string process = absl::StrCat("process ", target_.pid);
  {
    absl::MutexLock lock(&owners_->mutex);
    for (const std::string& key : plan_->counter_gpus) {
      auto owner = owners_->counters.find(key);
      if (owner != owners_->counters.end()) {
        return CountersOwnedBy(key, owner->second);
      }
    }
    if (owners_->all != SessionId()) return OwnedBy("every process", owners_->all);
    auto [owner, is_new] = owners_->targets.try_emplace(target_, session_);
    if (!is_new) return OwnedBy(process, owner->second);
    for (const std::string& key : plan_->counter_gpus) {
      owners_->counters[key] = session_;
    }
  }
  const absl::Status started = owners_->backend->Start(target_, plan_, sums_);
  if (started.ok()) return absl::OkStatus();
  absl::MutexLock lock(&owners_->mutex);
  owners_->Release(session_);
  return SessionError(SessionStatus::kError,
                      absl::StrCat(process, ": ", started.message()));
}

absl::StatusOr<std::vector<double>> TargetDevice::Poll() {
  const uint64_t asked_ns = BootNs();
  DeviceSums::Now now = sums_->Read();
  // Callbacks must not wait: see SessionBackend::Drain.
  while (!UserCallback::Active() && now.end_ns < asked_ns) {
    const absl::Status drained = owners_->backend->Drain(target_);
    now = sums_->Read();
    if (now.ended || !drained.ok()) {
      return SessionError(
          SessionStatus::kError,
          absl::StrCat("process ", target_.pid, ", through which the GPU was read, ",
                       now.ended ? "has ended" : std::string(drained.message())));
    }
    if (now.end_ns >= asked_ns) break;
    if (BootNs() > asked_ns + kPollTimeoutNs) {
      return SessionError(
          SessionStatus::kError,
          absl::StrCat("process ", target_.pid,
                       ", through which the GPU is read, does not answer"));
    }
    const timespec pause = {0, 1'000'000};
    nanosleep(&pause, nullptr);
  }
  std::vector<double> values(counters_.size(), std::nan(""));
  const TargetGpu* gpu = plan_->Gpu(now.agent_id);
  const PlanArchitecture* architecture = plan_->Architecture(now.agent_id);
  if (gpu == nullptr || architecture == nullptr) return values;
  // Evaluated in the same way as a session's records.
  std::vector<RecordValue> seen;
  RequestedValues(*plan_, *architecture, architecture->sampler, counters_)
      .Append(/*pass=*/0, *gpu, now.readings, &seen);
  for (const RecordValue& value : seen) {
    // A name that was requested twice gets its value twice.
    for (size_t i = 0; i < values.size(); ++i) {
      if (counters_[i] == counters_[value.counter]) values[i] = value.value;
    }
  }
  return values;
}

absl::Status TargetDevice::Stop() {
  absl::Status stopped = owners_->backend->Stop(target_);
  if (!UserCallback::Active()) stopped.Update(owners_->backend->Settle(target_));
  absl::MutexLock lock(&owners_->mutex);
  owners_->Release(session_);
  if (stopped.ok()) return absl::OkStatus();
  return SessionError(SessionStatus::kError, stopped.message());
}

}  // namespace rocattach
