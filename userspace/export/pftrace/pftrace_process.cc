#include "userspace/export/pftrace/pftrace_process.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "userspace/export/common/copy_direction.h"
#include "userspace/report/workload_attributes.h"
#include "userspace/stream/merged_clock.h"

namespace rocattach {
namespace {

using perfetto::InternedData;
using perfetto::TrackDescriptor;

// Maximum number of GPUs that are described; further ones have only numbers.
constexpr int kMaxGpus = 1024;
// Maximum number of machines told apart; each is announced again after a reset.
constexpr size_t kMaxMachines = 1024;
// Maximum number of threads whose ranges are tracked.
constexpr size_t kMaxRangeThreads = 1 << 16;

// The finaliser of SplitMix64: spreads every bit of `value` over the result.
uint64_t Mix(uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

uint64_t MixText(absl::string_view text) {
  uint64_t mixed = text.size();
  for (char c : text) mixed = Mix(mixed ^ static_cast<uint8_t>(c));
  return mixed;
}

// Keeps the tracks of two files distinct if the files are joined.
uint64_t SeedOf(const ExportProcess& process) {
  return Mix(MixText(process.header().recording_id()) ^
             (uint64_t{process.recording()} << 32 | process.stream()));
}

std::string PciAddress(uint64_t bdf) {
  return absl::StrFormat("%04x:%02x:%02x.%x", bdf >> 16, bdf >> 8 & 0xff,
                         bdf >> 3 & 0x1f, bdf & 7);
}

perfetto::GpuInfo::Gpu Describe(const v1::Agent& agent, uint32_t number) {
  perfetto::GpuInfo::Gpu gpu;
  gpu.set_name(
      absl::StrCat("GPU ", number, " ",
                   agent.product_name().empty() ? agent.name() : agent.product_name()));
  gpu.set_vendor("AMD");
  gpu.set_model(agent.product_name());
  gpu.set_architecture(agent.name());
  if (agent.pci_bdf() != 0) gpu.set_pci_bdf(PciAddress(agent.pci_bdf()));
  auto add = [&](const char* key, auto value) {
    perfetto::GpuInfo::KeyValue* info = gpu.add_extra_info();
    info->set_key(key);
    info->set_value(absl::StrCat(value));
  };
  add("uuid", agent.uuid());
  add("node_id", agent.node_id());
  add("compute_units", agent.compute_units());
  add("wavefront_size", agent.wavefront_size());
  add("local_memory_bytes", agent.local_memory_bytes());
  return gpu;
}

void AddArgument(const char* name, uint64_t value,
                 perfetto::InternedComputeKernel* kernel) {
  if (value == 0) return;
  auto* argument = kernel->add_args();
  argument->set_name(name);
  argument->set_uint_value(value);
}

}  // namespace

void PftraceFile::Reset() {
  ++generation;
  reset_at = packets.event_bytes();
}

PftraceMachine* PftraceFile::MachineOf(const v1::StreamHeader& header) {
  // Merged recordings all have the boot id of the first one. Those of another machine
  // with the same name have at least been shifted, which tells them apart.
  const std::optional<MergedClock> merged = MergedClockOf(header);
  const bool shifted = merged.has_value() && merged->offset_ns != 0;
  const std::string key =
      absl::StrCat(header.hostname(), "/", header.boot_id(), shifted ? "/shifted" : "");
  const auto known = machines.find(key);
  if (known != machines.end()) return &known->second;
  if (machines.size() >= kMaxMachines) return &machines.begin()->second;
  const auto id = static_cast<uint32_t>(machines.size());
  PftraceMachine& machine = machines[key];
  machine.id = id;
  return &machine;
}

void PftraceFile::Select(PftraceMachine* machine, const Alignment& alignment) {
  packets.set_alignment(alignment);
  packets.set_machine(machine->id);
  if (machine->generation == generation) return;
  packets.Reset(/*first=*/machine->generation == 0);
  machine->generation = generation;
  if (machine->gpus.gpus_size() == 0) return;
  perfetto::TracePacket packet;
  *packet.mutable_gpu_info() = machine->gpus;
  packets.Rare(std::move(packet));
}

uint32_t PftraceFile::Gpu(PftraceMachine* machine, const v1::Agent& agent) {
  const std::string key =
      absl::StrCat(agent.node_id(), "/", agent.pci_bdf(), "/", agent.uuid());
  const auto [number, added] = machine->gpu_numbers.try_emplace(
      key, static_cast<uint32_t>(machine->gpu_numbers.size()));
  if (added && machine->gpus.gpus_size() < kMaxGpus) {
    *machine->gpus.add_gpus() = Describe(agent, number->second);
    perfetto::TracePacket packet;
    *packet.mutable_gpu_info() = machine->gpus;
    packets.Rare(std::move(packet));
  }
  return number->second;
}

PftraceProcess::PftraceProcess(const ExportProcess& process, PftraceMachine* machine,
                               PftraceFile* file)
    : process_(process), machine_(machine), file_(file), seed_(SeedOf(process)) {
  ProcessTrack();
}

std::string PftraceProcess::NameForPeople() const {
  const std::string& comm = process_.process().comm();
  return absl::StrCat(comm.empty() ? "process" : comm, " (", process_.pid(), ")");
}

void PftraceProcess::Announce(InternedData data) {
  perfetto::TracePacket packet;
  *packet.mutable_interned_data() = std::move(data);
  file_->packets.Rare(std::move(packet));
}

void PftraceProcess::Announce(TrackDescriptor track) {
  perfetto::TracePacket packet;
  *packet.mutable_track_descriptor() = std::move(track);
  file_->packets.Rare(std::move(packet));
}

uint32_t PftraceProcess::Kernel(uint32_t kernel_id) {
  const auto name = kernels_.Get(kernel_id, file_->generation, &file_->next_iid);
  if (!name.announce) return name.iid;
  InternedData data;
  perfetto::InternedName* event = data.add_event_names();
  event->set_iid(name.iid);
  perfetto::InternedComputeKernel* kernel = data.add_compute_kernels();
  kernel->set_iid(name.iid);
  const ExportKernel* known = process_.FindKernel(kernel_id);
  if (known == nullptr) {
    event->set_name(absl::StrCat("kernel ", kernel_id, " (name not known)"));
  } else {
    event->set_name(known->display_name);
    kernel->set_name(known->kernel.name());
    kernel->set_demangled_name(known->display_name);
    if (const v1::Agent* agent = process_.FindAgent(known->kernel.agent_id())) {
      kernel->set_arch(agent->name());
    }
    AddArgument("sgprs", known->kernel.sgprs(), kernel);
    AddArgument("arch_vgprs", known->kernel.arch_vgprs(), kernel);
    AddArgument("accum_vgprs", known->kernel.accum_vgprs(), kernel);
    AddArgument("static_lds_bytes", known->kernel.lds_bytes(), kernel);
  }
  Announce(std::move(data));
  return name.iid;
}

template <typename Text>
uint32_t PftraceProcess::Named(uint64_t key, Text text) {
  const auto name = names_.Get(key, file_->generation, &file_->next_iid);
  if (name.announce) {
    InternedData data;
    perfetto::InternedName* event = data.add_event_names();
    event->set_iid(name.iid);
    event->set_name(text());
    Announce(std::move(data));
  }
  return name.iid;
}

uint32_t PftraceProcess::Function(uint32_t domain, uint32_t function) {
  return Named(uint64_t{domain} << 32 | function, [&] {
    const absl::string_view name = process_.FunctionName(domain, function);
    return name.empty() ? absl::StrCat("function ", function, " (name not known)")
                        : std::string(name);
  });
}

uint32_t PftraceProcess::CopyName(uint32_t direction) {
  return Named(~uint64_t{direction}, [&] { return CopyDirectionText(direction); });
}

template <typename Text>
uint32_t PftraceProcess::QueueNamed(uint64_t key, Text text) {
  const auto name = queues_.Get(key, file_->generation, &file_->next_iid);
  if (name.announce) {
    InternedData data;
    auto* queue = data.add_gpu_specifications();
    queue->set_iid(name.iid);
    queue->set_name(absl::StrCat(text(), " of ", NameForPeople()));
    Announce(std::move(data));
  }
  return name.iid;
}

uint32_t PftraceProcess::Queue(uint32_t queue_id) {
  return QueueNamed(queue_id, [&] { return absl::StrCat("queue ", queue_id); });
}

uint32_t PftraceProcess::CopyQueue(uint32_t direction) {
  return QueueNamed(~uint64_t{direction}, [&] {
    return absl::StrCat("copies ", CopyDirectionText(direction));
  });
}

uint32_t PftraceProcess::Gpu(uint32_t agent_id) {
  const auto known = gpus_.find(agent_id);
  if (known != gpus_.end()) return known->second;
  const v1::Agent* agent = process_.FindAgent(agent_id);
  if (agent == nullptr || agent->type() != v1::AGENT_TYPE_GPU) return 0;
  return gpus_[agent_id] = file_->Gpu(machine_, *agent);
}

uint32_t PftraceProcess::Context() {
  const auto name = contexts_.Get(0, file_->generation, &file_->next_iid);
  if (name.announce) {
    ProcessTrack();  // announces the name of the process
    InternedData data;
    perfetto::InternedGraphicsContext* context = data.add_graphics_contexts();
    context->set_iid(name.iid);
    context->set_pid(static_cast<int32_t>(process_.pid()));
    context->set_api(perfetto::InternedGraphicsContext::HIP);
    Announce(std::move(data));
  }
  return name.iid;
}

uint64_t PftraceProcess::Uuid(TrackKind kind, uint64_t a, uint64_t b) const {
  // 48 bits: short on the wire, and still distinct.
  return (Mix(Mix(Mix(seed_ ^ kind) ^ a) ^ b) & 0xffffffffffff) | 1;
}

std::pair<uint64_t, bool> PftraceProcess::Track(TrackKind kind, uint64_t a,
                                                uint64_t b) {
  const uint64_t uuid = Uuid(kind, a, b);
  uint32_t unused = 0;
  return {uuid, tracks_.Get(uuid, file_->generation, &unused).announce};
}

uint64_t PftraceProcess::ProcessTrack() {
  const auto [uuid, announce] = Track(kProcess, 0, 0);
  if (!announce) return uuid;
  AnnounceProcess(uuid);
  return uuid;
}

void PftraceProcess::AnnounceWorkload() {
  if (!workload_due_ || process_.pid() == 0 || !process_.process().has_workload()) {
    return;
  }
  AnnounceProcess(Track(kProcess, 0, 0).first);
}

void PftraceProcess::AnnounceProcess(uint64_t uuid) {
  TrackDescriptor track;
  track.set_uuid(uuid);
  workload_due_ = !process_.process().has_workload();
  if (process_.pid() == 0) {  // its description is missing
    track.set_name("process (pid not known)");
  } else {
    perfetto::ProcessDescriptor* descriptor = track.mutable_process();
    descriptor->set_pid(static_cast<int32_t>(process_.pid()));
    descriptor->set_process_name(process_.process().comm());
    for (const std::string& argument : process_.process().arguments()) {
      descriptor->add_cmdline(argument);
    }
    for (const auto& [name, value] :
         WorkloadAttributes(process_.process().workload())) {
      descriptor->add_process_labels(absl::StrCat(name, "=", value));
    }
    // Readers have no name for a machine, so add it as a label.
    if (machine_->id != 0 && !process_.header().hostname().empty()) {
      descriptor->add_process_labels(process_.header().hostname());
    }
  }
  Announce(std::move(track));
}

uint64_t PftraceProcess::ThreadTrack(uint32_t tid, uint32_t lane) {
  const auto [uuid, announce] = Track(lane == 0 ? kThread : kLane, tid, lane);
  if (!announce) return uuid;
  TrackDescriptor track;
  track.set_uuid(uuid);
  if (lane > 0) {
    track.set_name("overlapping calls");
    track.set_parent_uuid(ThreadTrack(tid));
  } else if (tid == 0 || process_.pid() == 0) {
    track.set_name(absl::StrCat("thread ", tid));
    track.set_parent_uuid(ProcessTrack());
  } else {
    ProcessTrack();
    track.mutable_thread()->set_pid(static_cast<int32_t>(process_.pid()));
    track.mutable_thread()->set_tid(static_cast<int32_t>(tid));
    if (const absl::string_view name = process_.ThreadName(tid); !name.empty()) {
      track.mutable_thread()->set_thread_name(std::string(name));
    }
  }
  Announce(std::move(track));
  return uuid;
}

uint64_t PftraceProcess::MarkerTrack(uint32_t tid) {
  const auto [uuid, announce] = Track(kMarkers, tid, 0);
  if (!announce) return uuid;
  TrackDescriptor track;
  track.set_uuid(uuid);
  track.set_name("markers");
  track.set_parent_uuid(ThreadTrack(tid));
  Announce(std::move(track));
  return uuid;
}

uint64_t PftraceProcess::CounterTrack(uint32_t agent_id, absl::string_view counter,
                                      bool sampled) {
  const auto [uuid, announce] =
      Track(kCounter, uint64_t{agent_id} << 1 | (sampled ? 1 : 0), MixText(counter));
  if (!announce) return uuid;
  TrackDescriptor track;
  track.set_uuid(uuid);
  track.set_name(
      absl::StrCat("GPU ", Gpu(agent_id), " ", counter, sampled ? " (samples)" : ""));
  track.set_parent_uuid(ProcessTrack());
  track.mutable_counter();
  Announce(std::move(track));
  return uuid;
}

uint32_t* PftraceProcess::open_ranges(uint32_t tid) {
  if (open_ranges_.size() >= kMaxRangeThreads && !open_ranges_.contains(tid)) {
    open_ranges_.clear();
  }
  return &open_ranges_[tid];
}

}  // namespace rocattach
