#include "userspace/report/report_tables.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "userspace/base/human.h"
#include "userspace/report/report_words.h"
#include "userspace/report/table.h"
#include "userspace/report/text.h"

namespace rocattach {
namespace {

std::string Number(const std::optional<double>& value) {
  constexpr double kWholeLimit = 9e15;
  if (!value.has_value()) return "-";
  if (!(std::abs(*value) < kWholeLimit) || *value != std::trunc(*value)) {
    return absl::StrFormat("%.6g", *value);
  }
  return absl::StrCat(*value < 0 ? "-" : "",
                      HumanCount(static_cast<uint64_t>(std::abs(*value))));
}

// The standard deviation; "-" if it is not known.
std::string Deviation(const DurationHistogram& durations) {
  if (durations.count() < 2) return "-";
  return HumanDuration(static_cast<uint64_t>(std::llround(durations.deviation())));
}

std::string TooSeldom(const std::string& kernel, const std::vector<uint64_t>& passes) {
  uint64_t measured = 0;
  for (uint64_t dispatches : passes) measured += dispatches;
  return absl::StrCat(kernel, " was measured ", Plural(measured, "time", "times"),
                      ", too rarely for its ", passes.size(), " passes");
}

// "3 of 4": the passes that measured the kernel, of those that the plan has for it.
std::string PassesText(const KernelCounters& kernel) {
  const size_t measured =
      kernel.passes.size() -
      static_cast<size_t>(std::count(kernel.passes.begin(), kernel.passes.end(), 0));
  return absl::StrCat(measured, " of ", kernel.passes.size());
}

}  // namespace

void WriteGroups(const ProcessReport& process, const KernelGroups& groups,
                 ReportPage* page) {
  if (groups.empty()) return;
  const std::vector<GroupReport> list = GroupKernels(process.KernelsByName(), groups);
  if (list.empty()) return;
  uint64_t total = 0;
  for (const GroupReport& group : list) total += group.durations.sum();
  Table table({"share", "count", "total", "mean", "kernels", "group"}, {"kernels"});
  for (const GroupReport& group : list) {
    table.Add({Percent(group.durations.sum(), total), HumanCount(group.count),
               HumanDuration(group.durations.sum()),
               HumanDuration(group.durations.mean()), HumanCount(group.kernels),
               group.name.empty() ? "(in no group)" : TerminalSafe(group.name)});
  }
  page->Add(table);
}

void WriteKernels(const ProcessReport& process, ReportPage* page) {
  std::vector<KernelReport> kernels = process.KernelsByName();
  if (kernels.empty()) return;
  uint64_t total = 0;
  for (const KernelReport& kernel : kernels) total += kernel.durations.sum();
  Table table(
      {"share", "count", "total", "mean", "σ", "min", "p50", "p99", "max", "kernel"},
      {"p50", "p99", "σ", "min", "max"});
  size_t shown = page->Shown(kernels.size());
  for (size_t i = 0; i < shown; ++i) {
    const KernelReport& kernel = kernels[i];
    const DurationHistogram& d = kernel.durations;
    auto time = [&](uint64_t ns) {
      return d.count() == 0 ? std::string("-") : HumanDuration(ns);
    };
    table.Add({d.count() == 0 ? "-" : Percent(d.sum(), total), HumanCount(kernel.count),
               time(d.sum()), time(d.mean()), Deviation(d), time(d.min()),
               time(d.Quantile(0.5)), time(d.Quantile(0.99)), time(d.max()),
               KernelText(kernel)});
  }
  page->Add(table);
  page->LeftOut(kernels.size(), "more kernel", "more kernels");
}

void WriteCopies(const ProcessReport& process, ReportPage* page) {
  if (process.copies.empty()) return;
  Table table(
      {"count", "bytes", "total", "mean", "min", "p50", "p99", "max", "GB/s", "copies"},
      {"p50", "p99", "min", "max"});
  for (const auto& [direction, copies] : process.copies) {
    const DurationHistogram& d = copies.durations;
    auto time = [&](uint64_t ns) {
      return d.count() == 0 ? std::string("-") : HumanDuration(ns);
    };
    std::string rate = "-";
    if (d.sum() > 0) {
      rate = absl::StrFormat("%.2f", static_cast<double>(copies.timed_bytes) /
                                         static_cast<double>(d.sum()));
    }
    table.Add({HumanCount(copies.count), HumanBytes(copies.bytes), time(d.sum()),
               time(d.mean()), time(d.min()), time(d.Quantile(0.5)),
               time(d.Quantile(0.99)), time(d.max()), rate,
               DirectionText(copies.direction)});
  }
  page->Add(table);
}

void WriteCounters(const PlanReport& plan, ReportPage* page) {
  if (plan.kernels.empty()) return;
  Table table({"total", "mean", "dispatches", "passes", "counter", "kernel"},
              {"passes", "dispatches"});
  bool mixed = false;
  std::vector<std::string> incomplete;
  const size_t shown = page->Shown(plan.kernels.size());
  for (size_t i = 0; i < shown; ++i) {
    const KernelCounters& kernel = plan.kernels[i];
    std::string name = kernel.kernel.empty() ? absl::StrCat("kernel ", kernel.kernel_id)
                                             : TerminalSafe(kernel.kernel);
    if (!kernel.complete) incomplete.push_back(TooSeldom(name, kernel.passes));
    if (plan.plan.architectures_size() > 1) {
      absl::StrAppend(&name, " [", TerminalSafe(kernel.architecture), "]");
    }
    for (const KernelValue& value : kernel.values) {
      mixed |= value.mixed;
      table.Add({Number(value.total), Number(value.mean), HumanCount(value.dispatches),
                 PassesText(kernel),
                 absl::StrCat(TerminalSafe(value.name), value.mixed ? "*" : ""), name});
    }
  }
  page->Add(table);
  if (mixed) {
    page->AddRemark(
        "* mixed: from means over different dispatches, no pass holds it whole");
  }
  for (const std::string& text : incomplete) page->AddRemark(text);
  page->LeftOut(plan.kernels.size(), "more kernel", "more kernels");
}

std::string GpuNumber(const ProcessReport& process, uint32_t agent_id) {
  uint32_t number = 0;
  for (const auto& [id, agent] : process.agents) {
    if (agent.type() != v1::AGENT_TYPE_GPU) continue;
    if (id == agent_id) return absl::StrCat(number);
    ++number;
  }
  return absl::StrCat("agent ", agent_id);
}

void WriteSamples(const ProcessReport& process, const PlanReport& plan,
                  ReportPage* page) {
  if (plan.samples.empty()) return;
  Table table({"total", "per second", "min", "max", "samples", "GPU", "counter"},
              {"min", "max"});
  for (const SampledCounter& sampled : plan.samples) {
    std::optional<double> rate;
    if (sampled.covered_ns > 0) {
      rate = sampled.total * 1e9 / static_cast<double>(sampled.covered_ns);
    }
    table.Add({Number(sampled.total), Number(rate), Number(sampled.smallest),
               Number(sampled.largest), HumanCount(sampled.samples),
               GpuNumber(process, sampled.agent_id), TerminalSafe(sampled.name)});
  }
  page->Add(table);
}

void WriteMemory(const ProcessReport& process, ReportPage* page) {
  if (process.memory.empty()) return;
  Table table({"count", "bytes", "total", "mean", "p50", "p99", "max", "memory"},
              {"p50", "p99"});
  for (const auto& [operation, memory] : process.memory) {
    const DurationHistogram& d = memory.durations;
    table.Add({HumanCount(memory.count),
               memory.bytes == 0 ? "-" : HumanBytes(memory.bytes),
               HumanDuration(d.sum()), HumanDuration(d.mean()),
               HumanDuration(d.Quantile(0.5)), HumanDuration(d.Quantile(0.99)),
               HumanDuration(d.max()),
               MemoryText(static_cast<v1::MemoryOperation>(operation))});
  }
  page->Add(table);
}

void WriteApiCalls(const ProcessReport& process, ReportPage* page) {
  if (process.api_call_count == 0) return;
  std::vector<std::pair<std::pair<uint32_t, uint32_t>, const ApiReport*>> calls;
  for (const auto& [key, call] : process.api_calls) {
    if (call.count > 0) calls.emplace_back(key, &call);
  }
  std::stable_sort(calls.begin(), calls.end(), [](const auto& a, const auto& b) {
    return a.second->durations.sum() > b.second->durations.sum();
  });
  Table table({"count", "total", "mean", "p50", "p99", "max", "API call"},
              {"p50", "p99"});
  const size_t shown = page->Shown(calls.size());
  for (size_t i = 0; i < shown; ++i) {
    const auto& [key, call] = calls[i];
    const DurationHistogram& d = call->durations;
    table.Add({HumanCount(call->count), HumanDuration(d.sum()), HumanDuration(d.mean()),
               HumanDuration(d.Quantile(0.5)), HumanDuration(d.Quantile(0.99)),
               HumanDuration(d.max()),
               call->function.empty()
                   ? absl::StrCat(ShortName(static_cast<v1::ApiDomain>(key.first)),
                                  " function ", key.second)
                   : TerminalSafe(call->function)});
  }
  page->Add(table);
  page->LeftOut(calls.size(), "more function", "more functions");
}

}  // namespace rocattach
