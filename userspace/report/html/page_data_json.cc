#include "userspace/report/html/page_data_json.h"
#include "userspace/base/display_width.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "userspace/base/version.h"
#include "userspace/report/html/page_kernels.h"
#include "userspace/report/report_process.h"
#include "userspace/report/report_tables.h"
#include "userspace/report/report_words.h"
#include "userspace/report/text.h"
#include "userspace/report/workload_attributes.h"
#include "userspace/stream/merged_clock.h"

namespace rocattach {
namespace {

// Maximum processes in the list; those with problems come first.
constexpr size_t kMaxListedProcesses = 1000;
// Maximum characters of a command line.
constexpr size_t kMaxCommand = 2000;
// Maximum leaves of the flame graph: those with the most time.
constexpr size_t kMaxLeaves = 20'000;

struct Source {
  const RecordingReport* recording = nullptr;
  const ProcessReport* process = nullptr;
};

// The report's entry for each process of the page.
std::vector<Source> SourcesOf(const Report& report, const PageData& data) {
  std::map<ProcessPlace, Source> by_place;
  for (const RecordingReport& recording : report.recordings) {
    for (const auto& process : recording.processes) {
      by_place[{process->recording, process->stream}] = {&recording, process.get()};
    }
  }
  std::vector<Source> sources;
  sources.reserve(data.processes.size());
  for (const ProcessPlace& place : data.processes) sources.push_back(by_place[place]);
  return sources;
}

// The process's name, with its host if there are several recordings.
std::string Label(const Source& source, bool with_host) {
  if (source.process == nullptr) return "(a process beyond what a report keeps)";
  std::string label = ProcessName(*source.process);
  if (with_host && source.recording->header) {
    absl::StrAppend(&label, " on ", TerminalSafe(source.recording->header->hostname()));
  }
  return label;
}

std::string QueueLabel(const Source& source, uint32_t queue) {
  std::string name = absl::StrCat("queue ", queue);
  if (source.process == nullptr) return name;
  const auto known = source.process->queues.find(queue);
  if (known == source.process->queues.end()) return name;
  return absl::StrCat(
      "GPU ", GpuNumber(*source.process, known->second.queue.agent_id()), ", ", name);
}

Json RecordingsJson(const Report& report) {
  Json list = Json::array();
  for (const RecordingReport& recording : report.recordings) {
    Json json = {{"incomplete", recording.WhyIncomplete()},
                 {"lost", recording.Lost()},
                 {"from_beginning", recording.from_beginning}};
    if (recording.header) {
      const v1::StreamHeader& header = *recording.header;
      json["host"] = TerminalSafe(header.hostname());
      json["when"] = WallTime(header.clock(), header.clock().boottime_ns());
      json["kernel"] = TerminalSafe(header.kernel_release());
      json["version"] = TerminalSafe(header.producer_version());
      if (const auto merged = MergedClockOf(header)) {
        json["clock_error"] = merged->error_ns;
      }
    }
    list.push_back(std::move(json));
  }
  return list;
}

Json GpusJson(const ProcessReport& process) {
  Json list = Json::array();
  for (const auto& [agent, activity] : process.activity) {
    const auto known = process.agents.find(agent);
    list.push_back(
        {{"gpu", GpuNumber(process, agent)},
         {"name",
          known == process.agents.end() ? "" : TerminalSafe(known->second.name())},
         {"product", known == process.agents.end()
                         ? ""
                         : TerminalSafe(known->second.product_name())},
         {"span", activity.span_ns()},
         {"busy", activity.busy_ns()},
         {"overlap", activity.overlap_ns()},
         {"gaps", activity.gaps().count()},
         {"gap_p50", activity.gaps().Quantile(0.5)},
         {"gap_max", activity.gaps().max()},
         {"late", activity.late()}});
  }
  return list;
}

Json ProcessJson(const Source& source, bool with_host) {
  const ProcessReport& process = *source.process;
  const v1::WindowEvent* verdict = process.Verdict();
  uint64_t kernel_ns = 0;
  for (const auto& [id, kernel] : process.kernels) kernel_ns += kernel.durations.sum();
  return {
      {"name", Label(source, with_host)},
      {"command",
       process.process ? FitWidth(CommandText(*process.process), kMaxCommand) : ""},
      {"workload", process.process ? WorkloadText(process.process->workload()) : ""},
      {"verdict", verdict == nullptr ? "" : ShortName(verdict->state())},
      {"reason", verdict == nullptr || verdict->reason() == v1::ATTACH_REASON_NONE
                     ? ""
                     : ShortName(verdict->reason())},
      {"detail", verdict == nullptr ? "" : TerminalSafe(verdict->detail())},
      {"problem", ProblemOf(*source.recording, process)},
      {"end", process.end ? EndText(*process.end) : ""},
      {"dispatches", process.dispatches},
      {"copies", process.copies_count},
      {"untimed", process.untimed + process.unfinished},
      {"kernel_ns", kernel_ns},
      {"gpus", GpusJson(process)}};
}

void AddProcesses(const Report& report, Json* json) {
  const bool with_host = report.recordings.size() > 1;
  std::vector<std::pair<int, Source>> all;
  for (const RecordingReport& recording : report.recordings) {
    for (const auto& process : recording.processes) {
      const v1::WindowEvent* verdict = process->Verdict();
      int rank = process->dispatches + process->copies_count > 0 ? 2 : 3;
      if (verdict == nullptr || verdict->state() == v1::WINDOW_STATE_REFUSED ||
          verdict->state() == v1::WINDOW_STATE_MISSED) {
        rank = 1;
      }
      if (!ProblemOf(recording, *process).empty()) rank = 0;
      all.emplace_back(rank, Source{&recording, process.get()});
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  (*json)["process_count"] = all.size();
  if (all.size() > kMaxListedProcesses) all.resize(kMaxListedProcesses);
  Json list = Json::array();
  for (const auto& [rank, source] : all) {
    list.push_back(ProcessJson(source, with_host));
  }
  (*json)["processes"] = std::move(list);
}

Json CopiesJson(const Report& report) {
  std::map<int, CopyReport> merged;
  for (const RecordingReport& recording : report.recordings) {
    for (const auto& process : recording.processes) {
      for (const auto& [direction, copies] : process->copies) {
        CopyReport& sum = merged[direction];
        sum.direction = copies.direction;
        sum.count += copies.count;
        sum.bytes += copies.bytes;
        sum.timed_bytes += copies.timed_bytes;
        sum.durations.Merge(copies.durations);
      }
    }
  }
  Json list = Json::array();
  for (const auto& [direction, copies] : merged) {
    Json json = DurationsJson(copies.durations);
    json["direction"] = DirectionText(copies.direction);
    json["count"] = copies.count;
    json["bytes"] = copies.bytes;
    json["timed_bytes"] = copies.timed_bytes;
    list.push_back(std::move(json));
  }
  return list;
}

Json GroupsJson(const PageKernels& kernels, const KernelGroups& groups) {
  Json list = Json::array();
  if (groups.empty()) return list;
  for (const GroupReport& group : GroupKernels(kernels.kernels(), groups)) {
    list.push_back({{"name", TerminalSafe(group.name)},
                    {"kernels", group.kernels},
                    {"count", group.count},
                    {"total", group.durations.sum()}});
  }
  return list;
}

// For each item of the timeline, its index in the list of kernels.
std::vector<int> KernelsOfItems(const PageData& data,
                                const std::vector<Source>& sources,
                                const PageKernels& kernels) {
  std::vector<int> indices;
  indices.reserve(data.items.size());
  for (const auto& [process, kernel_id] : data.items) {
    const ProcessReport* report = sources[process].process;
    indices.push_back(report == nullptr ? PageKernels::kOthers
                                        : kernels.IndexOf(*report, kernel_id));
  }
  return indices;
}

int KernelOf(uint32_t item, const std::vector<int>& indices) {
  return item < indices.size() ? indices[item] : PageKernels::kOthers;
}

// A flat list: index (as a difference), permille of the width, operations, kernel.
Json BucketsJson(const Timeline::Lane& lane, uint64_t width,
                 const std::vector<int>& kernels) {
  Json list = Json::array();
  size_t previous = 0;
  for (size_t i = 0; i < lane.buckets.size(); ++i) {
    const Timeline::Bucket& bucket = lane.buckets[i];
    if (bucket.operations == 0 && bucket.busy_ns == 0) continue;
    const double part =
        static_cast<double>(bucket.busy_ns) / static_cast<double>(width);
    list.push_back(i - previous);
    list.push_back(static_cast<uint64_t>(part * 1000 + 0.999));
    list.push_back(bucket.operations);
    list.push_back(KernelOf(bucket.item, kernels));
    previous = i;
  }
  return list;
}

// A flat list: start (as a difference), duration, kernel. Removes these operations.
Json OperationsJson(uint32_t lane, const Timeline& timeline,
                    const std::vector<int>& kernels,
                    absl::Span<const Timeline::Operation>* operations) {
  Json list = Json::array();
  int64_t previous = timeline.origin_ns();
  while (!operations->empty() && operations->front().lane == lane) {
    const Timeline::Operation& operation = operations->front();
    list.push_back(operation.start_ns - previous);
    list.push_back(operation.duration_ns);
    list.push_back(KernelOf(operation.item, kernels));
    previous = operation.start_ns;
    operations->remove_prefix(1);
  }
  return list;
}

Json TimelineJson(const PageData& data, const std::vector<Source>& sources,
                  const std::vector<int>& kernels, bool with_host) {
  const Timeline& timeline = data.timeline;
  std::vector<std::pair<Timeline::LaneKey, Json>> lanes;
  absl::Span<const Timeline::Operation> operations = timeline.operations();
  for (uint32_t i = 0; i < timeline.lanes().size(); ++i) {
    const Timeline::Lane& lane = timeline.lanes()[i];
    const Source& source = sources[lane.key.process];
    const bool copies = lane.key.kind == Timeline::LaneKind::kCopies;
    lanes.emplace_back(
        lane.key,
        Json{
            {"process", Label(source, with_host)},
            {"name", copies ? DirectionText(static_cast<v1::CopyDirection>(lane.key.id))
                            : QueueLabel(source, lane.key.id)},
            {"copies", copies},
            {"buckets", BucketsJson(lane, timeline.width_ns(), kernels)},
            {"operations", OperationsJson(i, timeline, kernels, &operations)}});
  }
  std::sort(lanes.begin(), lanes.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  Json list = Json::array();
  for (auto& [key, lane] : lanes) list.push_back(std::move(lane));
  return {{"width", timeline.width_ns()},
          {"buckets", Timeline::kBuckets},
          {"first", timeline.first_ns() - timeline.origin_ns()},
          {"last", timeline.last_ns() - timeline.origin_ns()},
          {"complete", timeline.complete()},
          {"without_lane", timeline.without_lane()},
          {"lanes", std::move(list)}};
}

// Processes, their queues, and for each queue [kernel, ns, count], longest first.
Json FlameJson(const PageData& data, const std::vector<Source>& sources,
               const std::vector<int>& kernels, bool with_host) {
  std::vector<QueueKernel> leaves = data.queue_kernels;
  std::sort(leaves.begin(), leaves.end(), [](const auto& a, const auto& b) {
    return std::tie(b.ns, a.process, a.queue, a.item) <
           std::tie(a.ns, b.process, b.queue, b.item);
  });
  uint64_t left_out_ns = data.without_room_ns;
  for (size_t i = kMaxLeaves; i < leaves.size(); ++i) left_out_ns += leaves[i].ns;
  if (leaves.size() > kMaxLeaves) leaves.resize(kMaxLeaves);
  std::map<uint32_t, std::map<uint32_t, Json>> queues;
  for (const QueueKernel& leaf : leaves) {
    Json& queue = queues[leaf.process][leaf.queue];
    if (queue.is_null()) queue = Json::array();
    queue.push_back({KernelOf(leaf.item, kernels), leaf.ns, leaf.count});
  }
  Json processes = Json::array();
  for (auto& [process, of_process] : queues) {
    Json list = Json::array();
    for (auto& [queue, kernels_of_queue] : of_process) {
      list.push_back({{"name", QueueLabel(sources[process], queue)},
                      {"kernels", std::move(kernels_of_queue)}});
    }
    processes.push_back(
        {{"name", Label(sources[process], with_host)}, {"queues", std::move(list)}});
  }
  return {{"left_out", left_out_ns}, {"processes", std::move(processes)}};
}

}  // namespace

Json PageDataJson(const Report& report, const PageData& data,
                  const KernelGroups& groups) {
  const bool with_host = report.recordings.size() > 1;
  const PageKernels kernels(report);
  const std::vector<Source> sources = SourcesOf(report, data);
  const std::vector<int> indices = KernelsOfItems(data, sources, kernels);
  Json json = {{"version", ROCATTACH_VERSION},
               {"losses", report.HasLosses()},
               {"damaged", report.stats.damaged()},
               {"entries_omitted", report.entries_omitted},
               {"recordings", RecordingsJson(report)}};
  AddProcesses(report, &json);
  json["kernels"] = kernels.List(groups);
  json["other_kernels"] = kernels.Others();
  json["kernel_ns"] = kernels.total_ns();
  json["groups"] = GroupsJson(kernels, groups);
  json["copies"] = CopiesJson(report);
  json["timeline"] = TimelineJson(data, sources, indices, with_host);
  json["flame"] = FlameJson(data, sources, indices, with_host);
  return json;
}

}  // namespace rocattach
