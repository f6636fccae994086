#include "userspace/export/json/ndjson_sink.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "userspace/abi/hip_stream.h"
#include "userspace/base/status_macros.h"
#include "userspace/export/common/json_text.h"
#include "userspace/export/common/output_file.h"
#include "userspace/report/message_json.h"
#include "userspace/report/text.h"
#include "userspace/report/workload_attributes.h"

namespace rocattach {
namespace {

class NdjsonSink : public ExportSink {
 public:
  explicit NdjsonSink(std::unique_ptr<OutputFile> file) : file_(std::move(file)) {}

  absl::Status BeginProcess(const ExportProcess& process) override {
    return Message(process, "process", process.process());
  }
  absl::Status OnAgent(const ExportProcess& process, const v1::Agent& agent) override {
    return Message(process, "agent", agent);
  }
  absl::Status OnQueue(const ExportProcess& process, const v1::Queue& queue) override {
    return Message(process, "queue", queue);
  }
  absl::Status OnCodeObject(const ExportProcess& process,
                            const v1::CodeObject& object) override {
    return Message(process, "code_object", object);
  }
  absl::Status OnKernel(const ExportProcess& process,
                        const ExportKernel& kernel) override {
    return Message(process, "kernel", kernel.kernel, &kernel.display_name);
  }
  absl::Status OnSessionPlan(const ExportProcess& process,
                             const v1::SessionPlan& plan) override {
    return Message(process, "session_plan", plan);
  }
  absl::Status OnApiFunction(const ExportProcess& process,
                             const v1::ApiFunction& function) override {
    return Message(process, "api_function", function);
  }

  absl::Status OnDispatches(const ExportProcess& process,
                            absl::Span<const rocattach_dispatch> records) override {
    for (const rocattach_dispatch& r : records) {
      JsonObject line = Begin(process, "dispatch");
      line.Number("correlation_id", r.correlation_id)
          .Number("dispatch_id", r.dispatch_id)
          .Text("kernel", KernelName(process, r.kernel_id))
          .Number("kernel_id", r.kernel_id)
          .Number("agent_id", r.agent_id)
          .Number("queue_id", r.queue_id)
          .Number("tid", r.tid);
      Times(r, &line);
      Triple("grid", r.grid_x, r.grid_y, r.grid_z, &line);
      Triple("workgroup", r.workgroup_x, r.workgroup_y, r.workgroup_z, &line);
      line.Number("lds_bytes", r.lds_bytes)
          .Number("scratch_bytes", r.scratch_bytes)
          .Number("packet_index", PacketNumber(r));
      Stream(r, &line);
      Flags(r.flags, &line);
      RETURN_IF_ERROR(End(&line));
    }
    return absl::OkStatus();
  }

  absl::Status OnCopies(const ExportProcess& process,
                        absl::Span<const rocattach_copy> records) override {
    for (const rocattach_copy& r : records) {
      JsonObject line = Begin(process, "copy");
      line.Number("correlation_id", r.correlation_id)
          .Text("direction", ShortName(static_cast<v1::CopyDirection>(r.direction)))
          .Text("engine", ShortName(static_cast<v1::CopyEngine>(r.engine)))
          .Number("bytes", r.bytes)
          .Number("src_agent_id", r.src_agent_id)
          .Number("dst_agent_id", r.dst_agent_id)
          .Number("tid", r.tid);
      Times(r, &line);
      line.Number("src_address", r.src_address).Number("dst_address", r.dst_address);
      Stream(r, &line);
      Flags(r.flags, &line);
      RETURN_IF_ERROR(End(&line));
    }
    return absl::OkStatus();
  }

  absl::Status OnCountedDispatch(const ExportProcess& process,
                                 const CountedDispatch& counted) override {
    for (const CounterRecord& r : counted.values) {
      JsonObject line = Begin(process, "counter");
      line.Number("correlation_id", counted.own_id);
      if (counted.dispatch != nullptr) {
        line.Number("dispatch_id", counted.dispatch->dispatch_id);
      }
      line.Text("kernel", KernelName(process, r.kernel_id))
          .Number("kernel_id", r.kernel_id)
          .Number("agent_id", r.agent_id);
      Value(process, r, &line);
      RETURN_IF_ERROR(End(&line));
    }
    return absl::OkStatus();
  }

  absl::Status OnSamples(const ExportProcess& process,
                         absl::Span<const CounterRecord> records) override {
    for (const CounterRecord& r : records) {
      JsonObject line = Begin(process, "sample");
      line.Number("sample_id", r.operation)
          .Number("agent_id", r.agent_id)
          .Number("begin_ns", r.begin_ns)
          .Number("end_ns", r.end_ns);
      Value(process, r, &line);
      RETURN_IF_ERROR(End(&line));
    }
    return absl::OkStatus();
  }

  absl::Status OnApiCalls(const ExportProcess& process,
                          absl::Span<const ApiCallRecord> records) override {
    for (const ApiCallRecord& r : records) {
      JsonObject line = Begin(process, "api_call");
      line.Text("domain", ShortName(static_cast<v1::ApiDomain>(r.domain)))
          .Text("function", process.FunctionName(r.domain, r.function))
          .Number("function_id", r.function)
          .Number("correlation_id", r.correlation_id)
          .Number("ancestor_id", r.ancestor_id)
          .Number("tid", r.tid)
          .Number("begin_ns", r.begin_ns)
          .Number("end_ns", r.end_ns)
          .Number("duration_ns", r.end_ns > r.begin_ns ? r.end_ns - r.begin_ns : 0);
      if (!r.text.empty()) {
        line.Text(r.flags & kApiCallArguments ? "arguments" : "text", r.text);
      }
      if (r.flags & kApiCallTextCut) line.Boolean("text_cut", true);
      line.Number("session", r.session);
      RETURN_IF_ERROR(End(&line));
    }
    return absl::OkStatus();
  }

  absl::Status OnMemory(const ExportProcess& process,
                        absl::Span<const MemoryRecord> records) override {
    for (const MemoryRecord& r : records) {
      JsonObject line = Begin(process, "memory");
      line.Text("operation", ShortName(static_cast<v1::MemoryOperation>(r.operation)))
          .Number("address", r.address)
          .Number("bytes", r.bytes)
          .Number("agent_id", r.agent_id)
          .Number("correlation_id", r.correlation_id)
          .Number("tid", r.tid)
          .Number("begin_ns", r.begin_ns)
          .Number("end_ns", r.end_ns)
          .Number("duration_ns", r.end_ns > r.begin_ns ? r.end_ns - r.begin_ns : 0)
          .Number("queue_id", r.queue_id)
          .Number("scratch_flags", r.scratch_flags)
          .Number("session", r.session);
      RETURN_IF_ERROR(End(&line));
    }
    return absl::OkStatus();
  }

  absl::Status EndProcess(const ExportProcess& process) override {
    // If the workload ever becomes known, it is known by now.
    const auto workload = WorkloadAttributes(process.process().workload());
    if (!workload.empty()) {
      JsonObject line = Begin(process, "workload");
      for (const auto& [name, value] : workload) line.Text(name, value);
      RETURN_IF_ERROR(End(&line));
    }
    if (!process.end().has_value()) return absl::OkStatus();
    return Message(process, "process_end", *process.end());
  }

  absl::Status Flush() override { return file_->Flush(); }
  absl::Status Finish() override { return file_->Complete(); }
  std::vector<std::string> Files() const override { return {file_->name()}; }

 private:
  // Begins a line with the keys that all lines have.
  JsonObject Begin(const ExportProcess& process, absl::string_view type) {
    JsonObject line(file_->buffer());
    line.Begin()
        .Text("type", type)
        .Number("recording", process.recording())
        .Number("stream", process.stream())
        .Number("pid", process.pid());
    return line;
  }
  absl::Status End(JsonObject* line) {
    line->End("}\n");
    return file_->WriteIfFull();
  }

  // Writes a message with all of its fields.
  absl::Status Message(const ExportProcess& process, absl::string_view type,
                       const google::protobuf::Message& message,
                       const std::string* display_name = nullptr) {
    JsonObject line = Begin(process, type);
    if (display_name != nullptr) line.Text("display_name", *display_name);
    const Json fields =
        MessageJson(message, UnsetFields::kIncluded, absl::StrCat(type, "_type"));
    for (const auto& [key, value] : fields.items()) {
      if (key != "pid") line.Raw(key, DumpJson(value));  // already in the line
    }
    return End(&line);
  }

  static absl::string_view KernelName(const ExportProcess& process, uint32_t id) {
    const ExportKernel* kernel = process.FindKernel(id);
    return kernel == nullptr ? "" : absl::string_view(kernel->display_name);
  }

  template <typename Operation>
  static void Times(const Operation& r, JsonObject* line) {
    line->Number("enqueue_ns", r.enqueue_ns)
        .Number("start_ns", r.start_ns)
        .Number("end_ns", r.end_ns)
        .Number("duration_ns", r.end_ns > r.start_ns ? r.end_ns - r.start_ns : 0);
  }

  template <typename Operation>
  static void Stream(const Operation& r, JsonObject* line) {
    if (HipStreamIn(r) != 0) line->Number("hip_stream", HipStreamId(r));
  }

  void Triple(absl::string_view key, uint32_t x, uint32_t y, uint32_t z,
              JsonObject* line) {
    line->Raw(key, "[");
    std::string* out = file_->buffer();
    AppendNumber(x, out);
    out->push_back(',');
    AppendNumber(y, out);
    out->push_back(',');
    AppendNumber(z, out);
    out->push_back(']');
  }

  static void Flags(uint16_t flags, JsonObject* line) {
    line->Boolean("untimed", flags & ROCATTACH_DISPATCH_UNTIMED)
        .Boolean("application_signal", flags & ROCATTACH_DISPATCH_APP_SIGNAL)
        .Boolean("unfinished", flags & ROCATTACH_DISPATCH_UNFINISHED);
  }

  void Value(const ExportProcess& process, const CounterRecord& r, JsonObject* line) {
    line->Text("counter", process.CounterName(r.plan, r.counter))
        .Number("counter_index", r.counter)
        .Real("sum", r.sum)
        .Real("min", r.minimum)
        .Real("max", r.maximum)
        .Number("instances", r.instances)
        .Number("pass", r.pass)
        .Number("plan", r.plan)
        .Number("session", r.session);
    if (r.each == nullptr) return;
    line->Raw("each", "[");
    std::string* out = file_->buffer();
    for (const CounterInstance& instance : *r.each) {
      if (out->back() != '[') out->push_back(',');
      const InstancePlace place = PlaceOf(instance.position);
      JsonObject(out)
          .Begin()
          .Number("xcc", place.xcc)
          .Number("aid", place.aid)
          .Number("shader_engine", place.shader_engine)
          .Number("shader_array", place.shader_array)
          .Number("wgp", place.wgp)
          .Number("instance", place.instance)
          .Real("value", instance.value)
          .End();
    }
    out->push_back(']');
  }

  std::unique_ptr<OutputFile> file_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ExportSink>> MakeNdjsonSink(
    const std::string& base, const ExportOptions& options) {
  ASSIGN_OR_RETURN(auto file,
                   OutputFile::Create(absl::StrCat(base, "_results.ndjson"), options));
  return std::make_unique<NdjsonSink>(std::move(file));
}

}  // namespace rocattach
