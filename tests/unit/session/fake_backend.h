// Processes that exist only in a test, which sets what they support, lets them record
// and end, and sees what the engine asked of them.
#ifndef ROCATTACH_TESTS_UNIT_SESSION_FAKE_BACKEND_H_
#define ROCATTACH_TESTS_UNIT_SESSION_FAKE_BACKEND_H_

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "userspace/base/clock.h"
#include "userspace/session/compiled_plan.h"
#include "userspace/session/missing_counters.h"
#include "userspace/session/session_backend.h"

namespace rocattach {

constexpr uint32_t kEverything =
    ROCATTACH_PLAN_RECORD_DISPATCHES | ROCATTACH_PLAN_RECORD_COUNTERS |
    ROCATTACH_PLAN_RECORD_COPIES | ROCATTACH_PLAN_RECORD_API |
    ROCATTACH_PLAN_RECORD_SAMPLES;

inline TargetGpu MakeGpu(uint32_t agent, const std::string& key,
                         const std::string& architecture = "gfx90a") {
  TargetGpu gpu;
  gpu.agent_id = agent;
  gpu.key = key;
  gpu.architecture = architecture;
  gpu.product_name = "AMD Instinct MI210";
  gpu.compute_units = 104;
  gpu.simds_per_cu = 4;
  gpu.shader_engines = 8;
  gpu.wavefront_size = 64;
  gpu.xccs = 1;
  return gpu;
}

inline std::vector<TargetFunction> MakeFunctions() {
  return {{ROCATTACH_PLAN_API_HSA, 0, "hsa_init"},
          {ROCATTACH_PLAN_API_HSA, 17, "hsa_queue_create"},
          {ROCATTACH_PLAN_API_HIP, 70, "hipMalloc"}};
}

class FakeBackend : public SessionBackend {
 public:
  struct Process {
    TargetDescription description;
    bool running = false;
    std::shared_ptr<const CompiledPlan> plan;
    std::shared_ptr<RecordSink> sink;
    absl::Status start_error, drain_error;
    std::set<std::string> sdk_lacks;  // missing counters
    int starts = 0, stops = 0, drains = 0;
    int delivering = 0;
  };

  ProcessId AddProcess(pid_t pid, std::vector<TargetGpu> gpus,
                       uint32_t kinds = kEverything) {
    std::lock_guard<std::mutex> lock(mutex_);
    const ProcessId target = {pid, 1000};
    Process& process = processes_[target];
    process.description = {std::move(gpus), kinds, "it is a fake", MakeFunctions()};
    return target;
  }

  // Returns a process to read or change, not while other threads use the engine.
  Process& process(ProcessId target) { return processes_.at(target); }
  // The values of each drain of a process that samples; no sample if empty.
  std::vector<rocattach_counter_value> device_readings;

  // The process delivers a record. These return false if it is not recording.
  bool Dispatch(ProcessId target, DispatchEvent event) {
    return Deliver(target, [&](RecordSink& sink) {
      sink.OnDispatches(target, {&event, 1});
    });
  }
  bool Copy(ProcessId target, const rocattach_copy& copy) {
    return Deliver(target, [&](RecordSink& sink) {
      sink.OnCopies(target, {&copy, 1});
    });
  }
  bool ApiCall(ProcessId target, const ApiEvent& event) {
    return Deliver(target, [&](RecordSink& sink) {
      sink.OnApiCalls(target, {&event, 1});
    });
  }
  bool Sample(ProcessId target, const SampleEvent& event) {
    return Deliver(target, [&](RecordSink& sink) {
      sink.OnSamples(target, {&event, 1});
    });
  }

  // Ends a process.
  void End(ProcessId target) {
    std::shared_ptr<RecordSink> sink;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      auto found = processes_.find(target);
      if (found == processes_.end()) return;
      idle_.wait(lock, [&] { return processes_.at(target).delivering == 0; });
      if (processes_.at(target).running) sink = processes_.at(target).sink;
      processes_.erase(target);
    }
    if (sink != nullptr) sink->OnTargetEnded(target);
  }

  std::vector<ProcessId> Targets() override {
    std::lock_guard<std::mutex> lock(mutex_);
    std::vector<ProcessId> targets;
    for (const auto& [target, process] : processes_) targets.push_back(target);
    return targets;
  }

  absl::StatusOr<TargetDescription> Describe(ProcessId target) override {
    std::lock_guard<std::mutex> lock(mutex_);
    auto found = processes_.find(target);
    if (found == processes_.end()) return absl::NotFoundError("it has ended");
    return found->second.description;
  }

  absl::StatusOr<ProcessId> FindTarget(pid_t pid) override {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [target, process] : processes_) {
      if (target.pid == pid) return target;
    }
    return absl::NotFoundError("no such process");
  }

  absl::Status Start(ProcessId target, std::shared_ptr<const CompiledPlan> plan,
                     std::shared_ptr<RecordSink> sink) override {
    std::lock_guard<std::mutex> lock(mutex_);
    auto found = processes_.find(target);
    if (found == processes_.end()) return absl::NotFoundError("it has ended");
    Process& process = found->second;
    if (!process.start_error.ok()) return process.start_error;
    for (const std::string& name : plan->counter_names) {
      if (process.sdk_lacks.count(name) == 0) continue;
      absl::Status refused = absl::FailedPreconditionError(
          absl::StrCat("the SDK of this process has no counter ", name, " for gfx90a"));
      SetMissingCounter(name, &refused);
      return refused;
    }
    if (process.running) return absl::InternalError("started twice");
    process.running = true;
    process.plan = std::move(plan);
    process.sink = std::move(sink);
    ++process.starts;
    return absl::OkStatus();
  }

  absl::Status Stop(ProcessId target) override {
    std::lock_guard<std::mutex> lock(mutex_);
    auto found = processes_.find(target);
    if (found == processes_.end()) return absl::OkStatus();
    if (!found->second.running) return absl::InternalError("stopped twice");
    found->second.running = false;
    ++found->second.stops;
    return absl::OkStatus();
  }

  absl::Status Settle(ProcessId target) override {
    std::unique_lock<std::mutex> lock(mutex_);
    idle_.wait(lock, [&] {
      auto now = processes_.find(target);
      return now == processes_.end() || now->second.delivering == 0;
    });
    return absl::OkStatus();
  }

  absl::Status Drain(ProcessId target) override {
    std::shared_ptr<RecordSink> sink;
    SampleEvent event;
    std::vector<rocattach_counter_value> readings;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      auto found = processes_.find(target);
      if (found == processes_.end()) return absl::OkStatus();
      Process& process = found->second;
      ++process.drains;
      if (!process.drain_error.ok() || !process.running || device_readings.empty() ||
          process.plan->image->sample_interval_ns == 0) {
        return process.drain_error;
      }
      sink = process.sink;
      readings = device_readings;
      event.agent_id = process.description.gpus[0].agent_id;
    }
    event.end_ns = BootNs();
    event.readings = readings;
    sink->OnSamples(target, {&event, 1});
    return absl::OkStatus();
  }

 private:
  // Only one delivery of a process runs at a time.
  template <typename F>
  bool Deliver(ProcessId target, F f) {
    std::shared_ptr<RecordSink> sink;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      idle_.wait(lock, [&] {
        auto found = processes_.find(target);
        return found == processes_.end() || found->second.delivering == 0;
      });
      auto found = processes_.find(target);
      if (found == processes_.end() || !found->second.running) return false;
      sink = found->second.sink;
      found->second.delivering = 1;
    }
    f(*sink);
    std::lock_guard<std::mutex> lock(mutex_);
    auto found = processes_.find(target);
    if (found != processes_.end()) {
      found->second.delivering = 0;
    }
    idle_.notify_all();
    return true;
  }

  std::mutex mutex_;
  std::condition_variable idle_;
  std::map<ProcessId, Process> processes_;
};

}  // namespace rocattach

#endif  // ROCATTACH_TESTS_UNIT_SESSION_FAKE_BACKEND_H_
