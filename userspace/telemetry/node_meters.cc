#include "userspace/telemetry/node_meters.h"

#include <algorithm>
#include <utility>

#include "injector/outcome.h"
#include "userspace/base/clock.h"
#include "userspace/record/window_state.h"

namespace rocattach {
namespace {

void Add(const LossTotals& from, LossTotals* to) {
  to->ring_full += from.ring_full;
  to->collector += from.collector;
  to->invalid += from.invalid;
  to->inflight += from.inflight;
  to->writer += from.writer;
  to->sampled_out += from.sampled_out;
}

}  // namespace

NodeMeters::NodeMeters(NodeMetersOptions options)
    : options_(std::move(options)), budget_(options_.most_series) {
  // To Prometheus, a counter that appears with its first event has not increased; so
  // every counter exists from the start.
  windows_[{"attached", "none"}] = windows_[{"passed", "none"}] = 0;
  for (int reason = v1::AttachReason_MIN; reason <= v1::AttachReason_MAX; ++reason) {
    if (!v1::AttachReason_IsValid(reason)) continue;
    const std::string name(AttachReasonName(static_cast<AttachReason>(reason)));
    windows_[{"refused", name}] = windows_[{"missed", name}] = 0;
  }
}

uint64_t NodeMeters::StartWallNs(const v1::Process& process) const {
  if (process.start_ns() == 0) return 0;
  const ClockSnapshot now = options_.clock();
  // The start is before 1970 if the machine's clock was never set: then 0.
  const uint64_t age_ns =
      now.boottime_ns - std::min(now.boottime_ns, process.start_ns());
  return now.realtime_ns - std::min(now.realtime_ns, age_ns);
}

std::shared_ptr<TargetMeter> NodeMeters::Open(
    const v1::Process& process, std::shared_ptr<const TargetNames> names) {
  // Only one process of each process ID is exposed: an earlier one has ended, or has
  // become this one by an exec.
  for (const auto& meter : meters_) {
    if (meter->pid() == process.pid()) meter->Hide(&budget_);
  }
  LimitEnded();
  auto meter = std::make_shared<ProcessMeter>(process, StartWallNs(process),
                                              std::move(names), options_.named_kernels);
  const ProcessId id = {static_cast<pid_t>(process.pid()), process.start_ticks()};
  for (const auto& [early, workload] : early_workloads_) {
    if (early == id) meter->set_workload(workload);
  }
  std::erase_if(early_workloads_, [&](const auto& early) { return early.first == id; });
  meters_.push_back(meter);
  return meter;
}

void NodeMeters::OnVerdict(const v1::WindowEvent& verdict) {
  const std::string reason(
      AttachReasonName(static_cast<AttachReason>(verdict.reason())));
  ++windows_[{std::string(VerdictName(verdict.state())), reason}];
}

void NodeMeters::SetWorkload(const ProcessId& process,
                             const WorkloadIdentity& workload) {
  for (const auto& meter : meters_) {
    if (meter->pid() == static_cast<uint32_t>(process.pid) &&
        meter->start_ticks() == process.start_ticks) {
      return meter->set_workload(workload);
    }
  }
  if (early_workloads_.size() == kMostEarlyWorkloads) early_workloads_.pop_front();
  early_workloads_.emplace_back(process, workload);
}

void NodeMeters::UpdateRingFill(ProcessMeter* meter) {
  const double fill = meter->TakeRingFill();
  for (auto& [consumer, most] : ring_fill_) most = std::max(most, fill);
}

void NodeMeters::Forget(ProcessMeter* meter) {
  meter->AddGrowthTo(own_sessions_, &gpus_);
  UpdateRingFill(meter);
  ended_overhead_ns_ += meter->own_ns();
  Add(meter->losses(), &ended_losses_);
  meter->Release(&budget_);
}

void NodeMeters::LimitEnded() {
  const auto has_ended = [](const auto& meter) { return meter->ended_ns() != 0; };
  auto ended =
      static_cast<size_t>(std::count_if(meters_.begin(), meters_.end(), has_ended));
  while (ended >= std::max<size_t>(options_.most_ended, 1)) {
    const auto oldest = std::find_if(meters_.begin(), meters_.end(), has_ended);
    if (!(*oldest)->SeenBy(options_.consumers)) ++unexposed_;
    Forget(oldest->get());
    meters_.erase(oldest);
    --ended;
  }
}

NodeSnapshot NodeMeters::CaptureSnapshot(MetricsConsumer consumer) {
  NodeSnapshot snapshot;
  snapshot.boot_ns = BootNs();
  for (auto& [key, gpu] : gpus_) gpu.owner = CounterOwner::kNone;
  snapshot.losses = ended_losses_;
  snapshot.overhead_ns = ended_overhead_ns_;
  for (const auto& meter : meters_) {
    meter->AddGrowthTo(own_sessions_, &gpus_);
    UpdateRingFill(meter.get());
    snapshot.overhead_ns += meter->own_ns();
    Add(meter->losses(), &snapshot.losses);
    snapshot.running += meter->ended_ns() == 0 ? 1 : 0;
    ProcessSnapshot process;
    if (meter->FillSnapshot(&budget_, &process)) {
      snapshot.processes.push_back(std::move(process));
    }
  }
  snapshot.gpus = gpus_;
  snapshot.windows = windows_;
  snapshot.series = budget_.used();
  snapshot.series_limit = budget_.limit();
  snapshot.series_refused = budget_.refused();
  snapshot.unexposed = unexposed_;
  if (consumer == MetricsConsumer::kViewer) return snapshot;
  snapshot.ring_fill = std::exchange(ring_fill_[consumer], 0);
  std::erase_if(meters_, [&](const auto& meter) {
    meter->MarkSeen(consumer);
    const bool over = meter->SeenBy(options_.consumers) &&
                      snapshot.boot_ns >= meter->ended_ns() + options_.grace_ns;
    if (over) Forget(meter.get());
    return over;
  });
  return snapshot;
}

}  // namespace rocattach
