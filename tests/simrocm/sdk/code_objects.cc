// Code objects and the kernels in them: ids, callbacks, and the lookup of kernels by a
// packet's kernel_object.
#include <hsa/hsa_ext_amd.h>

#include <cstring>
#include <list>
#include <unordered_map>

#include "tests/simrocm/call_log.h"
#include "tests/simrocm/sdk/agents.h"
#include "tests/simrocm/sdk/dispatch.h"
#include "tests/simrocm/sdk/hsa.h"

namespace simrocm::sdk {
namespace {

struct Kernel {
  rocattach_sdk_kernel_symbol data{};
  std::string name;
};

struct CodeObject {
  rocattach_sdk_code_object data{};
  std::string uri;
  hsa_executable_t executable{0};
  hsa_agent_t agent{0};
  std::list<Kernel> kernels;
  bool announced = false;
  ContextList announced_to;
};

struct State {
  std::recursive_mutex mutex;
  std::list<CodeObject> objects;
  std::unordered_map<uint64_t, uint64_t> kernel_of_object;
  uint64_t next_object = 1, next_kernel = 1;
};

State& Get() {
  static auto* state = new State;
  return *state;
}

template <typename T>
T SymbolInfo(hsa_executable_symbol_t symbol, int attribute) {
  T value{};
  Core().hsa_executable_symbol_get_info_fn(
      symbol, static_cast<hsa_executable_symbol_info_t>(attribute), &value);
  return value;
}

template <typename T>
T ObjectInfo(hsa_loaded_code_object_t object,
             hsa_ven_amd_loader_loaded_code_object_info_t attribute) {
  T value{};
  Loader().hsa_ven_amd_loader_loaded_code_object_get_info(object, attribute, &value);
  return value;
}

// The kernel descriptor of code object version 3 and later, as far as registers go.
struct Descriptor {
  uint8_t before[16];
  int64_t kernel_code_entry_byte_offset;
  uint8_t reserved[20];
  uint32_t compute_pgm_rsrc3, compute_pgm_rsrc1, compute_pgm_rsrc2;
  uint8_t after[8];
};
static_assert(sizeof(Descriptor) == 64);

// Counts of registers from the descriptor's granules: gfx90a has granules of 8 and one
// file for both kinds of vector registers, gfx906 has granules of 4.
void FillRegisters(const CodeObject& object, rocattach_sdk_kernel_symbol* data) {
  const void* host = nullptr;
  if (Loader().hsa_ven_amd_loader_query_host_address(
          reinterpret_cast<const void*>(data->kernel_object), &host) !=
      HSA_STATUS_SUCCESS) {
    return;
  }
  Descriptor descriptor;
  memcpy(&descriptor, host, sizeof(descriptor));
  const rocattach_sdk_agent* agent = FindAgent(object.data.agent_id);
  const bool unified = agent != nullptr && agent->gfx_target_version == 90010;
  const uint32_t granules = (descriptor.compute_pgm_rsrc1 & 0x3f) + 1;
  const uint32_t vgprs = granules * (unified ? 8 : 4);
  data->arch_vgpr_count = vgprs;
  if (unified) {
    uint32_t offset = ((descriptor.compute_pgm_rsrc3 & 0x3f) + 1) * 4;
    if (offset < vgprs) data->arch_vgpr_count = offset;
    data->accum_vgpr_count = vgprs - data->arch_vgpr_count;
  }
  data->sgpr_count = (((descriptor.compute_pgm_rsrc1 >> 6) & 0xf) / 2 + 1) * 16;
  data->kernel_code_entry_byte_offset = descriptor.kernel_code_entry_byte_offset;
  data->kernel_address.value =
      data->kernel_object +
      static_cast<uint64_t>(descriptor.kernel_code_entry_byte_offset);
}

hsa_status_t AddSymbol(hsa_executable_t, hsa_agent_t, hsa_executable_symbol_t symbol,
                       void* argument) {
  auto* object = static_cast<CodeObject*>(argument);
  if (SymbolInfo<hsa_symbol_kind_t>(symbol, HSA_EXECUTABLE_SYMBOL_INFO_TYPE) !=
      HSA_SYMBOL_KIND_KERNEL) {
    return HSA_STATUS_SUCCESS;
  }
  auto kernel_object =
      SymbolInfo<uint64_t>(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT);
  // The symbols are those of the executable; this object's are in its memory.
  if (kernel_object < object->data.load_base ||
      kernel_object - object->data.load_base >= object->data.load_size) {
    return HSA_STATUS_SUCCESS;
  }
  Kernel& kernel = object->kernels.emplace_back();
  auto length = SymbolInfo<uint32_t>(symbol, HSA_EXECUTABLE_SYMBOL_INFO_NAME_LENGTH);
  kernel.name.resize(length);
  Core().hsa_executable_symbol_get_info_fn(symbol, HSA_EXECUTABLE_SYMBOL_INFO_NAME,
                                           kernel.name.data());
  rocattach_sdk_kernel_symbol& data = kernel.data;
  data.size = sizeof(data);
  data.kernel_id = Get().next_kernel++;
  data.code_object_id = object->data.code_object_id;
  data.kernel_name = kernel.name.c_str();
  data.kernel_object = kernel_object;
  data.kernarg_segment_size = SymbolInfo<uint32_t>(
      symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_KERNARG_SEGMENT_SIZE);
  data.kernarg_segment_alignment = SymbolInfo<uint32_t>(
      symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_KERNARG_SEGMENT_ALIGNMENT);
  data.group_segment_size = SymbolInfo<uint32_t>(
      symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_GROUP_SEGMENT_SIZE);
  data.private_segment_size = SymbolInfo<uint32_t>(
      symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_PRIVATE_SEGMENT_SIZE);
  FillRegisters(*object, &data);
  Get().kernel_of_object[kernel_object] = data.kernel_id;
  return HSA_STATUS_SUCCESS;
}

hsa_status_t AddObject(hsa_executable_t executable, hsa_loaded_code_object_t loaded,
                       void*) {
  CodeObject& object = Get().objects.emplace_back();
  object.executable = executable;
  object.agent =
      ObjectInfo<hsa_agent_t>(loaded, HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_INFO_AGENT);
  rocattach_sdk_code_object& data = object.data;
  data.size = sizeof(data);
  data.code_object_id = Get().next_object++;
  if (const rocattach_sdk_agent* agent = AgentOf(object.agent)) {
    data.agent_id = agent->id;
  }
  data.hsa_agent = object.agent.handle;
  data.load_base = ObjectInfo<uint64_t>(
      loaded, HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_INFO_LOAD_BASE);
  data.load_size = ObjectInfo<uint64_t>(
      loaded, HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_INFO_LOAD_SIZE);
  data.load_delta = ObjectInfo<int64_t>(
      loaded, HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_INFO_LOAD_DELTA);
  data.storage_type = static_cast<int32_t>(ObjectInfo<uint32_t>(
      loaded, HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_INFO_CODE_OBJECT_STORAGE_TYPE));
  if (data.storage_type == ROCATTACH_SDK_STORAGE_MEMORY) {
    data.memory_base = ObjectInfo<uint64_t>(
        loaded,
        HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_INFO_CODE_OBJECT_STORAGE_MEMORY_BASE);
    data.memory_size = ObjectInfo<uint64_t>(
        loaded,
        HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_INFO_CODE_OBJECT_STORAGE_MEMORY_SIZE);
  } else if (data.storage_type == ROCATTACH_SDK_STORAGE_FILE) {
    data.memory_base = static_cast<uint32_t>(ObjectInfo<int>(
        loaded, HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_INFO_CODE_OBJECT_STORAGE_FILE));
  }
  object.uri.resize(ObjectInfo<uint32_t>(
      loaded, HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_INFO_URI_LENGTH));
  Loader().hsa_ven_amd_loader_loaded_code_object_get_info(
      loaded, HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_INFO_URI, object.uri.data());
  data.uri = object.uri.c_str();
  Core().hsa_executable_iterate_agent_symbols_fn(executable, object.agent, AddSymbol,
                                                 &object);
  return HSA_STATUS_SUCCESS;
}

void Invoke(Context* context, int32_t operation, int32_t phase, void* payload) {
  const CallbackTracing* tracing =
      context->FindCallbackTracing(ROCATTACH_SDK_CALLBACK_CODE_OBJECT, operation);
  if (tracing == nullptr) return;
  rocattach_sdk_callback_record record{};
  record.context_id = context->id;
  record.thread_id = ThreadId();
  record.kind = ROCATTACH_SDK_CALLBACK_CODE_OBJECT;
  record.operation = operation;
  record.phase = phase;
  record.payload = payload;
  rocattach_sdk_user_data user_data{};
  tracing->callback(record, &user_data, tracing->data);
}

// Notifies the contexts that are active now of every object that has not been
// announced, including those that were loaded while no context was active.
void Announce() {
  auto active = ActiveContexts();
  ContextList interested;
  for (Context* context : *active) {
    if (context->callback_tracing.count(ROCATTACH_SDK_CALLBACK_CODE_OBJECT) != 0) {
      interested.push_back(context);
    }
  }
  if (interested.empty()) return;
  for (CodeObject& object : Get().objects) {
    if (object.announced) continue;
    object.announced = true;
    object.announced_to = interested;
    for (Context* context : interested) {
      Invoke(context, ROCATTACH_SDK_CODE_OBJECT_LOAD, ROCATTACH_SDK_PHASE_LOAD,
             &object.data);
      for (Kernel& kernel : object.kernels) {
        Invoke(context, ROCATTACH_SDK_CODE_OBJECT_KERNEL_SYMBOL,
               ROCATTACH_SDK_PHASE_LOAD, &kernel.data);
      }
    }
  }
}

void Remove(hsa_executable_t executable) {
  State& state = Get();
  std::lock_guard lock(state.mutex);
  for (auto object = state.objects.begin(); object != state.objects.end();) {
    if (object->executable.handle != executable.handle) {
      ++object;
      continue;
    }
    for (Context* context : object->announced_to) {
      if (!context->active) continue;
      for (Kernel& kernel : object->kernels) {
        Invoke(context, ROCATTACH_SDK_CODE_OBJECT_KERNEL_SYMBOL,
               ROCATTACH_SDK_PHASE_UNLOAD, &kernel.data);
      }
      Invoke(context, ROCATTACH_SDK_CODE_OBJECT_LOAD, ROCATTACH_SDK_PHASE_UNLOAD,
             &object->data);
    }
    for (const Kernel& kernel : object->kernels) {
      state.kernel_of_object.erase(kernel.data.kernel_object);
    }
    object = state.objects.erase(object);
  }
}

hsa_status_t Freeze(hsa_executable_t executable, const char* options) {
  hsa_status_t status = Core().hsa_executable_freeze_fn(executable, options);
  if (status == HSA_STATUS_SUCCESS && FiniStatus() == 0) AddExecutable(executable);
  return status;
}

hsa_status_t Destroy(hsa_executable_t executable) {
  if (FiniStatus() == 0) Remove(executable);
  return Core().hsa_executable_destroy_fn(executable);
}

}  // namespace

void AddExecutable(hsa_executable_t executable) {
  std::lock_guard lock(Get().mutex);
  bool known = false;
  for (const CodeObject& object : Get().objects) {
    known |= object.executable.handle == executable.handle;
  }
  if (!known) {
    Loader().hsa_ven_amd_loader_executable_iterate_loaded_code_objects(
        executable, AddObject, nullptr);
  }
  Announce();
}

uint64_t KernelOfObject(uint64_t kernel_object) {
  std::lock_guard lock(Get().mutex);
  auto found = Get().kernel_of_object.find(kernel_object);
  return found != Get().kernel_of_object.end() ? found->second : 0;
}

void InstallCodeObjects(HsaApiTable* table) {
  table->core_->hsa_executable_freeze_fn = &Freeze;
  table->core_->hsa_executable_destroy_fn = &Destroy;
  Log("sdk.hsa step=code_object");
}

}  // namespace simrocm::sdk
