// Copies, changes and passes on the HSA tables, in upstream's order.
#include <atomic>
#include <mutex>

#include "tests/simrocm/amd_ext_order.h"
#include "tests/simrocm/attach/attach_table.h"
#include "tests/simrocm/call_log.h"
#include "tests/simrocm/environment.h"
#include "tests/simrocm/queue_proxies.h"
#include "tests/simrocm/sdk/agents.h"
#include "tests/simrocm/sdk/buffer.h"
#include "tests/simrocm/sdk/clients.h"
#include "tests/simrocm/sdk/counting.h"
#include "tests/simrocm/sdk/dispatch.h"
#include "tests/simrocm/sdk/handlers.h"
#include "tests/simrocm/sdk/hsa.h"
#include "tests/simrocm/sdk/interposition.h"
#include "tests/simrocm/sdk/serializer.h"
#include "tests/simrocm/sdk/signals.h"
#include "tests/simrocm/sdk/state.h"
#include "tests/simrocm/sdk/turns.h"

namespace simrocm::sdk {
namespace {

struct State {
  CoreApiTable core{};
  AmdExtTable amd_ext{};
  hsa_ven_amd_loader_1_03_pfn_t loader{};
  std::atomic<bool> loaded{false};
  const HsaApiTable* known = nullptr;  // the one whose originals are kept
  const simrocm_attach_table* attach = nullptr;
};

State& Get() {
  static auto* state = new State;
  return *state;
}

// Number of users of the runtime, counted from its registration on: the one whose
// hsa_init made the runtime register is the first.
std::atomic<int>& Users() {
  static std::atomic<int> users{1};
  return users;
}

hsa_status_t Init() {
  hsa_status_t status = Core().hsa_init_fn();
  if (status == HSA_STATUS_SUCCESS) ++Users();
  return status;
}

// Dispatches in flight must be recorded before the runtime ends, and nothing of them
// may be kept for its next start.
hsa_status_t ShutDown() {
  if (--Users() == 0) {
    DrainDispatches();
    ForgetTurnsOf(nullptr);
    ForgetBarriersOf(nullptr);
    ForgetInterposedQueues();
    DestroyFreeSignals();
  }
  return Core().hsa_shut_down_fn();
}

// A table that is passed again contains our functions, which are removed first. But if
// the runtime has ended meanwhile, it has restored its own functions: then the table is
// new, with the functions that others have stored in it since.
void KeepOriginal(HsaApiTable* table) {
  if (table == nullptr) return;
  State& state = Get();
  if (state.known == table && table->core_->hsa_init_fn == &Init) {
    *table->core_ = state.core;
    *table->amd_ext_ = state.amd_ext;
  } else {
    state.core = *table->core_;
    state.amd_ext = *table->amd_ext_;
    state.known = table;
  }
  state.core.hsa_system_get_major_extension_table_fn(
      HSA_EXTENSION_AMD_LOADER, 1, sizeof(state.loader), &state.loader);
  Log("sdk.hsa step=copy_tables");
}

void NotifyRuntimeInitialization(uint64_t lib_version, uint64_t instance) {
  rocattach_sdk_runtime_initialization_record record{};
  record.size = sizeof(record);
  record.kind = ROCATTACH_SDK_BUFFER_RUNTIME_INITIALIZATION;
  record.operation = ROCATTACH_SDK_RUNTIME_HSA;
  record.thread_id = ThreadId();
  record.timestamp = Now();
  record.version = lib_version;
  record.instance = instance;
  auto active = ActiveContexts();
  for (Context* context : *active) {
    if (const BufferTracing* tracing = context->FindBufferTracing(
            ROCATTACH_SDK_BUFFER_RUNTIME_INITIALIZATION, ROCATTACH_SDK_RUNTIME_HSA)) {
      tracing->buffer->Emplace(ROCATTACH_SDK_CATEGORY_TRACING,
                               ROCATTACH_SDK_BUFFER_RUNTIME_INITIALIZATION, &record,
                               sizeof(record));
    }
  }
  Log("sdk.hsa step=runtime_initialization");
}

}  // namespace

const CoreApiTable& Core() {
  return Get().core;
}
const AmdExtTable& AmdExt() {
  return Get().amd_ext;
}
const hsa_ven_amd_loader_1_03_pfn_t& Loader() {
  return Get().loader;
}
bool HsaIsLoaded() {
  return Get().loaded;
}

void SetAttachTable(const void* table) {
  Get().attach = static_cast<const simrocm_attach_table*>(table);
}

void InstallQueues(HsaApiTable* table) {
  Log("sdk.hsa step=queue_controller needed=%d attach=%d", AnyContextNeedsQueues(),
      Get().attach != nullptr);
  if (!AnyContextNeedsQueues()) {
    if (AnyContextCountsDevices()) ObserveDevices();
    return;
  }
  if (Get().attach != nullptr) {
    Get().attach->set_write_interceptor(&OnPackets, nullptr);
    Get().attach->set_queue_destroyed(&OnQueueDestroyed);
    return;
  }
  if (UsesInterposition()) {
    if (AnyContextCountsDevices()) ObserveDevices();
    return;
  }
  InstallQueueProxies(table->core_, table->amd_ext_);
  SetWriteInterceptor(&OnPackets, nullptr);
  SetQueueDestroyed(&OnQueueDestroyed);
}

static void InstallAll(HsaApiTable* table) {
  KeepOriginal(table);
  MapHsaAgents(Core());
  Log("sdk.hsa step=agent_cache agents=%zu", Agents().size());
  InstallCodeObjects(table);
  InstallQueues(table);
  table->core_->hsa_init_fn = &Init;
  table->core_->hsa_shut_down_fn = &ShutDown;
  Get().loaded = true;
  StartDeferredDeviceCounting();
  Log("sdk.hsa step=device_counting");
  InstallHandlers(table);
  InstallMemoryCopies(table);
  InstallMemoryAllocations(table);
  InstallApiTracing(table);
  if (Get().attach == nullptr && UsesInterposition())
    InstallInterposition(table->core_);
}

void ProcessHsaTable(HsaApiTable* table, uint64_t lib_version, uint64_t instance) {
  if (Users() <= 0) {
    // Upstream still has the agents from before the restart of the runtime.
    if (!GetBool("SIMROCM_RESTARTABLE", false)) {
      Fatal("queue_controller.cpp: Could not find agent");
    }
    Users() = 1;
  }
  {
    const AmdExtOrder order(table);
    InstallAll(order.table());
  }
  NotifyRuntimeInitialization(lib_version, instance);
  void* tables[] = {table};
  InvokeInterceptCallbacks(ROCATTACH_SDK_TABLE_HSA, lib_version, instance, tables, 1);
  Log("sdk.hsa step=intercept_table_callbacks");
  if (Get().attach != nullptr) {
    Get().attach->iterate_executables(
        [](hsa_executable_t executable, void*) { AddExecutable(executable); }, nullptr);
  }
}

}  // namespace simrocm::sdk
