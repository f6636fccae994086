#include "userspace/telemetry/metric_families.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "userspace/base/version.h"
#include "userspace/telemetry/gpu_use_families.h"
#include "userspace/telemetry/growing_family.h"
#include "userspace/telemetry/metric_labels.h"

namespace rocattach {
namespace {

using prometheus::MetricType;

double Seconds(uint64_t ns) {
  return static_cast<double>(ns) * 1e-9;
}
double Number(uint64_t value) {
  return static_cast<double>(value);
}

// Classic buckets end at powers of two of a second, as native ones do. From 1 µs to
// 64 s, and from 15 µs to 4 s.
constexpr int kDispatchPowers[] = {-20, -18, -16, -14, -12, -10, -8,
                                   -6,  -4,  -2,  0,   2,   4,   6};
constexpr int kHoldPowers[] = {-16, -15, -14, -13, -12, -11, -10,
                               -9,  -8,  -6,  -4,  -2,  0,   2};

prometheus::ClientMetric::Histogram ClassicHistogram(const PowerHistogram& durations,
                                                     absl::Span<const int> powers) {
  prometheus::ClientMetric::Histogram histogram;
  histogram.sample_count = durations.count();
  histogram.sample_sum = Seconds(durations.sum_ns());
  for (const int power : powers) {
    histogram.bucket.push_back({durations.UpTo(power), std::ldexp(1, power)});
  }
  return histogram;
}

void EmitProcesses(const NodeSnapshot& node, FamilySink sink) {
  {
    Family info("rocattach_target_info", MetricType::Gauge,
                "An attached process; the other series of its pid belong to it.", sink);
    for (const ProcessSnapshot& p : node.processes) info.Add(InfoLabels(p), 1);
  }
  {
    Family dropped("rocattach_target_dropped_total", MetricType::Counter,
                   "Operations of the process that were seen and lost.", sink);
    for (const ProcessSnapshot& p : node.processes) {
      dropped.Add(ProcessLabels(p), Number(p.dropped));
    }
  }
  {
    Family sampled_out("rocattach_target_sampled_out_total", MetricType::Counter,
                       "Dispatches of the process that were counted and, because of "
                       "the service's budget, not recorded.",
                       sink);
    for (const ProcessSnapshot& p : node.processes) {
      if (p.sampled_out == 0) continue;
      sampled_out.Add(ProcessLabels(p), Number(p.sampled_out));
    }
  }
  {
    Family time("rocattach_target_gpu_time_seconds_total", MetricType::Counter,
                "Sum of the durations of the process's kernels.", sink);
    for (const ProcessSnapshot& p : node.processes) {
      for (const auto& [gpu, totals] : p.gpus) {
        time.Add(ProcessLabels(p, {{"gpu", gpu}}), Seconds(totals.time_ns));
      }
    }
  }
  Family dispatches("rocattach_target_dispatches_total", MetricType::Counter,
                    "Kernel dispatches of the process.", sink);
  for (const ProcessSnapshot& p : node.processes) {
    for (const auto& [gpu, totals] : p.gpus) {
      dispatches.Add(ProcessLabels(p, {{"gpu", gpu}}), Number(totals.dispatches));
    }
  }
}

void EmitCopies(const NodeSnapshot& node, FamilySink sink) {
  const auto emit = [&](const char* name, const char* help, auto value) {
    Family family(name, MetricType::Counter, help, sink);
    for (const ProcessSnapshot& p : node.processes) {
      for (const auto& [direction, totals] : p.copies) {
        family.Add(ProcessLabels(p, {{"direction", DirectionLabel(direction)}}),
                   value(totals));
      }
    }
  };
  emit("rocattach_target_memcpy_total", "Memory copies of the process.",
       [](const CopyTotals& t) { return Number(t.copies); });
  emit("rocattach_target_memcpy_bytes_total", "Bytes that the process has copied.",
       [](const CopyTotals& t) { return Number(t.bytes); });
  emit("rocattach_target_memcpy_seconds_total",
       "Sum of the durations of the process's memory copies.",
       [](const CopyTotals& t) { return Seconds(t.time_ns); });
}

void EmitCounters(const NodeSnapshot& node, FamilySink sink) {
  const auto emit = [&](const char* name, const char* help, auto value) {
    Family family(name, MetricType::Counter, help, sink);
    for (const ProcessSnapshot& p : node.processes) {
      for (const auto& [key, totals] : p.counters) {
        family.Add(ProcessLabels(p, {{"gpu", key.first}, {"counter", key.second}}),
                   value(totals));
      }
    }
  };
  emit("rocattach_target_pmc_total",
       "Sum of a hardware counter over the dispatches of the process that were "
       "measured.",
       [](const MeasuredCounter& t) { return t.sum; });
  emit("rocattach_target_pmc_dispatches_total",
       "Dispatches that rocattach_target_pmc_total is based on.",
       [](const MeasuredCounter& t) { return Number(t.dispatches); });
}

void EmitKernels(const NodeSnapshot& node, Demangler* demangler, FamilySink sink) {
  const auto emit = [&](const char* name, const char* help, auto value) {
    Family family(name, MetricType::Counter, help, sink);
    for (const ProcessSnapshot& p : node.processes) {
      for (const KernelSnapshot& kernel : p.kernels) {
        family.Add(ProcessLabels(p, {{"kernel", KernelId(kernel.id)}}),
                   value(kernel.totals));
      }
      if (!p.has_other_kernels) continue;
      family.Add(ProcessLabels(p, {{"kernel", "other"}}), value(p.other_kernels));
    }
  };
  emit("rocattach_kernel_time_seconds_total",
       "Sum of the durations of a kernel, for the busiest of a process.",
       [](const OperationTotals& t) { return Seconds(t.time_ns); });
  emit("rocattach_kernel_dispatches_total",
       "Dispatches of a kernel, for the busiest of a process.",
       [](const OperationTotals& t) { return Number(t.dispatches); });
  Family info("rocattach_kernel_info", MetricType::Gauge,
              "The name that the label kernel represents.", sink);
  absl::flat_hash_set<uint64_t> named;
  for (const ProcessSnapshot& p : node.processes) {
    for (const KernelSnapshot& kernel : p.kernels) {
      if (!named.insert(kernel.id).second) continue;
      const std::string name = ShortName(kernel.name, demangler);
      info.Add({{"kernel", KernelId(kernel.id)}, {"name", name}}, 1);
    }
  }
}

void EmitGpus(const NodeSnapshot& node, FamilySink sink) {
  const auto emit = [&](const char* name, const char* help, auto value) {
    Family family(name, MetricType::Counter, help, sink);
    for (const auto& [key, gpu] : node.gpus) {
      family.Add({{"gpu", key}}, value(gpu.totals));
    }
  };
  emit("rocattach_gpu_time_seconds_total",
       "Sum of the durations of the kernels of all processes, ended ones included.",
       [](const GpuTotals& t) { return Seconds(t.operations.time_ns); });
  emit("rocattach_gpu_dispatches_total",
       "Kernel dispatches of all processes, ended ones included.",
       [](const GpuTotals& t) { return Number(t.operations.dispatches); });
  emit("rocattach_gpu_untimed_dispatches_total",
       "Dispatches whose times are not known: they are in no duration.",
       [](const GpuTotals& t) { return Number(t.untimed); });
  {
    Family durations("rocattach_dispatch_duration_seconds", MetricType::Histogram,
                     "Durations of kernel dispatches.", sink);
    for (const auto& [key, gpu] : node.gpus) {
      const PowerHistogram& of_gpu = gpu.totals.durations;
      durations.AddHistogram({{"gpu", key}}, ClassicHistogram(of_gpu, kDispatchPowers),
                             of_gpu);
    }
  }
  {
    Family info("rocattach_gpu_info", MetricType::Gauge,
                "A GPU of the machine, or a partition of one.", sink);
    for (const auto& [key, gpu] : node.gpus) info.Add(GpuLabels(key, gpu), 1);
  }
  const auto sampled = [&](const char* name, const char* help, auto value) {
    Family family(name, MetricType::Counter, help, sink);
    for (const auto& [key, gpu] : node.gpus) {
      for (const auto& [counter, totals] : gpu.sampled) {
        family.Add({{"gpu", key}, {"counter", counter}}, value(totals));
      }
    }
  };
  sampled("rocattach_gpu_pmc_total",
          "Sum of a hardware counter of the whole GPU, over the time in which it was "
          "counted.",
          [](const GpuCounterTotals& c) { return c.sum; });
  sampled("rocattach_gpu_pmc_seconds_total",
          "Time in which rocattach_gpu_pmc_total was counted.",
          [](const GpuCounterTotals& c) { return Seconds(c.covered_ns); });
  Family owner("rocattach_gpu_pmc_owner", MetricType::Gauge,
               "Who owns the hardware counters of a GPU, as far as this service knows.",
               sink);
  for (const auto& [key, gpu] : node.gpus) {
    owner.Add({{"gpu", key}, {"owner", CounterOwnerName(gpu.owner)}}, 1);
  }
}

void EmitWindows(const NodeSnapshot& node, FamilySink sink) {
  {
    Family windows("rocattach_attach_total", MetricType::Counter,
                   "Verdicts of attach windows.", sink);
    for (const auto& [key, count] : node.windows) {
      windows.Add({{"result", key.first}, {"reason", key.second}}, Number(count));
    }
  }
  {
    Family missed("rocattach_missed_windows_total", MetricType::Counter,
                  "Processes that mapped a copy of the HSA runtime before it had a "
                  "probe, and had no window or may have had none.",
                  sink);
    for (const auto& [reason, count] : node.missed_windows) {
      missed.Add({{"reason", reason}}, Number(count));
    }
  }
  {
    Family unknown("rocattach_workload_failures_total", MetricType::Counter,
                   "Processes whose workload could not be found out, or not "
                   "completely, by reason.",
                   sink);
    for (const auto& [reason, count] : node.unknown_workloads) {
      unknown.Add({{"reason", reason}}, Number(count));
    }
  }
  {
    Family targets("rocattach_targets", MetricType::Gauge,
                   "Processes with windows that live now, by verdict; open: none yet. "
                   "ending: they have ended, and are still read.",
                   sink);
    for (const auto& [state, count] : node.targets) {
      targets.Add({{"state", state}}, Number(count));
    }
  }
  Family holds(
      "rocattach_hold_duration_seconds", MetricType::Histogram,
      "How long threads were held for an attach: from the hit of the probe to the "
      "release of the thread.",
      sink);
  const PowerHistogram& of_node = node.run.hold_powers;
  holds.AddHistogram({}, ClassicHistogram(of_node, kHoldPowers), of_node);
}

void EmitWindowLosses(const WindowLosses& losses, FamilySink sink) {
  {
    Family lost("rocattach_events_lost_total", MetricType::Counter,
                "Kernel events that were lost for lack of room, of BPF programs and of "
                "file mappings: windows may have gone unseen; and how often those of "
                "opens were.",
                sink);
    lost.Add({{"source", "bpf"}}, Number(losses.events));
    lost.Add({{"source", "mmap"}}, Number(losses.mappings));
    lost.Add({{"source", "open"}}, Number(losses.opens));
  }
  const auto emit = [&](const char* name, const char* help, uint64_t value) {
    Family(name, MetricType::Counter, help, sink).Add({}, Number(value));
  };
  emit("rocattach_windows_over_budget_total",
       "Windows that the budget of a user refused in the kernel, each one counted.",
       losses.over_budget);
  emit("rocattach_windows_unclaimed_total",
       "Windows that were let through because the kernel's table of windows was full.",
       losses.unclaimed);
  emit(
      "rocattach_looks_left_out_total",
      "Processes that opened or mapped the HSA runtime and were not looked at, because "
      "too many of their user's waited: under a translator they may die.",
      losses.looks_left_out);
  emit("rocattach_mapping_holds_total",
       "Threads that were stopped while their copy of the HSA runtime got its probe.",
       losses.mapping_holds);
  Family("rocattach_oldest_event_age_seconds", MetricType::Gauge,
         "For how long the kernel's events have been waiting to be read, at most: no "
         "window is served meanwhile.",
         sink)
      .Add({}, Seconds(losses.unattended_ns));
  Family(
      "rocattach_kept_threads", MetricType::Gauge,
      "Threads of the service that a process keeps waiting, by its memory, its files "
      "or the lock of its mappings, for more than two holds.",
      sink)
      .Add({}, Number(losses.kept_threads));
  Family deadlines("rocattach_hold_deadlines_total", MetricType::Counter,
                   "Holds that ended because of the time, before the service was done.",
                   sink);
  deadlines.Add({{"at", "window"}}, Number(losses.window_deadlines));
  deadlines.Add({{"at", "mapping"}}, Number(losses.mapping_deadlines));
}

void EmitLosses(const NodeSnapshot& node, FamilySink sink) {
  if (node.window_losses.has_value()) EmitWindowLosses(*node.window_losses, sink);
  {
    Family records("rocattach_records_total", MetricType::Counter,
                   "Operations that were recorded.", sink);
    records.Add({{"kind", "dispatch"}}, Number(node.run.dispatches));
    records.Add({{"kind", "copy"}}, Number(node.run.copies));
  }
  {
    Family dropped("rocattach_records_dropped_total", MetricType::Counter,
                   "Operations that were seen and not recorded, by reason.", sink);
    dropped.Add({{"reason", "ring_full"}}, Number(node.losses.ring_full));
    dropped.Add({{"reason", "collector"}}, Number(node.losses.collector));
    dropped.Add({{"reason", "invalid"}}, Number(node.losses.invalid));
    dropped.Add({{"reason", "target_died"}}, Number(node.losses.inflight));
    dropped.Add({{"reason", "writer"}}, Number(node.losses.writer));
  }
  {
    Family ratio("rocattach_sampling_ratio", MetricType::Gauge,
                 "The share of dispatches that is recorded, to stay within the "
                 "service's budget: 1 is all of them; at 0 they are only counted.",
                 sink);
    ratio.Add({}, node.run.sampling.ratio());
  }
  {
    Family sampled_out("rocattach_records_sampled_out_total", MetricType::Counter,
                       "Dispatches that were counted and, because of the service's "
                       "budget, not recorded.",
                       sink);
    sampled_out.Add({}, Number(node.losses.sampled_out));
  }
  {
    Family unseen("rocattach_packets_unseen_total", MetricType::Counter,
                  "Packets that GPUs consumed before a collector could read them, or "
                  "that run work which they do not describe, of processes that have "
                  "ended.",
                  sink);
    unseen.Add({}, Number(node.run.unseen));
  }
  {
    Family unheard("rocattach_messages_dropped_total", MetricType::Counter,
                   "Messages about windows and ends for which there was no room.",
                   sink);
    unheard.Add({}, Number(node.run.unheard));
  }
  {
    Family paused(
        "rocattach_recording_paused", MetricType::Gauge,
        "1 while the recording cannot be written, for example on a full disk.", sink);
    paused.Add({}, node.run.paused ? 1 : 0);
  }
  {
    Family fill(
        "rocattach_ring_fill_ratio_max", MetricType::Gauge,
        "The fullest that a ring of a collector was when it was read, since the "
        "last scrape; at 1 records are lost.",
        sink);
    fill.Add({}, node.ring_fill);
  }
  {
    Family overhead("rocattach_overhead_seconds_total", MetricType::Counter,
                    "Time that collectors took from their processes, from samples.",
                    sink);
    overhead.Add({}, Seconds(node.overhead_ns));
  }
  Family unbelievable("rocattach_targets_not_believable_total", MetricType::Counter,
                      "Processes with implausible numbers, which are no longer read.",
                      sink);
  unbelievable.Add({}, Number(node.run.not_believable));
  Family unseen_work(
      "rocattach_targets_unseen_work_total", MetricType::Counter,
      "Processes that use GPUs in a way that their collectors do not see, "
      "as the kernel driver says.",
      sink);
  unseen_work.Add({}, Number(node.run.unseen_work));
  Family times(
      "rocattach_dispatch_times_not_believable_total", MetricType::Counter,
      "Dispatches, of processes that have ended, whose times cannot be theirs: "
      "they start after a later packet of their queue, or before they were "
      "submitted.",
      sink);
  times.Add({}, Number(node.run.times_not_believable));
}

void EmitSelf(const NodeSnapshot& node, const SelfUsage& self, FamilySink sink) {
  const auto emit = [&](const char* name, MetricType type, const char* help,
                        double value, MetricLabels labels = {}) {
    Family(name, type, help, sink).Add(std::move(labels), value);
  };
  emit("rocattach_series", MetricType::Gauge,
       "Series of processes and their kernels, as far as they count for the limit.",
       Number(node.series));
  emit("rocattach_series_limit", MetricType::Gauge, "The limit for rocattach_series.",
       Number(node.series_limit));
  emit("rocattach_series_refused_total", MetricType::Counter,
       "Series that found no room below the limit.", Number(node.series_refused));
  emit("rocattach_targets_unexposed_total", MetricType::Counter,
       "Processes that ended and were forgotten before a scrape.",
       Number(node.unexposed));
  if (node.pushes.has_value()) {
    Family pushes("rocattach_pushes_total", MetricType::Counter,
                  "Pushes of these metrics, by result.", sink);
    pushes.Add({{"result", "accepted"}}, Number(node.pushes->accepted));
    pushes.Add({{"result", "failed"}}, Number(node.pushes->failed));
  }
  if (node.pushes.has_value()) {
    emit("rocattach_push_points_rejected_total", MetricType::Counter,
         "Data points of accepted pushes that the collector did not take.",
         Number(node.pushes->rejected_points));
  }
  if (node.profile_pushes.has_value()) {
    Family pushes("rocattach_profile_pushes_total", MetricType::Counter,
                  "Requests with profiles, by result.", sink);
    pushes.Add({{"result", "accepted"}}, Number(node.profile_pushes->accepted));
    pushes.Add({{"result", "failed"}}, Number(node.profile_pushes->failed));
  }
  emit("rocattach_http_requests_total", MetricType::Counter,
       "Requests to this endpoint that were answered.", Number(self.requests));
  emit("rocattach_http_connections_refused_total", MetricType::Counter,
       "Connections to this endpoint that were closed because there were too many.",
       Number(self.connections_refused));
  emit("rocattach_build_info", MetricType::Gauge, "The version of the service.", 1,
       {{"version", ROCATTACH_VERSION}});
  emit("process_cpu_seconds_total", MetricType::Counter,
       "Processor time of the service.", self.cpu_seconds);
  emit("process_resident_memory_bytes", MetricType::Gauge,
       "Resident memory of the service.", Number(self.resident_bytes));
  emit("process_start_time_seconds", MetricType::Gauge,
       "When the service started, since the epoch.", self.start_time_seconds);
}

}  // namespace

void EmitFamilies(const NodeSnapshot& snapshot, const SelfUsage& self,
                  Demangler* demangler, FamilySink sink) {
  EmitProcesses(snapshot, sink);
  EmitCopies(snapshot, sink);
  EmitCounters(snapshot, sink);
  EmitKernels(snapshot, demangler, sink);
  EmitGpus(snapshot, sink);
  EmitGpuUse(snapshot, sink);
  EmitWindows(snapshot, sink);
  EmitLosses(snapshot, sink);
  EmitSelf(snapshot, self, sink);
}

}  // namespace rocattach
