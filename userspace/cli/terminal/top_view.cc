#include "userspace/cli/terminal/top_view.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "userspace/base/json.h"

namespace rocattach {
namespace {

// Totals never decrease, unless the service was restarted in between.
double Growth(const Json* before, const Json& now, const char* field) {
  const double value = now.value(field, 0.0);
  const double last = before == nullptr ? 0.0 : before->value(field, 0.0);
  return value >= last ? value - last : value;
}

// The entry of a list with the same values in these fields; null if there is none.
const Json* Find(const Json* parent, const char* list, const Json& like,
                 std::initializer_list<const char*> fields) {
  if (parent == nullptr) return nullptr;
  for (const Json& entry : parent->at(list)) {
    const bool same = std::all_of(fields.begin(), fields.end(), [&](const char* field) {
      return entry.value(field, Json()) == like.value(field, Json());
    });
    if (same) return &entry;
  }
  return nullptr;
}

std::optional<uint64_t> Known(const Json& json, const char* field) {
  if (!json.contains(field)) return std::nullopt;
  return json.at(field).get<uint64_t>();
}

std::string WorkloadText(const Json& workload) {
  const auto get = [&](const char* field) { return workload.value(field, ""); };
  if (!get("pod").empty()) {
    return get("namespace").empty() ? get("pod")
                                    : absl::StrCat(get("namespace"), "/", get("pod"));
  }
  if (!get("job_id").empty()) return absl::StrCat("job ", get("job_id"));
  return get("container_id").substr(0, 12);
}

TopProcess CompareProcess(const Json* before, const Json& now, double seconds) {
  TopProcess process;
  process.pid = now.at("pid").get<int64_t>();
  process.name = now.value("comm", "");
  process.workload = WorkloadText(now.at("workload"));
  process.attached = now.value("attached", true);
  process.ended = now.value("ended", false);
  process.dropped = now.value("dropped", uint64_t{0});
  for (const Json& gpu : now.at("gpus")) {
    const Json* last = Find(before, "gpus", gpu, {"gpu"});
    process.busy += Growth(last, gpu, "time_ns") / (seconds * 1e9);
    process.dispatches_per_second += Growth(last, gpu, "dispatches") / seconds;
    process.dispatches += gpu.value("dispatches", uint64_t{0});
  }
  for (const Json& use : now.value("use", Json::array())) {
    if (!use.contains("vram_bytes")) continue;
    process.vram_bytes =
        process.vram_bytes.value_or(0) + use.at("vram_bytes").get<uint64_t>();
  }
  for (const Json& copy : now.at("copies")) {
    const Json* last = Find(before, "copies", copy, {"direction"});
    process.copies_per_second += Growth(last, copy, "copies") / seconds;
    process.bytes_per_second += Growth(last, copy, "bytes") / seconds;
  }
  for (const Json& counter : now.at("counters")) {
    const Json* last = Find(before, "counters", counter, {"gpu", "counter"});
    process.counters.push_back({counter.value("gpu", ""), counter.value("counter", ""),
                                Growth(last, counter, "sum") / seconds});
  }
  for (const Json& kernel : now.at("kernels")) {
    const Json* last = Find(before, "kernels", kernel, {"id"});
    process.kernels.push_back({kernel.value("id", ""),
                               kernel.value("name", "(other kernels)"),
                               Growth(last, kernel, "time_ns") / (seconds * 1e9),
                               Growth(last, kernel, "dispatches") / seconds});
  }
  std::stable_sort(process.kernels.begin(), process.kernels.end(),
                   [](const auto& a, const auto& b) { return a.busy > b.busy; });
  return process;
}

TopSample Compare(const Json& before, const Json& now) {
  TopSample sample;
  const double ns = Growth(&before, now, "boot_ns");
  sample.seconds = std::max(ns * 1e-9, 1e-3);
  sample.dropped = now.value("dropped", uint64_t{0});
  sample.sampling_ratio = now.value("sampling_ratio", 1.0);
  for (const Json& gpu : now.at("gpus")) {
    const Json* last = Find(&before, "gpus", gpu, {"gpu"});
    sample.gpus.push_back({gpu.value("gpu", ""), gpu.value("architecture", ""),
                           gpu.value("counters", ""),
                           Growth(last, gpu, "time_ns") / (sample.seconds * 1e9),
                           Growth(last, gpu, "dispatches") / sample.seconds,
                           Known(gpu, "vram_bytes"), Known(gpu, "vram_used_bytes")});
  }
  std::map<std::pair<int64_t, uint64_t>, const Json*> earlier;
  const auto key = [](const Json& process) {
    return std::make_pair(process.at("pid").get<int64_t>(),
                          process.at("start_ns").get<uint64_t>());
  };
  for (const Json& process : before.at("processes")) earlier[key(process)] = &process;
  for (const Json& process : now.at("processes")) {
    const auto found = earlier.find(key(process));
    sample.processes.push_back(CompareProcess(
        found == earlier.end() ? nullptr : found->second, process, sample.seconds));
  }
  return sample;
}

// "1.2k", in at most 6 columns.
std::string Rate(double value) {
  if (value < 10) return absl::StrFormat("%.1f", value);
  if (value < 9999.5) return absl::StrFormat("%.0f", value);
  if (value < 999.95e3) return absl::StrFormat("%.1fk", value / 1e3);
  if (value < 999.95e6) return absl::StrFormat("%.1fM", value / 1e6);
  return absl::StrFormat("%.1fG", value / 1e9);
}

// In megabytes; "-" if not known.
std::string Memory(const std::optional<uint64_t>& bytes) {
  return bytes.has_value() ? Rate(static_cast<double>(*bytes) / 1e6) : "-";
}

// The first `columns` characters of a text in UTF-8.
std::string Cut(const std::string& text, size_t columns) {
  size_t characters = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool begins = (static_cast<uint8_t>(text[i]) & 0xc0) != 0x80;
    if (begins && characters++ == columns) return text.substr(0, i);
  }
  return text;
}

const char* SortName(TopSort sort) {
  switch (sort) {
    case TopSort::kTime:
      return "time";
    case TopSort::kDispatches:
      return "dispatches";
    case TopSort::kCopies:
      return "copies";
    case TopSort::kBytes:
      return "bytes";
    case TopSort::kPid:
      return "pid";
    case TopSort::kName:
      return "name";
  }
  return "";
}

bool Matches(const TopProcess& process, const std::string& filter) {
  const std::string text = absl::AsciiStrToLower(filter);
  return absl::StrContains(absl::AsciiStrToLower(process.name), text) ||
         absl::StrContains(absl::AsciiStrToLower(process.workload), text) ||
         absl::StrCat(process.pid) == filter;
}

void AddProcess(const TopProcess& process, const TopOptions& options,
                std::vector<std::string>* lines) {
  lines->push_back(absl::StrFormat(
      "%8d %-15s %6s %7s %7s %7s %7s  %s", process.pid, Cut(process.name, 15),
      // Rates are known only for attached processes.
      process.attached ? absl::StrFormat("%.1f", 100 * process.busy) : "-",
      process.attached ? Rate(process.dispatches_per_second) : "-",
      process.attached ? Rate(process.copies_per_second) : "-",
      process.attached ? Rate(process.bytes_per_second / 1e6) : "-",
      Memory(process.vram_bytes), process.ended ? "ended" : process.workload));
  if (process.dropped > 0) {
    lines->push_back(absl::StrCat("           lost: ", process.dropped,
                                  " operations since its start"));
  }
  if (!options.kernels) return;
  for (const TopKernel& kernel : process.kernels) {
    if (kernel.dispatches_per_second <= 0) continue;
    lines->push_back(absl::StrFormat("%25s%6.1f %7s  %s", "", 100 * kernel.busy,
                                     Rate(kernel.dispatches_per_second), kernel.name));
  }
  for (const TopCounter& counter : process.counters) {
    lines->push_back(
        absl::StrFormat("%32s%7s  %s", "", Rate(counter.per_second), counter.name));
  }
}

// The figures of kernels are estimates if dispatches are sampled.
std::string SampledText(double ratio) {
  return ratio == 0 ? ", dispatches only counted"
                    : absl::StrFormat(", 1 dispatch in %.0f sampled", 1 / ratio);
}

}  // namespace

absl::StatusOr<TopSample> CompareSamples(const std::string& before,
                                         const std::string& now) {
  const auto error = absl::InvalidArgumentError(
      "the answer is not a page /processes of rocattach-watch");
  const Json a = Json::parse(before, nullptr, /*allow_exceptions=*/false);
  const Json b = Json::parse(now, nullptr, /*allow_exceptions=*/false);
  if (!a.is_object() || !b.is_object()) return error;
  try {
    return Compare(a, b);
  } catch (const Json::exception&) {  // a field is missing or of another type
    return error;
  }
}

void Arrange(const TopOptions& options, TopSample* sample) {
  std::erase_if(sample->processes, [&](const TopProcess& process) {
    return !options.filter.empty() && !Matches(process, options.filter);
  });
  const auto before = [&](const TopProcess& a, const TopProcess& b) {
    switch (options.sort) {
      case TopSort::kTime:
        return a.busy > b.busy;
      case TopSort::kDispatches:
        return a.dispatches_per_second > b.dispatches_per_second;
      case TopSort::kCopies:
        return a.copies_per_second > b.copies_per_second;
      case TopSort::kBytes:
        return a.bytes_per_second > b.bytes_per_second;
      case TopSort::kPid:
        return a.pid < b.pid;
      case TopSort::kName:
        return a.name < b.name;
    }
    return false;
  };
  std::stable_sort(sample->processes.begin(), sample->processes.end(), before);
}

std::vector<std::string> TopLines(const TopSample& sample, const TopOptions& options) {
  std::vector<std::string> lines;
  lines.push_back(absl::StrCat(
      "rocattach top: ", sample.processes.size(),
      sample.processes.size() == 1 ? " process" : " processes", ", sorted by ",
      SortName(options.sort),
      options.filter.empty() ? "" : absl::StrCat(", with '", options.filter, "'"),
      sample.dropped == 0 ? "" : absl::StrCat(", ", sample.dropped, " lost"),
      sample.sampling_ratio == 1 ? "" : SampledText(sample.sampling_ratio),
      options.paused ? ", PAUSED" : ""));
  for (const TopGpu& gpu : sample.gpus) {
    const std::string memory = gpu.vram_used_bytes.has_value()
                                   ? absl::StrCat(", ", Memory(gpu.vram_used_bytes),
                                                  " of ", Memory(gpu.vram_bytes), " MB")
                                   : "";
    lines.push_back(
        absl::StrFormat("  %-24s%6.1f %7s  %s%s%s", Cut(gpu.gpu, 22), 100 * gpu.busy,
                        Rate(gpu.dispatches_per_second), gpu.architecture, memory,
                        gpu.counters == "none" ? "" : ", counters: " + gpu.counters));
  }
  lines.push_back(absl::StrFormat("%8s %-15s %6s %7s %7s %7s %7s  %s", "PID", "NAME",
                                  "GPU %", "DISP/s", "COPY/s", "MB/s", "VRAM MB",
                                  "WORKLOAD"));
  for (const TopProcess& process : sample.processes) {
    AddProcess(process, options, &lines);
  }
  if (lines.size() > options.height) lines.resize(options.height);
  for (std::string& line : lines) line = Cut(line, options.width);
  return lines;
}

Json TopJson(const TopSample& sample) {
  Json json = {{"seconds", sample.seconds},
               {"dropped", sample.dropped},
               {"sampling_ratio", sample.sampling_ratio},
               {"gpus", Json::array()},
               {"processes", Json::array()}};
  for (const TopGpu& gpu : sample.gpus) {
    Json entry = {{"gpu", gpu.gpu},
                  {"architecture", gpu.architecture},
                  {"counters", gpu.counters},
                  {"busy", gpu.busy},
                  {"dispatches_per_second", gpu.dispatches_per_second}};
    if (gpu.vram_bytes.has_value()) entry["vram_bytes"] = *gpu.vram_bytes;
    if (gpu.vram_used_bytes.has_value()) {
      entry["vram_used_bytes"] = *gpu.vram_used_bytes;
    }
    json["gpus"].push_back(std::move(entry));
  }
  for (const TopProcess& process : sample.processes) {
    Json kernels = Json::array(), counters = Json::array();
    for (const TopKernel& kernel : process.kernels) {
      kernels.push_back({{"id", kernel.id},
                         {"name", kernel.name},
                         {"busy", kernel.busy},
                         {"dispatches_per_second", kernel.dispatches_per_second}});
    }
    for (const TopCounter& counter : process.counters) {
      counters.push_back({{"gpu", counter.gpu},
                          {"counter", counter.name},
                          {"per_second", counter.per_second}});
    }
    Json entry = {{"pid", process.pid},
                  {"name", process.name},
                  {"workload", process.workload},
                  {"attached", process.attached},
                  {"ended", process.ended}};
    if (process.vram_bytes.has_value()) entry["vram_bytes"] = *process.vram_bytes;
    if (process.attached) {
      entry.update({{"busy", process.busy},
                    {"dispatches_per_second", process.dispatches_per_second},
                    {"copies_per_second", process.copies_per_second},
                    {"bytes_per_second", process.bytes_per_second},
                    {"dispatches", process.dispatches},
                    {"dropped", process.dropped},
                    {"kernels", std::move(kernels)},
                    {"counters", std::move(counters)}});
    }
    json["processes"].push_back(std::move(entry));
  }
  return json;
}

}  // namespace rocattach
