#include "userspace/record/drain/convert.h"

#include <string.h>
#include <sys/wait.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "bpf/watch_events.h"

namespace rocattach {
namespace {

// Enumerators of messages and structs have the same numbers, so that a cast converts.
static_assert(int{v1::ATTACH_STAGE_DONE} == static_cast<int>(AttachStage::kDone));
static_assert(int{v1::ATTACH_STAGE_REPORT} == static_cast<int>(AttachStage::kReport));
static_assert(int{v1::WINDOW_MODE_LISTENER} == ROCATTACH_WINDOW_LISTENER);
static_assert(int{v1::WINDOW_MODE_UNSERVED} == ROCATTACH_WINDOW_UNSERVED);
static_assert(int{v1::HOLD_END_UNSERVED} == ROCATTACH_HOLD_UNSERVED);
static_assert(int{v1::AGENT_TYPE_GPU} == 2);
static_assert(int{v1::COPY_DIRECTION_DEVICE_TO_DEVICE} ==
              ROCATTACH_COPY_DEVICE_TO_DEVICE);
static_assert(int{v1::COPY_ENGINE_SYNC} == ROCATTACH_ENGINE_SYNC);

std::string BoundedText(const char* text, size_t limit) {
  return std::string(text, strnlen(text, limit));
}

// Adds the three dimensions; none if the collector does not know them.
void SetDimensions(const uint32_t (&from)[3],
                   google::protobuf::RepeatedField<uint32_t>* to) {
  if ((from[0] | from[1] | from[2]) != 0) to->Add(from, from + 3);
}

}  // namespace

v1::Process ProcessToProto(const ProcessInfo& info) {
  v1::Process process;
  process.set_pid(static_cast<uint32_t>(info.id.pid));
  process.set_start_ticks(info.id.start_ticks);
  process.set_comm(info.comm);
  process.set_executable(info.executable);
  for (const std::string& argument : info.arguments) process.add_arguments(argument);
  process.set_arguments_cut(info.arguments_cut);
  process.set_uid(info.uid);
  process.set_cgroup(info.cgroup);
  process.set_parent_pid(static_cast<uint32_t>(info.parent));
  return process;
}

v1::Agent AgentToProto(const rocattach_agent_entry& entry, absl::string_view text) {
  v1::Agent agent;
  agent.set_id(entry.entry.id);
  agent.set_type(entry.type == 1   ? v1::AGENT_TYPE_CPU
                 : entry.type == 2 ? v1::AGENT_TYPE_GPU
                                   : v1::AGENT_TYPE_UNKNOWN);
  size_t end = text.find('\0');
  agent.set_name(std::string(text.substr(0, end)));
  if (end != absl::string_view::npos) {
    absl::string_view product = text.substr(end + 1);
    agent.set_product_name(std::string(product.substr(0, product.find('\0'))));
  }
  agent.set_node_id(entry.node_id);
  agent.set_compute_units(entry.compute_units);
  agent.set_simds_per_cu(entry.simds_per_cu);
  agent.set_wavefront_size(entry.wavefront_size);
  agent.set_max_waves_per_cu(entry.max_waves_per_cu);
  agent.set_max_clock_mhz(entry.max_clock_mhz);
  agent.set_shader_engines(entry.shader_engines);
  agent.set_local_memory_bytes(entry.local_memory_bytes);
  agent.set_pci_bdf(entry.pci_bdf);
  agent.set_xccs(entry.xccs);
  agent.set_uuid(BoundedText(entry.uuid, sizeof(entry.uuid)));
  agent.set_family_id(entry.family_id);
  agent.set_workgroup_max_size(entry.workgroup_max_size);
  agent.set_grid_max_size(entry.grid_max_size);
  SetDimensions(entry.workgroup_max, agent.mutable_workgroup_max_dimensions());
  SetDimensions(entry.grid_max, agent.mutable_grid_max_dimensions());
  return agent;
}

v1::Queue QueueToProto(const rocattach_queue_entry& entry) {
  v1::Queue queue;
  queue.set_id(entry.entry.id);
  queue.set_agent_id(entry.agent_id);
  queue.set_packets(entry.packets);
  queue.set_hsa_queue_id(entry.hsa_queue_id);
  queue.set_created_ns(entry.created_ns);
  return queue;
}

v1::Kernel KernelToProto(const rocattach_kernel_entry& entry, absl::string_view text) {
  v1::Kernel kernel;
  kernel.set_id(entry.entry.id);
  kernel.set_agent_id(entry.agent_id);
  kernel.set_code_object_id(entry.code_object_id);
  kernel.set_name(std::string(text));
  kernel.set_kernel_object(entry.kernel_object);
  kernel.set_kernarg_bytes(entry.kernarg_bytes);
  kernel.set_kernarg_alignment(entry.kernarg_alignment);
  kernel.set_lds_bytes(entry.lds_bytes);
  kernel.set_scratch_bytes(entry.scratch_bytes);
  kernel.set_sgprs(entry.sgprs);
  kernel.set_arch_vgprs(entry.arch_vgprs);
  kernel.set_accum_vgprs(entry.accum_vgprs);
  return kernel;
}

v1::CodeObject CodeObjectToProto(const rocattach_code_object_entry& entry,
                                 absl::string_view text) {
  v1::CodeObject code_object;
  code_object.set_id(entry.entry.id);
  code_object.set_agent_id(entry.agent_id);
  code_object.set_uri(std::string(text));
  code_object.set_load_base(entry.load_base);
  code_object.set_load_bytes(entry.load_bytes);
  code_object.set_load_delta(entry.load_delta);
  return code_object;
}

void FillOutcome(const AttachOutcome& outcome, v1::WindowEvent* event) {
  event->set_stage(static_cast<v1::AttachStage>(outcome.stage));
  event->set_reason(static_cast<v1::AttachReason>(outcome.reason));
  event->set_error(static_cast<uint32_t>(outcome.error));
  event->set_retryable(outcome.retryable);
  event->set_target_modified(outcome.target_modified);
  event->set_detail(outcome.detail);
  event->set_seized_ns(outcome.seized_ns);
  event->set_stopped_ns(outcome.stopped_ns);
  event->set_released_ns(outcome.released_ns);
}

namespace {

std::string BackendReason(uint32_t reason, const std::string& text) {
  auto with_text = [&](absl::string_view why) {
    return text.empty() ? std::string(why) : absl::StrCat(why, ": ", text);
  };
  switch (reason) {
    case ROCATTACH_BACKEND_REASON_NONE:
      return text;
    case ROCATTACH_BACKEND_REASON_DEFAULT:
      return with_text("no session needed what only rocprofiler-sdk has");
    case ROCATTACH_BACKEND_REASON_REQUESTED:
      return with_text("a session needs what only rocprofiler-sdk has");
    case ROCATTACH_BACKEND_REASON_NO_REGISTER:
      return with_text("the runtime never asked rocprofiler-register for tools");
    case ROCATTACH_BACKEND_REASON_SDK_VERSION:
      return with_text("its rocprofiler-sdk is older than 1.0");
    case ROCATTACH_BACKEND_REASON_SDK_INCOMPLETE:
      return with_text("its rocprofiler-sdk lacks a function");
    case ROCATTACH_BACKEND_REASON_SDK_ERROR:
      return with_text("rocprofiler-sdk refused");
    default:
      return with_text(absl::StrCat("reason ", reason));
  }
}

}  // namespace

v1::Collector CollectorToProto(const rocattach_control& control) {
  v1::Collector collector;
  collector.set_capture_mode(control.capture_mode == 1   ? v1::CAPTURE_MODE_DOORBELL
                             : control.capture_mode == 2 ? v1::CAPTURE_MODE_INTERCEPT
                                                         : v1::CAPTURE_MODE_NONE);
  collector.set_runtime_version_major(control.runtime_version_major);
  collector.set_runtime_version_minor(control.runtime_version_minor);
  collector.set_core_table_bytes(control.core_table_bytes);
  collector.set_amd_table_bytes(control.amd_table_bytes);
  collector.set_backend(v1::Backend_IsValid(static_cast<int>(control.backend))
                            ? static_cast<v1::Backend>(control.backend)
                            : v1::BACKEND_UNKNOWN);
  collector.set_backend_reason(
      BackendReason(control.backend_reason,
                    BoundedText(control.backend_text, sizeof(control.backend_text))));
  collector.set_entry_path(v1::EntryPath_IsValid(static_cast<int>(control.entry))
                               ? static_cast<v1::EntryPath>(control.entry)
                               : v1::ENTRY_PATH_UNKNOWN);
  collector.set_entry_reason(
      BoundedText(control.entry_text, sizeof(control.entry_text)));
  collector.set_other_tool(BoundedText(control.other_tool, sizeof(control.other_tool)));
  if (control.reason != ROCATTACH_REASON_NONE) {
    collector.set_refusal(BoundedText(control.text, sizeof(control.text)));
  }
  return collector;
}

v1::ProcessEnd EndFromWaitStatus(int wait_status) {
  v1::ProcessEnd end;
  if (WIFSIGNALED(wait_status)) {
    end.set_how(v1::ProcessEnd::SIGNALLED);
    end.set_signal(static_cast<uint32_t>(WTERMSIG(wait_status)));
    end.set_core_dumped(WCOREDUMP(wait_status));
  } else {
    end.set_how(v1::ProcessEnd::EXITED);
    end.set_exit_code(static_cast<uint32_t>(WEXITSTATUS(wait_status)));
  }
  return end;
}

}  // namespace rocattach
