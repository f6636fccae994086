#include "userspace/export/pftrace/pftrace_sink.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "userspace/abi/hip_stream.h"
#include "userspace/base/human.h"
#include "userspace/base/status_macros.h"
#include "userspace/export/common/output_file.h"
#include "userspace/export/common/upstream_names.h"
#include "userspace/export/pftrace/pftrace_calls.h"
#include "userspace/export/pftrace/pftrace_packets.h"
#include "userspace/export/pftrace/pftrace_process.h"
#include "userspace/stream/losses.h"
#include "userspace/stream/merged_clock.h"

namespace rocattach {
namespace {

using perfetto::TrackEvent;

// "attached", "missed: …".
std::string VerdictText(const v1::WindowEvent& window) {
  std::string text;
  switch (window.state()) {
    case v1::WINDOW_STATE_ATTACHED:
      text = "attached";
      break;
    case v1::WINDOW_STATE_PASSED:
      text = "passed";
      break;
    case v1::WINDOW_STATE_REFUSED:
      text = "refused";
      break;
    case v1::WINDOW_STATE_MISSED:
      text = "missed";
      break;
    default:
      text = "attach window";
      break;
  }
  if (!window.detail().empty()) absl::StrAppend(&text, ": ", window.detail());
  return text;
}

// "lost: 12 ring full, 3 unseen"; empty if nothing was lost.
std::string LossesText(const v1::LossAccount& account) {
  std::string lost = LossText(account);
  if (!account.not_believable().empty()) {
    absl::StrAppend(&lost, lost.empty() ? "" : ", ",
                    "an unknown number: ", account.not_believable());
  }
  if (!account.unseen_work().empty()) {
    absl::StrAppend(&lost, lost.empty() ? "" : ", ",
                    "work that was not seen: ", account.unseen_work());
  }
  return lost.empty() ? "" : absl::StrCat("lost: ", lost);
}

// Describes how the times of a recording were put on the trace's clock, and their error
// where it is known; empty if they are on that clock already.
std::string AlignmentText(const v1::StreamHeader& header, const Alignment& alignment) {
  std::string recorded = absl::StrCat(
      "recorded on ", header.hostname().empty() ? "another machine" : header.hostname(),
      ": times are aligned by the machines' time of day");
  if (alignment.offset_ns != 0) return recorded;
  const std::optional<MergedClock> merged = MergedClockOf(header);
  if (!merged.has_value() || merged->offset_ns == 0) return "";
  return absl::StrCat(recorded, ", at most ", HumanDuration(merged->error_ns),
                      " wrong");
}

// Names are announced again after this many bytes of events, which limits what is lost
// when the file is damaged or its beginning is cut off.
constexpr uint64_t kResetBytes = 8 << 20;

// Numbers of an event; zeros are omitted.
template <size_t kMax>
class Numbers {
 public:
  void Add(PftraceArg name, uint64_t value) {
    if (value != 0) AddAny(name, value);
  }
  // Adds zeros too.
  void AddAny(PftraceArg name, uint64_t value) { numbers_[count_++] = {name, value}; }
  absl::Span<const PftraceNumber> span() const { return {numbers_.data(), count_}; }

 private:
  std::array<PftraceNumber, kMax> numbers_;
  size_t count_ = 0;
};

class PftraceSink : public ExportSink {
 public:
  explicit PftraceSink(std::unique_ptr<OutputFile> file)
      : file_(std::move(file)), trace_(file_->buffer()) {}

  absl::Status BeginProcess(const ExportProcess& process) override {
    const bool first = trace_.generation == 0;
    if (first) {
      trace_.Reset();
      base_ = process.header();
    }
    PftraceMachine* const machine = trace_.MachineOf(process.header());
    Entry& entry = processes_[&process];
    entry.alignment = Align(base_, process.header());
    trace_.Select(machine, entry.alignment);
    if (first) WriteHeader(process);
    entry.names = std::make_unique<PftraceProcess>(process, machine, &trace_);
    WriteAlignment(process, entry.alignment);
    return file_->WriteIfFull();
  }

  absl::Status OnAgent(const ExportProcess& process, const v1::Agent& agent) override {
    Of(process)->Gpu(agent.id());
    return file_->WriteIfFull();
  }

  absl::Status OnDispatches(const ExportProcess& process,
                            absl::Span<const rocattach_dispatch> records) override {
    MaybeReset();
    PftraceProcess* names = Of(process);
    const bool traced = !process.functions().empty();
    for (const rocattach_dispatch& r : records) {
      AddDispatch(names, traced, r);
      RETURN_IF_ERROR(file_->WriteIfFull());
    }
    return absl::OkStatus();
  }

  absl::Status OnCopies(const ExportProcess& process,
                        absl::Span<const rocattach_copy> records) override {
    MaybeReset();
    PftraceProcess* names = Of(process);
    const bool traced = !process.functions().empty();
    for (const rocattach_copy& r : records) {
      AddCopy(process, names, traced, r);
      RETURN_IF_ERROR(file_->WriteIfFull());
    }
    return absl::OkStatus();
  }

  absl::Status OnCountedDispatch(const ExportProcess& process,
                                 const CountedDispatch& counted) override {
    MaybeReset();
    // Without its dispatch a value has no time; the exporter counts such values.
    if (counted.dispatch == nullptr) return absl::OkStatus();
    const rocattach_dispatch& r = *counted.dispatch;
    const bool timed = HasTimes(r);
    for (const CounterRecord& value : counted.values) {
      AddValue(process, value, timed ? r.start_ns : r.enqueue_ns,
               timed ? r.end_ns : r.enqueue_ns, /*sampled=*/false);
    }
    return file_->WriteIfFull();
  }

  absl::Status OnSamples(const ExportProcess& process,
                         absl::Span<const CounterRecord> records) override {
    MaybeReset();
    for (const CounterRecord& value : records) {
      AddValue(process, value, value.begin_ns, value.end_ns, /*sampled=*/true);
      RETURN_IF_ERROR(file_->WriteIfFull());
    }
    return absl::OkStatus();
  }

  absl::Status OnApiCalls(const ExportProcess& process,
                          absl::Span<const ApiCallRecord> records) override {
    MaybeReset();
    calls_.Write(records, process, Of(process), &trace_.packets);
    return file_->WriteIfFull();
  }

  // Instants on the threads' tracks: they lie inside calls, which may also be written.
  absl::Status OnMemory(const ExportProcess& process,
                        absl::Span<const MemoryRecord> records) override {
    MaybeReset();
    for (const MemoryRecord& r : records) {
      Numbers<6> numbers;
      numbers.Add(kArgCorrelationId, r.correlation_id);
      numbers.Add(kArgBytes, r.bytes);
      numbers.Add(kArgAddress, r.address);
      numbers.Add(kArgAgent, r.agent_id);
      numbers.Add(kArgQueue, r.queue_id);
      numbers.Add(kArgDurationNs, r.end_ns > r.begin_ns ? r.end_ns - r.begin_ns : 0);
      PftraceTrackEvent event;
      event.type = TrackEvent::TYPE_INSTANT;
      event.time_ns = r.begin_ns;
      event.track = Of(process)->ThreadTrack(r.tid);
      event.category = IsScratch(r.operation) ? kCategoryScratch : kCategoryMemory;
      event.name_text = MemoryOperationName(r.operation);
      event.numbers = numbers.span();
      trace_.packets.Track(event);
      RETURN_IF_ERROR(file_->WriteIfFull());
    }
    return absl::OkStatus();
  }

  absl::Status EndProcess(const ExportProcess& process) override {
    Of(process)->AnnounceWorkload();
    if (process.window().has_value()) WriteVerdict(process);
    if (process.account().has_value()) WriteLosses(process);
    if (process.end().has_value()) WriteEnd(process);
    processes_.erase(&process);
    return file_->WriteIfFull();
  }

  absl::Status Flush() override { return file_->Flush(); }
  absl::Status Finish() override { return file_->Complete(); }
  std::vector<std::string> Files() const override { return {file_->name()}; }

 private:
  struct Entry {
    std::unique_ptr<PftraceProcess> names;
    Alignment alignment;  // to the first recording's clock
  };

  // Selects the process for the packets that follow.
  PftraceProcess* Of(const ExportProcess& process) {
    const Entry& entry = processes_.at(&process);
    trace_.Select(entry.names->machine(), entry.alignment);
    return entry.names.get();
  }

  void MaybeReset() {
    if (trace_.packets.event_bytes() - trace_.reset_at > kResetBytes) trace_.Reset();
  }

  // Writes the clocks of the first recording, and the identity of the trace.
  void WriteHeader(const ExportProcess& process) {
    const v1::StreamHeader& header = process.header();
    if (header.clock().boottime_ns() != 0) {
      perfetto::TracePacket packet;
      perfetto::ClockSnapshot* clocks = packet.mutable_clock_snapshot();
      auto add = [&](perfetto::BuiltinClock clock, uint64_t time_ns) {
        perfetto::ClockSnapshot::Clock* entry = clocks->add_clocks();
        entry->set_clock_id(clock);
        entry->set_timestamp(time_ns);
      };
      add(perfetto::BUILTIN_CLOCK_REALTIME, header.clock().realtime_ns());
      add(perfetto::BUILTIN_CLOCK_MONOTONIC, header.clock().monotonic_ns());
      add(perfetto::BUILTIN_CLOCK_MONOTONIC_RAW, header.clock().monotonic_raw_ns());
      add(perfetto::BUILTIN_CLOCK_BOOTTIME, header.clock().boottime_ns());
      clocks->set_primary_trace_clock(perfetto::BUILTIN_CLOCK_BOOTTIME);
      trace_.packets.Rare(std::move(packet));
    }
    const std::string& id = header.recording_id();
    if (id.size() != 16) return;
    auto half = [&](size_t at) {
      uint64_t value = 0;
      for (size_t i = 0; i < 8; ++i) {
        value = value << 8 | static_cast<uint8_t>(id[at + i]);
      }
      return static_cast<int64_t>(value);
    };
    perfetto::TracePacket packet;
    packet.mutable_trace_uuid()->set_msb(half(0));
    packet.mutable_trace_uuid()->set_lsb(half(8));
    trace_.packets.Rare(std::move(packet));
  }

  // Adds the GPU, and the HIP stream if it is known.
  template <typename Operation, size_t kMax>
  static void AddPlace(uint32_t gpu, const Operation& r, Numbers<kMax>* numbers) {
    numbers->AddAny(kArgDevice, gpu);
    if (HipStreamIn(r) != 0) numbers->AddAny(kArgStream, HipStreamId(r));
  }

  void AddDispatch(PftraceProcess* names, bool traced, const rocattach_dispatch& r) {
    Numbers<9> numbers;
    numbers.Add(kArgCorrelationId, r.correlation_id);
    numbers.Add(kArgDispatchId, r.dispatch_id);
    numbers.Add(kArgTid, r.tid);
    numbers.Add(kArgEnqueueNs, trace_.packets.Shifted(r.enqueue_ns));
    numbers.Add(kArgLdsBytes, r.lds_bytes);
    numbers.Add(kArgScratchBytes, r.scratch_bytes);
    numbers.Add(kArgHipStream, HipStreamId(r));
    if (!HasTimes(r)) {
      WriteUntimed(names, r.tid, r.enqueue_ns, kCategoryDispatch,
                   names->Kernel(r.kernel_id), numbers.span());
      return;
    }
    PftraceStageEvent event;
    event.begin_ns = r.start_ns;
    event.end_ns = r.end_ns;
    event.gpu = names->Gpu(r.agent_id);
    AddPlace(event.gpu, r, &numbers);
    event.queue = names->Queue(r.queue_id);
    event.stage = kStageKernel;
    event.name = event.kernel = names->Kernel(r.kernel_id);
    event.grid = {r.grid_x, r.grid_y, r.grid_z};
    event.workgroup = {r.workgroup_x, r.workgroup_y, r.workgroup_z};
    event.numbers = numbers.span();
    WriteStage(names, traced, r.tid, r.enqueue_ns, &event);
  }

  void AddCopy(const ExportProcess& process, PftraceProcess* names, bool traced,
               const rocattach_copy& r) {
    Numbers<12> numbers;
    numbers.Add(kArgCorrelationId, r.correlation_id);
    numbers.Add(kArgBytes, r.bytes);
    numbers.Add(kArgTid, r.tid);
    numbers.Add(kArgEnqueueNs, trace_.packets.Shifted(r.enqueue_ns));
    numbers.Add(kArgSourceAgent, r.src_agent_id);
    numbers.Add(kArgDestinationAgent, r.dst_agent_id);
    numbers.Add(kArgSourceAddress, r.src_address);
    numbers.Add(kArgDestinationAddress, r.dst_address);
    numbers.Add(kArgEngine, r.engine);
    numbers.Add(kArgHipStream, HipStreamId(r));
    if (!HasTimes(r)) {
      WriteUntimed(names, r.tid, r.enqueue_ns, kCategoryCopy,
                   names->CopyName(r.direction), numbers.span());
      return;
    }
    const v1::Agent* destination = process.FindAgent(r.dst_agent_id);
    const bool to_gpu =
        destination != nullptr && destination->type() == v1::AGENT_TYPE_GPU;
    PftraceStageEvent event;
    event.begin_ns = r.start_ns;
    event.end_ns = r.end_ns;
    event.gpu = names->Gpu(to_gpu ? r.dst_agent_id : r.src_agent_id);
    AddPlace(event.gpu, r, &numbers);
    event.queue = names->CopyQueue(r.direction);
    event.stage = kStageCopy;
    event.name = names->CopyName(r.direction);
    event.numbers = numbers.span();
    WriteStage(names, traced, r.tid, r.enqueue_ns, &event);
  }

  void WriteStage(PftraceProcess* names, bool traced, uint32_t tid, uint64_t enqueue_ns,
                  PftraceStageEvent* event) {
    event->event_id = trace_.next_event++;
    event->context = names->Context();
    trace_.packets.Stage(*event);
    if (!traced || names->matcher()->Submit(tid, enqueue_ns, event->event_id)) return;
    // The call is already written: an instant inside it links to the operation.
    PftraceTrackEvent submission;
    submission.type = TrackEvent::TYPE_INSTANT;
    submission.time_ns = enqueue_ns;
    submission.track = names->ThreadTrack(tid);
    submission.category =
        event->stage == kStageKernel ? kCategoryDispatch : kCategoryCopy;
    submission.name_text = "submit";
    submission.submitted = absl::MakeConstSpan(&event->event_id, 1);
    trace_.packets.Track(submission);
  }

  // Shows an operation without times on the GPU at the time of its submission.
  void WriteUntimed(PftraceProcess* names, uint32_t tid, uint64_t enqueue_ns,
                    PftraceCategory category, uint32_t name,
                    absl::Span<const PftraceNumber> numbers) {
    PftraceTrackEvent event;
    event.type = TrackEvent::TYPE_INSTANT;
    event.time_ns = enqueue_ns;
    event.track = names->ThreadTrack(tid);
    event.category = category;
    event.name = name;
    event.numbers = numbers;
    trace_.packets.Track(event);
  }

  void AddValue(const ExportProcess& process, const CounterRecord& value,
                uint64_t begin_ns, uint64_t end_ns, bool sampled) {
    absl::string_view name = process.CounterName(value.plan, value.counter);
    const uint64_t track = Of(process)->CounterTrack(
        value.agent_id, name.empty() ? "counter (name not known)" : name, sampled);
    trace_.packets.Counter(begin_ns, track, value.sum);
    // A track keeps its value until the next one is written.
    trace_.packets.Counter(std::max(begin_ns, end_ns), track, 0);
  }

  // Writes an instant on the process's own track; nothing without a time.
  void WriteNote(const ExportProcess& process, uint64_t time_ns, std::string text) {
    if (time_ns == 0) return;
    perfetto::TracePacket packet;
    packet.set_timestamp(time_ns);
    TrackEvent* event = packet.mutable_track_event();
    event->set_type(TrackEvent::TYPE_INSTANT);
    event->set_track_uuid(Of(process)->ProcessTrack());
    event->add_category_iids(kCategoryProcess);
    event->set_name(std::move(text));
    trace_.packets.Rare(std::move(packet));
  }

  void WriteAlignment(const ExportProcess& process, const Alignment& alignment) {
    const std::string text = AlignmentText(process.header(), alignment);
    if (text.empty()) return;
    WriteNote(process, process.header().clock().boottime_ns(), text);
  }

  void WriteVerdict(const ExportProcess& process) {
    const v1::WindowEvent& window = *process.window();
    WriteNote(process, window.hit_ns() != 0 ? window.hit_ns() : window.time_ns(),
              VerdictText(window));
  }

  void WriteLosses(const ExportProcess& process) {
    const std::string lost = LossesText(*process.account());
    if (lost.empty()) return;
    const uint64_t at = process.account()->time_ns();
    WriteNote(process, at == 0 && process.end() ? process.end()->time_ns() : at, lost);
  }

  void WriteEnd(const ExportProcess& process) {
    const v1::ProcessEnd& end = *process.end();
    std::string text = "end of the recording of this process";
    if (end.how() == v1::ProcessEnd::EXITED) {
      text = absl::StrCat("exited with status ", end.exit_code());
    } else if (end.how() == v1::ProcessEnd::SIGNALLED) {
      text = absl::StrCat("killed by signal ", end.signal());
    }
    WriteNote(process, end.time_ns(), std::move(text));
  }

  const std::unique_ptr<OutputFile> file_;
  PftraceFile trace_;
  PftraceCalls calls_;
  v1::StreamHeader base_;  // header of the recording whose clock the trace uses
  absl::flat_hash_map<const ExportProcess*, Entry> processes_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ExportSink>> MakePftraceSink(
    const std::string& base, const ExportOptions& options) {
  ASSIGN_OR_RETURN(auto file,
                   OutputFile::Create(absl::StrCat(base, "_results.pftrace"), options));
  return std::make_unique<PftraceSink>(std::move(file));
}

}  // namespace rocattach
