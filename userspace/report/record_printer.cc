#include "userspace/report/record_printer.h"

#include <utility>

#include "userspace/abi/hip_stream.h"
#include "userspace/report/text.h"
#include "userspace/stream/merged_clock.h"
#include "userspace/stream/record_kinds.h"

namespace rocattach {
namespace {

constexpr size_t kFlushBytes = 64 << 10;
// Limit of the kernel names that are kept to be printed with dispatches.
constexpr size_t kMaxNameBytes = 256 << 20;

std::string DamageKindName(Damage::Kind kind) {
  switch (kind) {
    case Damage::Kind::kSkippedBytes:
      return "skipped_bytes";
    case Damage::Kind::kMissingFrames:
      return "missing_frames";
    case Damage::Kind::kUndecodable:
      return "undecodable_frame";
    case Damage::Kind::kUnknownFrame:
      return "unknown_frame";
    case Damage::Kind::kNoBeginning:
      return "no_beginning";
    case Damage::Kind::kNoEnd:
      return "no_end";
  }
  return "unknown";
}

// The type with which the lines of a message begin.
absl::string_view TypeOf(const google::protobuf::Message& message) {
  static const auto* const kTypes =
      new absl::flat_hash_map<const google::protobuf::Descriptor*, absl::string_view>{
          {v1::Process::descriptor(), "process"},
          {v1::Agent::descriptor(), "agent"},
          {v1::Queue::descriptor(), "queue"},
          {v1::CodeObject::descriptor(), "code_object"},
          {v1::SessionPlan::descriptor(), "session_plan"},
          {v1::ApiFunction::descriptor(), "api_function"},
          {v1::Thread::descriptor(), "thread"},
          {v1::SessionEvent::descriptor(), "session"},
          {v1::WindowEvent::descriptor(), "window"},
          {v1::ClockRelation::descriptor(), "clock"},
          {v1::SamplingEvent::descriptor(), "sampling"},
          {v1::LossAccount::descriptor(), "account"},
          {v1::ProcessEnd::descriptor(), "process_end"},
          {v1::WatcherSummary::descriptor(), "summary"},
          {v1::StreamEnd::descriptor(), "recording_end"},
      };
  const auto type = kTypes->find(message.GetDescriptor());
  return type == kTypes->end() ? message.GetDescriptor()->name() : type->second;
}

uint64_t NameKey(uint32_t stream, uint32_t kernel_id) {
  return uint64_t{stream} << 32 | kernel_id;
}

}  // namespace

RecordPrinter::RecordPrinter(PrinterOptions options,
                             std::function<void(absl::string_view)> write)
    : options_(std::move(options)),
      write_(std::move(write)),
      wanted_(options_.types.begin(), options_.types.end()),
      line_(options_.style, &buffer_) {}

std::vector<std::string> RecordPrinter::RecordTypes() {
  return {"recording",   "process",     "window",        "agent",        "queue",
          "kernel",      "code_object", "session_plan",  "api_function", "thread",
          "dispatch",    "copy",        "counter",       "sample",       "api_call",
          "memory",      "session",     "clock",         "sampling",     "account",
          "process_end", "summary",     "recording_end", "damage"};
}

void RecordPrinter::Flush() {
  if (buffer_.empty()) return;
  write_(buffer_);
  buffer_.clear();
}

bool RecordPrinter::Begin(absl::string_view type, uint32_t recording, uint32_t stream) {
  if (!wanted_.empty() && !wanted_.contains(type)) return false;
  line_.Begin(type);
  line_.Number("recording", recording);
  line_.Number("stream", stream);
  return true;
}

void RecordPrinter::End() {
  line_.End();
  if (options_.flush_lines || buffer_.size() >= kFlushBytes) Flush();
}

void RecordPrinter::OnMessage(const FrameContext& at,
                              const google::protobuf::Message& message) {
  if (!Begin(TypeOf(message), at.recording, at.stream)) return;
  if (at.repeated) line_.Boolean("repeated", true);
  line_.Fields(message);
  End();
}

template <typename Kind, typename Fields>
void RecordPrinter::Records(const FrameContext& at,
                            absl::Span<const typename Kind::Record> records,
                            Fields fields) {
  for (const auto& record : records) {
    if (!Begin(Kind::kName, at.recording, at.stream)) return;
    fields(record);
    End();
  }
}

void RecordPrinter::OnRecording(const FrameContext& at,
                                const v1::StreamHeader* header) {
  kernel_names_.clear();
  demanglers_.clear();
  counter_names_.clear();
  function_names_.clear();
  kernel_name_bytes_ = 0;
  if (!Begin("recording", at.recording, at.stream)) return;
  if (header != nullptr) {
    line_.Fields(*header);
    if (const auto merged = MergedClockOf(*header)) {
      line_.Value("merged_clock",
                  {{"offset_ns", merged->offset_ns}, {"error_ns", merged->error_ns}});
    }
  }
  End();
}

void RecordPrinter::OnKernel(const FrameContext& at, const v1::Kernel& kernel) {
  std::string name = demanglers_.try_emplace(at.stream, Demangler::WithoutCache())
                         .first->second.Demangle(kernel.name());
  if (Begin("kernel", at.recording, at.stream)) {
    if (at.repeated) line_.Boolean("repeated", true);
    line_.Text("display_name", name);
    line_.Fields(kernel);
    End();
  }
  if (kernel_name_bytes_ + name.size() + 64 > kMaxNameBytes) return;
  kernel_name_bytes_ += name.size() + 64;
  kernel_names_[NameKey(at.stream, kernel.id())] = std::move(name);
}

const std::string& RecordPrinter::KernelName(uint32_t stream,
                                             uint32_t kernel_id) const {
  static const std::string* const kNone = new std::string;
  auto it = kernel_names_.find(NameKey(stream, kernel_id));
  return it == kernel_names_.end() ? *kNone : it->second;
}

void RecordPrinter::OnSessionPlan(const FrameContext& at, const v1::SessionPlan& plan) {
  OnMessage(at, plan);
  if (kernel_name_bytes_ + plan.ByteSizeLong() > kMaxNameBytes) return;
  std::vector<std::string>& names = counter_names_[NameKey(at.stream, plan.id())];
  if (!names.empty()) return;
  kernel_name_bytes_ += plan.ByteSizeLong() + 64;
  names.assign(plan.counters().begin(), plan.counters().end());
}

void RecordPrinter::OnApiFunction(const FrameContext& at,
                                  const v1::ApiFunction& function) {
  OnMessage(at, function);
  if (kernel_name_bytes_ + function.name().size() + 64 > kMaxNameBytes) return;
  kernel_name_bytes_ += function.name().size() + 64;
  function_names_[{at.stream, function.domain(), function.function()}] =
      function.name();
}

void RecordPrinter::Value(const FrameContext& at, const CounterRecord& r) {
  auto plan = counter_names_.find(NameKey(at.stream, r.plan));
  const bool known = plan != counter_names_.end() && r.counter < plan->second.size();
  line_.Text("counter", known ? plan->second[r.counter] : "");
  line_.Number("counter_index", r.counter);
  line_.Real("sum", r.sum);
  line_.Real("min", r.minimum);
  line_.Real("max", r.maximum);
  line_.Number("instances", r.instances);
  if (r.each != nullptr) {
    Json each = Json::array();
    for (const CounterInstance& instance : *r.each) {
      const InstancePlace place = PlaceOf(instance.position);
      each.push_back({{"xcc", place.xcc},
                      {"aid", place.aid},
                      {"shader_engine", place.shader_engine},
                      {"shader_array", place.shader_array},
                      {"wgp", place.wgp},
                      {"instance", place.instance},
                      {"value", NumberJson(instance.value)}});
    }
    line_.Value("each", std::move(each));
  }
  line_.Number("pass", r.pass);
  line_.Number("plan", r.plan);
  line_.Number("session", r.session);
}

void RecordPrinter::OnCounters(const FrameContext& at,
                               absl::Span<const CounterRecord> records) {
  Records<CounterKind>(at, records, [&](const CounterRecord& r) {
    line_.Number("correlation_id", r.operation);
    line_.Text("kernel", KernelName(at.stream, r.kernel_id));
    line_.Number("kernel_id", r.kernel_id);
    line_.Number("agent_id", r.agent_id);
    Value(at, r);
  });
}

void RecordPrinter::OnSamples(const FrameContext& at,
                              absl::Span<const CounterRecord> records) {
  Records<SampleKind>(at, records, [&](const CounterRecord& r) {
    line_.Number("sample_id", r.operation);
    line_.Number("agent_id", r.agent_id);
    line_.Number("begin_ns", r.begin_ns);
    line_.Number("end_ns", r.end_ns);
    Value(at, r);
  });
}

void RecordPrinter::OnApiCalls(const FrameContext& at,
                               absl::Span<const ApiCallRecord> records) {
  Records<ApiCallKind>(at, records, [&](const ApiCallRecord& r) {
    auto name = function_names_.find({at.stream, r.domain, r.function});
    line_.Text("domain", ShortName(static_cast<v1::ApiDomain>(r.domain)));
    line_.Text("function", name == function_names_.end() ? "" : name->second);
    line_.Number("function_id", r.function);
    line_.Number("correlation_id", r.correlation_id);
    line_.Number("ancestor_id", r.ancestor_id);
    line_.Number("tid", r.tid);
    line_.Number("begin_ns", r.begin_ns);
    line_.Number("end_ns", r.end_ns);
    line_.Number("duration_ns", r.end_ns > r.begin_ns ? r.end_ns - r.begin_ns : 0);
    if (!r.text.empty()) {
      line_.Text(r.flags & kApiCallArguments ? "arguments" : "text", r.text);
    }
    if (r.flags & kApiCallTextCut) line_.Boolean("text_cut", true);
    line_.Number("session", r.session);
  });
}

void RecordPrinter::OnMemory(const FrameContext& at,
                             absl::Span<const MemoryRecord> records) {
  Records<MemoryKind>(at, records, [&](const MemoryRecord& r) {
    line_.Text("operation", ShortName(static_cast<v1::MemoryOperation>(r.operation)));
    line_.Number("address", r.address);
    line_.Number("bytes", r.bytes);
    line_.Number("agent_id", r.agent_id);
    line_.Number("correlation_id", r.correlation_id);
    line_.Number("tid", r.tid);
    line_.Number("begin_ns", r.begin_ns);
    line_.Number("end_ns", r.end_ns);
    line_.Number("duration_ns", r.end_ns > r.begin_ns ? r.end_ns - r.begin_ns : 0);
    line_.Number("queue_id", r.queue_id);
    line_.Number("scratch_flags", r.scratch_flags);
    line_.Number("session", r.session);
  });
}

template <typename Operation>
void RecordPrinter::Times(const Operation& operation) {
  line_.Number("enqueue_ns", operation.enqueue_ns);
  line_.Number("start_ns", operation.start_ns);
  line_.Number("end_ns", operation.end_ns);
  line_.Number("duration_ns", operation.end_ns > operation.start_ns
                                  ? operation.end_ns - operation.start_ns
                                  : 0);
}

void RecordPrinter::Flags(uint16_t flags) {
  bool always = options_.style == LineWriter::Style::kJson;
  auto flag = [&](const char* name, uint16_t bit) {
    if (always || (flags & bit) != 0) line_.Boolean(name, (flags & bit) != 0);
  };
  flag("untimed", ROCATTACH_DISPATCH_UNTIMED);
  flag("application_signal", ROCATTACH_DISPATCH_APP_SIGNAL);
  flag("unfinished", ROCATTACH_DISPATCH_UNFINISHED);
}

void RecordPrinter::OnDispatches(const FrameContext& at,
                                 absl::Span<const rocattach_dispatch> records) {
  Records<DispatchKind>(at, records, [&](const rocattach_dispatch& r) {
    line_.Number("correlation_id", r.correlation_id);
    line_.Text("kernel", KernelName(at.stream, r.kernel_id));
    line_.Number("kernel_id", r.kernel_id);
    line_.Number("agent_id", r.agent_id);
    line_.Number("queue_id", r.queue_id);
    line_.Number("tid", r.tid);
    Times(r);
    line_.Triple("grid", {r.grid_x, r.grid_y, r.grid_z});
    line_.Triple("workgroup", {r.workgroup_x, r.workgroup_y, r.workgroup_z});
    line_.Number("lds_bytes", r.lds_bytes);
    line_.Number("scratch_bytes", r.scratch_bytes);
    line_.Number("packet_index", PacketNumber(r));
    if (HipStreamIn(r) != 0) line_.Number("hip_stream", HipStreamId(r));
    if (r.dispatch_id != 0) line_.Number("dispatch_id", r.dispatch_id);
    Flags(r.flags);
  });
}

void RecordPrinter::OnCopies(const FrameContext& at,
                             absl::Span<const rocattach_copy> records) {
  Records<CopyKind>(at, records, [&](const rocattach_copy& r) {
    line_.Number("correlation_id", r.correlation_id);
    line_.Text("direction", ShortName(static_cast<v1::CopyDirection>(r.direction)));
    line_.Text("engine", ShortName(static_cast<v1::CopyEngine>(r.engine)));
    line_.Number("bytes", r.bytes);
    line_.Number("src_agent_id", r.src_agent_id);
    line_.Number("dst_agent_id", r.dst_agent_id);
    line_.Number("tid", r.tid);
    Times(r);
    line_.Number("src_address", r.src_address);
    line_.Number("dst_address", r.dst_address);
    if (HipStreamIn(r) != 0) line_.Number("hip_stream", HipStreamId(r));
    Flags(r.flags);
  });
}

void RecordPrinter::OnDamage(const Damage& damage) {
  if (!Begin("damage", damage.recording, damage.stream)) return;
  line_.Text("kind", DamageKindName(damage.kind));
  line_.Number("offset", damage.offset);
  line_.Number("bytes", damage.bytes);
  line_.Number("frames", damage.frames);
  line_.Number("records", damage.records);
  line_.Boolean("at_end", damage.at_end);
  line_.Text("what", damage.what);
  End();
}

}  // namespace rocattach
