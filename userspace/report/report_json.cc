#include "userspace/report/report_json.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "userspace/report/message_json.h"
#include "userspace/report/report_process.h"
#include "userspace/report/report_tables.h"
#include "userspace/report/text.h"
#include "userspace/stream/losses.h"
#include "userspace/stream/merged_clock.h"

namespace rocattach {
namespace {

// A JSON array of `convert(element)` for each element.
template <typename Range, typename Convert>
Json ArrayOf(const Range& range, Convert convert) {
  Json array = Json::array();
  for (const auto& element : range) array.push_back(convert(element));
  return array;
}

void AddDurations(const DurationHistogram& durations, Json* json) {
  json->update({{"timed", durations.count()},
                {"total_ns", durations.sum()},
                {"mean_ns", durations.mean()},
                {"stddev_ns", NumberJson(durations.deviation())},
                {"min_ns", durations.min()},
                {"p50_ns", durations.Quantile(0.5)},
                {"p99_ns", durations.Quantile(0.99)},
                {"max_ns", durations.max()}});
}

Json KernelJson(const KernelReport& kernel) {
  Json json = {{"name", kernel.name},
               {"mangled_name", kernel.kernel.name()},
               {"kernel_id", kernel.kernel_id},
               {"count", kernel.count}};
  AddDurations(kernel.durations, &json);
  json.update({{"sgprs", kernel.kernel.sgprs()},
               {"arch_vgprs", kernel.kernel.arch_vgprs()},
               {"accum_vgprs", kernel.kernel.accum_vgprs()},
               {"lds_bytes", kernel.kernel.lds_bytes()},
               {"scratch_bytes", kernel.kernel.scratch_bytes()}});
  return json;
}

// Kernels, each with the name of its group if there are groups.
Json KernelsJson(const std::vector<KernelReport>& kernels, const KernelGroups& groups) {
  return ArrayOf(kernels, [&](const KernelReport& kernel) {
    Json json = KernelJson(kernel);
    if (!groups.empty()) {
      json["group"] = std::string(groups.Find(kernel.name, kernel.kernel.name()));
    }
    return json;
  });
}

Json GroupJson(const GroupReport& group) {
  Json json = {
      {"name", group.name}, {"kernels", group.kernels}, {"count", group.count}};
  AddDurations(group.durations, &json);
  return json;
}

Json ActivityJson(const ProcessReport& process) {
  return ArrayOf(process.activity, [&](const auto& entry) {
    const auto& [agent, activity] = entry;
    Json gaps = {{"count", activity.gaps().count()}};
    AddDurations(activity.gaps(), &gaps);
    return Json{{"agent_id", agent},
                {"gpu", GpuNumber(process, agent)},
                {"span_ns", activity.span_ns()},
                {"busy_ns", activity.busy_ns()},
                {"overlap_ns", activity.overlap_ns()},
                {"late_dispatches", activity.late()},
                {"idle_gaps", std::move(gaps)}};
  });
}

Json CopiesJson(const CopyReport& copies) {
  Json json = {{"direction", ShortName(copies.direction)},
               {"count", copies.count},
               {"bytes", copies.bytes}};
  AddDurations(copies.durations, &json);
  json["gigabytes_per_second"] = copies.durations.sum() == 0
                                     ? 0.0
                                     : static_cast<double>(copies.timed_bytes) /
                                           static_cast<double>(copies.durations.sum());
  return json;
}

Json ValueJson(const KernelValue& value) {
  return {{"name", value.name},
          {"metric", value.metric},
          {"total", NumberJson(value.total)},
          {"mean", NumberJson(value.mean)},
          {"dispatches", value.dispatches},
          {"mixed", value.mixed}};
}

Json CountersJson(const ProcessReport& process) {
  Json array = Json::array();
  for (const auto& [id, plan] : process.plans) {
    for (const KernelCounters& kernel : plan.kernels) {
      array.push_back({{"plan", id},
                       {"kernel", kernel.kernel},
                       {"kernel_id", kernel.kernel_id},
                       {"architecture", kernel.architecture},
                       {"agent_ids", kernel.agents},
                       {"pass_dispatches", kernel.passes},
                       {"complete", kernel.complete},
                       {"values", ArrayOf(kernel.values, ValueJson)}});
    }
  }
  return array;
}

Json SamplesJson(const ProcessReport& process) {
  Json array = Json::array();
  for (const auto& [id, plan] : process.plans) {
    for (const SampledCounter& sampled : plan.samples) {
      array.push_back({{"plan", id},
                       {"agent_id", sampled.agent_id},
                       {"counter", sampled.name},
                       {"samples", sampled.samples},
                       {"covered_ns", sampled.covered_ns},
                       {"total", NumberJson(sampled.total)},
                       {"min", NumberJson(sampled.smallest)},
                       {"max", NumberJson(sampled.largest)}});
    }
  }
  return array;
}

Json ApiCallsJson(const ProcessReport& process) {
  Json array = Json::array();
  for (const auto& [key, call] : process.api_calls) {
    if (call.count == 0) continue;
    Json json = {{"domain", ShortName(static_cast<v1::ApiDomain>(key.first))},
                 {"function", call.function},
                 {"function_id", key.second},
                 {"count", call.count}};
    AddDurations(call.durations, &json);
    array.push_back(std::move(json));
  }
  return array;
}

Json MemoryJson(const ProcessReport& process) {
  Json array = Json::array();
  for (const auto& [operation, memory] : process.memory) {
    Json json = {{"operation", ShortName(static_cast<v1::MemoryOperation>(operation))},
                 {"count", memory.count},
                 {"bytes", memory.bytes}};
    AddDurations(memory.durations, &json);
    array.push_back(std::move(json));
  }
  return array;
}

void AddSessions(const ProcessReport& process, Json* json) {
  json->update(
      {{"counted_dispatch_count", process.counted},
       {"sample_count", process.samples},
       {"api_call_count", process.api_call_count},
       {"memory_operation_count", process.memory_count},
       {"unknown_values", process.unknown_values},
       {"sampling",
        ArrayOf(process.sampling,
                [](const v1::SamplingEvent& event) { return MessageJson(event); })},
       {"sessions",
        ArrayOf(process.sessions,
                [](const v1::SessionEvent& event) { return MessageJson(event); })},
       {"session_plans",
        ArrayOf(process.plans,
                [](const auto& plan) { return MessageJson(plan.second.plan); })},
       {"counters", CountersJson(process)},
       {"samples", SamplesJson(process)},
       {"api_calls", ApiCallsJson(process)},
       {"memory", MemoryJson(process)}});
}

void AddDictionary(const ProcessReport& process, Json* json) {
  (*json)["agents"] = ArrayOf(
      process.agents, [](const auto& agent) { return MessageJson(agent.second); });
  (*json)["queues"] = ArrayOf(process.queues, [](const auto& queue) {
    return Json{{"queue", MessageJson(queue.second.queue)},
                {"dispatch_count", queue.second.dispatches}};
  });
}

Json ProcessJson(const RecordingReport& recording, const ProcessReport& process,
                 const KernelGroups& groups) {
  const v1::WindowEvent* verdict = process.Verdict();
  Json json = {{"stream", process.stream},
               {"verdict", verdict != nullptr ? ShortName(verdict->state()) : ""}};
  if (process.process) json["process"] = MessageJson(*process.process);
  if (verdict != nullptr) json["window"] = MessageJson(*verdict);
  json.update({{"windows", ArrayOf(process.windows,
                                   [](const v1::WindowEvent& window) {
                                     return MessageJson(window);
                                   })},
               {"dispatch_count", process.dispatches},
               {"copy_count", process.copies_count},
               {"untimed", process.untimed},
               {"unfinished", process.unfinished},
               {"times_not_believable", process.TimesNotBelievable()},
               {"first_ns", process.first_ns},
               {"last_ns", process.last_ns},
               {"lost", recording.from_beginning || !process.account
                            ? process.Lost()
                            : DroppedRecords(*process.account)},
               {"final_account", process.account && process.account->final()},
               {"not_believable",
                process.NotBelievable() ? process.account->not_believable() : ""},
               {"unseen_work", process.UnseenWork()},
               {"problem", ProblemOf(recording, process)},
               {"entries_omitted", process.entries_omitted},
               {"account_imbalance", process.Imbalance()}});
  if (process.account) json["account"] = MessageJson(*process.account);
  if (process.end) json["end"] = MessageJson(*process.end);
  AddDictionary(process, &json);
  json["gpu_activity"] = ActivityJson(process);
  const std::vector<KernelReport> kernels = process.KernelsByName();
  json["kernels"] = KernelsJson(kernels, groups);
  if (!groups.empty()) {
    json["groups"] = ArrayOf(GroupKernels(kernels, groups), GroupJson);
  }
  json["copies"] = ArrayOf(process.copies, [](const auto& direction) {
    return CopiesJson(direction.second);
  });
  AddSessions(process, &json);
  return json;
}

Json RecordingJson(const RecordingReport& recording, const KernelGroups& groups) {
  const std::vector<std::string> why = recording.WhyIncomplete();
  Json json = {{"incomplete", !why.empty()}, {"incomplete_because", why}};
  if (recording.header) {
    json["header"] = MessageJson(*recording.header);
    if (const auto merged = MergedClockOf(*recording.header)) {
      json["merged_clock"] = {{"offset_ns", merged->offset_ns},
                              {"error_ns", merged->error_ns}};
    }
  }
  json["from_beginning"] = recording.from_beginning;
  json["ended"] = recording.end.has_value();
  json["processes"] = ArrayOf(recording.processes, [&](const auto& process) {
    return ProcessJson(recording, *process, groups);
  });
  if (recording.summary) json["summary"] = MessageJson(*recording.summary);
  if (recording.end) json["end"] = MessageJson(*recording.end);
  return json;
}

Json ReaderJson(const Report& report) {
  const ReadStats& stats = report.stats;
  return {{"bytes", stats.bytes},
          {"frames", stats.frames},
          {"skipped_bytes", stats.skipped_bytes},
          {"skipped_ranges", stats.skipped_ranges},
          {"truncated_bytes", stats.truncated_bytes},
          {"missing_frames", stats.missing_frames},
          {"lost_records", stats.lost_records},
          {"undecodable_frames", stats.undecodable_frames},
          {"unknown_frames", stats.unknown_frames},
          {"entries_omitted", report.entries_omitted},
          {"damaged", stats.damaged()},
          {"damages",
           ArrayOf(report.damages, [](const Damage& damage) { return damage.what; })}};
}

}  // namespace

std::string FormatReportJson(const Report& report, const KernelGroups& groups) {
  // Missing data is stated before the data that is present.
  const bool incomplete =
      absl::c_any_of(report.recordings, [](const RecordingReport& recording) {
        return !recording.WhyIncomplete().empty();
      });
  const Json json = {{"incomplete", incomplete},
                     {"losses", report.HasLosses()},
                     {"recordings", ArrayOf(report.recordings,
                                            [&](const RecordingReport& recording) {
                                              return RecordingJson(recording, groups);
                                            })},
                     {"reader", ReaderJson(report)}};
  return DumpJson(json) + "\n";
}

}  // namespace rocattach
