#include <dlfcn.h>

#include <atomic>

#include "tests/simrocm/call_log.h"
#include "tests/simrocm/sdk/agents.h"
#include "tests/simrocm/sdk/buffer.h"
#include "tests/simrocm/sdk/counter_config.h"
#include "tests/simrocm/sdk/counting.h"
#include "tests/simrocm/sdk/hsa.h"

namespace simrocm::sdk {
namespace {

std::mutex& SumsMutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

rocattach_sdk_status SetConfig(rocattach_sdk_context_id id,
                               rocattach_sdk_counter_config_id config_id) {
  Context* context = FindContext(id);
  if (context == nullptr) return ROCATTACH_SDK_STATUS_ERROR_CONTEXT_INVALID;
  auto config = FindConfig(config_id);
  if (config == nullptr) return ROCATTACH_SDK_STATUS_ERROR_CONFIG_NOT_FOUND;
  if (context->device_counting.empty())
    return ROCATTACH_SDK_STATUS_ERROR_CONTEXT_INVALID;
  if (context->device_state != DeviceState::kLocked) {
    return ROCATTACH_SDK_STATUS_ERROR_CONFIGURATION_LOCKED;
  }
  for (DeviceCounting& device : context->device_counting) {
    if (device.agent.handle != config->agent.handle) continue;
    std::lock_guard lock(SumsMutex());
    device.config = std::move(config);
    device.sums.clear();
    for (const auto& counter : device.config->hardware) {
      device.sums[counter->id].resize(counter->instances);
    }
    return ROCATTACH_SDK_STATUS_SUCCESS;
  }
  return ROCATTACH_SDK_STATUS_ERROR_AGENT_MISMATCH;
}

// One sample of one GPU.
std::vector<rocattach_sdk_counter_record> Sample(const DeviceCounting& device,
                                                 rocattach_sdk_user_data user_data) {
  std::lock_guard lock(SumsMutex());
  return MakeRecords(
      *device.config,
      [&](const Counter& counter) {
        auto found = device.sums.find(counter.id);
        return found != device.sums.end() ? found->second
                                          : std::vector<double>(counter.instances);
      },
      0, user_data);
}

using Records = std::vector<rocattach_sdk_counter_record>;

// Samples every GPU of the context, into the buffers and into `out` if there is one.
rocattach_sdk_status Read(Context* context, rocattach_sdk_user_data user_data,
                          Records* out) {
  if (context->device_counting.empty())
    return ROCATTACH_SDK_STATUS_ERROR_CONTEXT_INVALID;
  if (!HsaIsLoaded()) return ROCATTACH_SDK_STATUS_ERROR_HSA_NOT_LOADED;
  DeviceState expected = DeviceState::kEnabled;
  if (!context->device_state.compare_exchange_strong(expected, DeviceState::kLocked)) {
    return ROCATTACH_SDK_STATUS_ERROR_CONTEXT_ERROR;
  }
  for (const DeviceCounting& device : context->device_counting) {
    if (device.config == nullptr) continue;
    for (const auto& record : Sample(device, user_data)) {
      if (device.buffer != nullptr) {
        device.buffer->Emplace(ROCATTACH_SDK_CATEGORY_COUNTERS,
                               ROCATTACH_SDK_COUNTER_RECORD_VALUE, &record,
                               sizeof(record));
      }
      if (out != nullptr) out->push_back(record);
    }
  }
  context->device_state = DeviceState::kEnabled;
  return ROCATTACH_SDK_STATUS_SUCCESS;
}

}  // namespace

rocattach_sdk_status StartDeviceCounting(Context* context) {
  if (context->device_counting.empty()) return ROCATTACH_SDK_STATUS_SUCCESS;
  if (!HsaIsLoaded()) return ROCATTACH_SDK_STATUS_ERROR_HSA_NOT_LOADED;
  DeviceState expected = DeviceState::kDisabled;
  if (!context->device_state.compare_exchange_strong(expected, DeviceState::kLocked)) {
    return ROCATTACH_SDK_STATUS_ERROR_SERVICE_ALREADY_CONFIGURED;
  }
  for (DeviceCounting& device : context->device_counting) {
    {
      std::lock_guard lock(SumsMutex());
      device.config = nullptr;
    }
    device.callback(context->id, device.agent, &SetConfig, device.user_data);
  }
  context->device_state = DeviceState::kEnabled;
  return ROCATTACH_SDK_STATUS_SUCCESS;
}

void StopDeviceCounting(Context* context) {
  if (!context->device_counting.empty()) context->device_state = DeviceState::kDisabled;
}

void StartDeferredDeviceCounting() {
  auto active = ActiveContexts();
  for (Context* context : *active) {
    if (context->device_state == DeviceState::kDisabled) StartDeviceCounting(context);
  }
}

bool DeviceIsCounted(rocattach_sdk_agent_id agent) {
  auto active = ActiveContexts();
  for (const Context* context : *active) {
    for (const DeviceCounting& device : context->device_counting) {
      if (device.agent.handle == agent.handle) return true;
    }
  }
  return false;
}

bool AnyContextCountsDevices() {
  for (const Context* context : AllContexts()) {
    if (!context->device_counting.empty()) return true;
  }
  return false;
}

std::atomic<bool>& DevicesAreObserved() {
  static std::atomic<bool> observed{false};
  return observed;
}

void ObserveDevices() {
  if (DevicesAreObserved()) return;
  using Observe = void (*)(void (*)(uint32_t, const void*, void*), void*);
  // A function of the simulated GPU.
  const auto observe =
      reinterpret_cast<Observe>(dlsym(RTLD_DEFAULT, "simgpu_observe_dispatches"));
  if (observe == nullptr) return;
  DevicesAreObserved() = true;
  observe(
      [](uint32_t node, const void* data, void*) {
        static std::atomic<uint64_t> next{1};
        const auto& packet = *static_cast<const hsa_kernel_dispatch_packet_t*>(data);
        const DispatchShape shape = {
            {packet.grid_size_x, packet.grid_size_y, packet.grid_size_z},
            {packet.workgroup_size_x, packet.workgroup_size_y, packet.workgroup_size_z},
            next++};
        for (const rocattach_sdk_agent* agent : Agents()) {
          if (agent->node_id == node) CountOnDevice(agent->id, shape);
        }
      },
      nullptr);
}

void CountOnDevice(rocattach_sdk_agent_id agent, const DispatchShape& shape) {
  auto active = ActiveContexts();
  for (Context* context : *active) {
    for (DeviceCounting& device : context->device_counting) {
      std::lock_guard lock(SumsMutex());
      if (device.agent.handle != agent.handle || device.config == nullptr) continue;
      for (const auto& counter : device.config->hardware) {
        auto& sums = device.sums[counter->id];
        for (size_t i = 0; i < sums.size(); ++i) {
          sums[i] += static_cast<double>(
              CounterValue(counter->name, shape, i, counter->instances));
        }
      }
    }
  }
}

}  // namespace simrocm::sdk

using namespace simrocm::sdk;

SIMROCM_EXPORT rocattach_sdk_status rocprofiler_configure_device_counting_service(
    rocattach_sdk_context_id id, rocattach_sdk_buffer_id buffer_id,
    rocattach_sdk_agent_id agent, rocattach_sdk_device_counting_cb callback,
    void* user_data) {
  if (InitStatus() > -1) return ROCATTACH_SDK_STATUS_ERROR_CONFIGURATION_LOCKED;
  Context* context = FindContext(id);
  if (context == nullptr) return ROCATTACH_SDK_STATUS_ERROR_CONTEXT_INVALID;
  if (!context->dispatch_counting.empty()) {
    return ROCATTACH_SDK_STATUS_ERROR_AGENT_DISPATCH_CONFLICT;
  }
  Buffer* buffer = FindBuffer(buffer_id);
  if (buffer == nullptr && buffer_id.handle != 0) {
    return ROCATTACH_SDK_STATUS_ERROR_BUFFER_NOT_FOUND;
  }
  for (const DeviceCounting& device : context->device_counting) {
    if (device.agent.handle == agent.handle) {
      return ROCATTACH_SDK_STATUS_ERROR_INVALID_ARGUMENT;
    }
  }
  context->device_counting.push_back({agent, buffer, callback, user_data, nullptr, {}});
  return ROCATTACH_SDK_STATUS_SUCCESS;
}

SIMROCM_EXPORT rocattach_sdk_status rocprofiler_sample_device_counting_service(
    rocattach_sdk_context_id id, rocattach_sdk_user_data user_data, int32_t flags,
    rocattach_sdk_counter_record* records, size_t* count) {
  if (id.handle == 0) return ROCATTACH_SDK_STATUS_ERROR_CONTEXT_NOT_FOUND;
  if (FiniStatus() != 0) return ROCATTACH_SDK_STATUS_ERROR_FINALIZED;
  Context* context = FindContext(id);
  if (context == nullptr || !context->active) {
    return ROCATTACH_SDK_STATUS_ERROR_CONTEXT_NOT_STARTED;
  }
  // An asynchronous sample is taken at once, but the caller does not wait for its
  // delivery: through the buffer that makes no difference here.
  if (records == nullptr) return Read(context, user_data, nullptr);
  if (count == nullptr || (flags & ROCATTACH_SDK_COUNTER_FLAG_ASYNC) != 0) {
    return ROCATTACH_SDK_STATUS_ERROR_INVALID_ARGUMENT;
  }
  if (*count == 0) return ROCATTACH_SDK_STATUS_ERROR_OUT_OF_RESOURCES;
  Records out;
  rocattach_sdk_status status = Read(context, user_data, &out);
  if (status != ROCATTACH_SDK_STATUS_SUCCESS) return status;
  bool fits = out.size() <= *count;
  *count = out.size();
  if (!fits) return ROCATTACH_SDK_STATUS_ERROR_OUT_OF_RESOURCES;
  for (size_t i = 0; i < out.size(); ++i) records[i] = out[i];
  return ROCATTACH_SDK_STATUS_SUCCESS;
}
