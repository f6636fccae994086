#include "userspace/collector/sdk/code_objects.h"

#include <string.h>

namespace rocattach::collector {
namespace {

uint16_t Narrow(uint32_t value) {
  return static_cast<uint16_t>(value < UINT16_MAX ? value : UINT16_MAX);
}

uint32_t TextBytes(const char* text) {
  return static_cast<uint32_t>(strnlen(text, Dictionary::kMaxText));
}

}  // namespace

void SdkCodeObjects::OnCallback(const rocattach_sdk_callback_record& record) {
  // Ids are never reused, so nothing has to be forgotten on unloading.
  if (record.phase != ROCATTACH_SDK_PHASE_LOAD || record.payload == nullptr) return;
  if (record.operation == ROCATTACH_SDK_CODE_OBJECT_LOAD) {
    AddCodeObject(*static_cast<const rocattach_sdk_code_object*>(record.payload));
  } else if (record.operation == ROCATTACH_SDK_CODE_OBJECT_KERNEL_SYMBOL) {
    AddKernel(*static_cast<const rocattach_sdk_kernel_symbol*>(record.payload));
  }
}

void SdkCodeObjects::AddCodeObject(const rocattach_sdk_code_object& object) {
  uint32_t agent = agents_->Find(object.agent_id);
  rocattach_code_object_entry entry = {};
  entry.agent_id = agent != SdkAgents::kNone ? agents_->at(agent).dictionary_id : 0;
  entry.load_base = object.load_base;
  entry.load_bytes = object.load_size;
  entry.load_delta = object.load_delta;
  const char* uri = object.uri != nullptr ? object.uri : "";
  uint32_t id =
      dictionary_->Append(ROCATTACH_ENTRY_CODE_OBJECT, &entry, uri, TextBytes(uri));
  if (id == 0) return;
  objects_.Insert(object.code_object_id, id);
  if (entry.agent_id != 0) agents_of_.Insert(id, entry.agent_id);
}

void SdkCodeObjects::AddKernel(const rocattach_sdk_kernel_symbol& kernel) {
  rocattach_kernel_entry entry = {};
  entry.code_object_id = objects_.Find(kernel.code_object_id);
  entry.agent_id =
      entry.code_object_id != 0 ? agents_of_.Find(entry.code_object_id) : 0;
  entry.kernel_object = kernel.kernel_object;
  entry.kernarg_bytes = kernel.kernarg_segment_size;
  entry.kernarg_alignment = kernel.kernarg_segment_alignment;
  entry.lds_bytes = kernel.group_segment_size;
  entry.scratch_bytes = kernel.private_segment_size;
  if (ROCATTACH_SDK_HAS(rocattach_sdk_kernel_symbol, &kernel, accum_vgpr_count)) {
    entry.sgprs = Narrow(kernel.sgpr_count);
    entry.arch_vgprs = Narrow(kernel.arch_vgpr_count);
    entry.accum_vgprs = Narrow(kernel.accum_vgpr_count);
  }
  const char* name = kernel.kernel_name != nullptr ? kernel.kernel_name : "";
  uint32_t bytes = TextBytes(name);
  if (bytes > 3 && memcmp(name + bytes - 3, ".kd", 3) == 0) bytes -= 3;
  uint32_t id = dictionary_->Append(ROCATTACH_ENTRY_KERNEL, &entry, name, bytes);
  if (id != 0) kernels_.Insert(kernel.kernel_id, id);
}

}  // namespace rocattach::collector
