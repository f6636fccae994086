#include "userspace/report/report_json.h"

#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "userspace/report/json_writer.h"
#include "userspace/report/line_writer.h"
#include "userspace/report/report_process.h"
#include "userspace/report/text.h"

namespace rocattach {
namespace {

// A message as an object of its own.
std::string MessageJson(const google::protobuf::Message& message) {
  std::string json;
  LineWriter line(LineWriter::Style::kJson, &json);
  line.Object(message);
  return json;
}

void Message(const char* key, const google::protobuf::Message& message,
             JsonWriter* json) {
  json->Key(key);
  json->Raw(MessageJson(message));
}

void Durations(const DurationHistogram& durations, JsonWriter* json) {
  json->Field("timed", durations.count());
  json->Field("total_ns", durations.sum());
  json->Field("mean_ns", durations.mean());
  json->Field("min_ns", durations.min());
  json->Field("p50_ns", durations.Quantile(0.5));
  json->Field("p99_ns", durations.Quantile(0.99));
  json->Field("max_ns", durations.max());
}

void Kernels(const ProcessReport& process, JsonWriter* json) {
  json->Key("kernels");
  json->Array();
  for (const KernelReport& kernel : process.KernelsByName()) {
    json->Object();
    json->Field("name", kernel.name);
    json->Field("mangled_name", kernel.kernel.name());
    json->Field("kernel_id", kernel.kernel_id);
    json->Field("count", kernel.count);
    Durations(kernel.durations, json);
    json->Field("sgprs", kernel.kernel.sgprs());
    json->Field("arch_vgprs", kernel.kernel.arch_vgprs());
    json->Field("accum_vgprs", kernel.kernel.accum_vgprs());
    json->Field("lds_bytes", kernel.kernel.lds_bytes());
    json->Field("scratch_bytes", kernel.kernel.scratch_bytes());
    json->EndObject();
  }
  json->EndArray();
}

void Copies(const ProcessReport& process, JsonWriter* json) {
  json->Key("copies");
  json->Array();
  for (const auto& [direction, copies] : process.copies) {
    json->Object();
    json->Field("direction", ShortName(copies.direction));
    json->Field("count", copies.count);
    json->Field("bytes", copies.bytes);
    Durations(copies.durations, json);
    json->Key("gigabytes_per_second");
    json->Real(copies.durations.sum() == 0
                   ? 0.0
                   : static_cast<double>(copies.timed_bytes) /
                         static_cast<double>(copies.durations.sum()));
    json->EndObject();
  }
  json->EndArray();
}

void Values(const KernelCounters& kernel, JsonWriter* json) {
  json->Key("values");
  json->Array();
  for (const KernelValue& value : kernel.values) {
    json->Object();
    json->Field("name", value.name);
    json->Flag("metric", value.metric);
    json->Key("total");
    json->Exact(value.total);
    json->Key("mean");
    json->Exact(value.mean);
    json->Field("dispatches", value.dispatches);
    json->Flag("mixed", value.mixed);
    json->EndObject();
  }
  json->EndArray();
}

void Counters(const ProcessReport& process, JsonWriter* json) {
  json->Key("counters");
  json->Array();
  for (const auto& [id, plan] : process.plans) {
    for (const KernelCounters& kernel : plan.kernels) {
      json->Object();
      json->Field("plan", id);
      json->Field("kernel", kernel.kernel);
      json->Field("kernel_id", kernel.kernel_id);
      json->Field("architecture", kernel.architecture);
      json->Key("agent_ids");
      json->Array();
      for (uint32_t agent : kernel.agents) json->Number(agent);
      json->EndArray();
      json->Key("pass_dispatches");
      json->Array();
      for (uint64_t dispatches : kernel.passes) json->Number(dispatches);
      json->EndArray();
      json->Flag("complete", kernel.complete);
      Values(kernel, json);
      json->EndObject();
    }
  }
  json->EndArray();
}

void Samples(const ProcessReport& process, JsonWriter* json) {
  json->Key("samples");
  json->Array();
  for (const auto& [id, plan] : process.plans) {
    for (const SampledCounter& sampled : plan.samples) {
      json->Object();
      json->Field("plan", id);
      json->Field("agent_id", sampled.agent_id);
      json->Field("counter", sampled.name);
      json->Field("samples", sampled.samples);
      json->Field("covered_ns", sampled.covered_ns);
      json->Key("total");
      json->Exact(sampled.total);
      json->Key("min");
      json->Exact(sampled.smallest);
      json->Key("max");
      json->Exact(sampled.largest);
      json->EndObject();
    }
  }
  json->EndArray();
}

void ApiCalls(const ProcessReport& process, JsonWriter* json) {
  json->Key("api_calls");
  json->Array();
  for (const auto& [key, call] : process.api_calls) {
    if (call.count == 0) continue;
    json->Object();
    json->Field("domain", ShortName(static_cast<v1::ApiDomain>(key.first)));
    json->Field("function", call.function);
    json->Field("function_id", key.second);
    json->Field("count", call.count);
    Durations(call.durations, json);
    json->EndObject();
  }
  json->EndArray();
}

void Sessions(const ProcessReport& process, JsonWriter* json) {
  json->Field("counted_dispatch_count", process.counted);
  json->Field("sample_count", process.samples);
  json->Field("api_call_count", process.api_call_count);
  json->Field("unknown_values", process.unknown_values);
  json->Key("sessions");
  json->Array();
  for (const v1::SessionEvent& event : process.sessions) json->Raw(MessageJson(event));
  json->EndArray();
  json->Key("session_plans");
  json->Array();
  for (const auto& [id, plan] : process.plans) json->Raw(MessageJson(plan.plan));
  json->EndArray();
  Counters(process, json);
  Samples(process, json);
  ApiCalls(process, json);
}

void Incomplete(const std::vector<std::string>& why, JsonWriter* json) {
  json->Flag("incomplete", !why.empty());
  json->Key("incomplete_because");
  json->Array();
  for (const std::string& clause : why) json->Text(clause);
  json->EndArray();
}

void Process(const RecordingReport& recording, const ProcessReport& process,
             JsonWriter* json) {
  json->Object();
  json->Field("stream", process.stream);
  const v1::WindowEvent* verdict = process.Verdict();
  json->Field("verdict", verdict != nullptr ? ShortName(verdict->state()) : "");
  if (process.process) Message("process", *process.process, json);
  if (verdict != nullptr) Message("window", *verdict, json);
  json->Key("windows");
  json->Array();
  for (const v1::WindowEvent& window : process.windows) json->Raw(MessageJson(window));
  json->EndArray();
  json->Field("dispatch_count", process.dispatches);
  json->Field("copy_count", process.copies_count);
  json->Field("untimed", process.untimed);
  json->Field("unfinished", process.unfinished);
  json->Field("first_ns", process.first_ns);
  json->Field("last_ns", process.last_ns);
  json->Field("lost", recording.from_beginning || !process.account
                          ? process.Lost()
                          : DroppedRecords(*process.account));
  json->Flag("final_account", process.account && process.account->final());
  json->Field("not_believable",
              process.NotBelievable() ? process.account->not_believable() : "");
  json->Field("problem", ProblemOf(recording, process));
  json->Field("entries_omitted", process.entries_omitted);
  json->Key("account_imbalance");
  json->Signed(process.Imbalance());
  if (process.account) Message("account", *process.account, json);
  if (process.end) Message("end", *process.end, json);
  json->Key("agents");
  json->Array();
  for (const auto& [id, agent] : process.agents) json->Raw(MessageJson(agent));
  json->EndArray();
  json->Key("queues");
  json->Array();
  for (const auto& [id, queue] : process.queues) {
    json->Object();
    Message("queue", queue.queue, json);
    json->Field("dispatch_count", queue.dispatches);
    json->EndObject();
  }
  json->EndArray();
  Kernels(process, json);
  Copies(process, json);
  Sessions(process, json);
  json->EndObject();
}

void Reader(const Report& report, JsonWriter* json) {
  const ReadStats& stats = report.stats;
  json->Key("reader");
  json->Object();
  json->Field("bytes", stats.bytes);
  json->Field("frames", stats.frames);
  json->Field("skipped_bytes", stats.skipped_bytes);
  json->Field("skipped_ranges", stats.skipped_ranges);
  json->Field("truncated_bytes", stats.truncated_bytes);
  json->Field("missing_frames", stats.missing_frames);
  json->Field("lost_records", stats.lost_records);
  json->Field("undecodable_frames", stats.undecodable_frames);
  json->Field("unknown_frames", stats.unknown_frames);
  json->Field("entries_omitted", report.entries_omitted);
  json->Flag("damaged", stats.damaged());
  json->Key("damages");
  json->Array();
  for (const Damage& damage : report.damages) json->Text(damage.what);
  json->EndArray();
  json->EndObject();
}

}  // namespace

std::string FormatReportJson(const Report& report) {
  std::string out;
  JsonWriter json(&out);
  json.Object();
  // What is missing comes before what is there.
  json.Flag("incomplete",
            absl::c_any_of(report.recordings, [](const RecordingReport& recording) {
              return !recording.WhyIncomplete().empty();
            }));
  json.Flag("losses", report.HasLosses());
  json.Key("recordings");
  json.Array();
  for (const RecordingReport& recording : report.recordings) {
    json.Object();
    Incomplete(recording.WhyIncomplete(), &json);
    if (recording.header) Message("header", *recording.header, &json);
    json.Flag("from_beginning", recording.from_beginning);
    json.Flag("ended", recording.end.has_value());
    json.Key("processes");
    json.Array();
    for (const auto& process : recording.processes) Process(recording, *process, &json);
    json.EndArray();
    if (recording.summary) Message("summary", *recording.summary, &json);
    if (recording.end) Message("end", *recording.end, &json);
    json.EndObject();
  }
  json.EndArray();
  Reader(report, &json);
  json.EndObject();
  out += '\n';
  return out;
}

}  // namespace rocattach
