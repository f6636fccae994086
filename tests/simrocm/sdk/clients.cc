#include "tests/simrocm/sdk/clients.h"

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <cstdlib>
#include <mutex>

#include "tests/simrocm/call_log.h"
#include "tests/simrocm/environment.h"
#include "tests/simrocm/sdk/buffer.h"
#include "tests/simrocm/sdk/dispatch.h"
#include "tests/simrocm/sdk/state.h"
#include "tests/simrocm/sdk/tool_search.h"
#include "tests/simrocm/sdk/version.h"

namespace simrocm::sdk {
namespace {

struct Client {
  FoundTool tool;
  rocattach_sdk_client_id id{sizeof(rocattach_sdk_client_id), nullptr, 0};
  rocattach_sdk_configure_result result{};
  rocattach_sdk_configure_attach_result attach{};
  bool initialized = false;
  bool finalized = false;
};

struct InterceptRequest {
  rocattach_sdk_intercept_library_cb callback;
  int tables;
  void* data;
};

struct State {
  std::recursive_mutex mutex;
  std::vector<Client*> clients;  // as long as the process
  std::vector<InterceptRequest> intercepts;
  bool searched = false;
};

State& Get() {
  static auto* state = new State;
  return *state;
}

const char* NameOf(const Client& client) {
  return client.id.name != nullptr ? client.id.name : "";
}

void FinalizeClient(Client* client) {
  if (client->finalized || !client->initialized) return;
  client->finalized = true;
  if (client->result.finalize != nullptr) {
    Log("tool.finalize name=%s", NameOf(*client));
    client->result.finalize(client->result.tool_data);
  }
  StopContextsOfClient(client->id.handle);
}

// The function that a tool calls to be finalized early.
void FinalizeById(rocattach_sdk_client_id id) {
  std::lock_guard lock(Get().mutex);
  for (Client* client : Get().clients) {
    if (client->id.handle == id.handle) FinalizeClient(client);
  }
}

void FinalizeAll() {
  StopInChild();
  if (FiniStatus() != 0) return;
  Log("sdk.finalize");
  DrainDispatches();
  FiniStatus() = -1;
  {
    std::lock_guard lock(Get().mutex);
    for (Client* client : Get().clients) FinalizeClient(client);
  }
  FiniStatus() = 1;
}

// Calls the tool's configure functions. nullptr if it declines.
Client* Configure(const FoundTool& tool) {
  State& state = Get();
  auto* client = new Client;
  client->tool = tool;
  client->id.handle = static_cast<uint32_t>(state.clients.size()) + 1;
  const auto priority = static_cast<uint32_t>(state.clients.size());
  Log("tool.configure from=%s file=%s priority=%u", tool.from.c_str(),
      tool.file.c_str(), priority);
  const uint32_t version = TheVersion().number();
  const char* text = TheVersionText().c_str();
  auto* result = tool.configure(version, text, priority, &client->id);
  if (result == nullptr) {
    Log("tool.declined file=%s", tool.file.c_str());
    return nullptr;
  }
  client->result = *result;
  state.clients.push_back(client);
  if (tool.configure_attach != nullptr) {
    Log("tool.configure_attach name=%s", NameOf(*client));
    auto* attach = tool.configure_attach(version, text, priority, &client->id);
    if (attach != nullptr) client->attach = *attach;
  }
  return client;
}

void Initialize(Client* client) {
  if (client->result.initialize == nullptr) {
    client->initialized = true;
    return;
  }
  SetInitializingClient(client->id.handle);
  Log("tool.initialize name=%s", NameOf(*client));
  int status = client->result.initialize(&FinalizeById, client->result.tool_data);
  Log("tool.initialized name=%s status=%d", NameOf(*client), status);
  client->initialized = status == 0;
  if (status != 0) StopContextsOfClient(client->id.handle);
}

// Prepares the process, once.
void Prepare() {
  static std::once_flag once;
  std::call_once(once, [] {
    atexit(FinalizeAll);
    pthread_atfork([] { HoldContextsForFork(); },
                   [] { ReleaseContextsAfterFork(/*child=*/false); },
                   [] {
                     ReleaseContextsAfterFork(/*child=*/true);
                     DisableBuffers();
                     FiniStatus() = 1;
                   });
  });
}

// Configures and initialises tools in addition to the existing ones.
void AddTools(const std::vector<FoundTool>& tools) {
  Prepare();
  InitStatus() = -1;
  std::vector<Client*> added;
  for (const FoundTool& tool : tools) {
    if (Client* client = Configure(tool)) added.push_back(client);
  }
  for (Client* client : added) Initialize(client);
  InitStatus() = 1;
}

// Asks register to propagate all its registrations again.
void Repropagate() {
  using Invoke = int32_t (*)(void);
  auto invoke = reinterpret_cast<Invoke>(
      dlsym(RTLD_DEFAULT, "rocprofiler_register_invoke_all_registrations"));
  if (invoke == nullptr) {
    // The program may have loaded it with RTLD_LOCAL.
    if (void* library =
            dlopen("librocprofiler-register.so.0", RTLD_LAZY | RTLD_NOLOAD)) {
      invoke = reinterpret_cast<Invoke>(
          dlsym(library, "rocprofiler_register_invoke_all_registrations"));
    }
  }
  if (invoke != nullptr) invoke();
}

}  // namespace

void InitializeClients() {
  std::lock_guard lock(Get().mutex);
  if (Get().searched) return;
  Get().searched = true;
  AddTools(FindTools());
}

rocattach_sdk_status LoadAttachmentTool(const char* path) {
  {
    std::lock_guard lock(Get().mutex);
    if (InitStatus() == -1) return ROCATTACH_SDK_STATUS_ERROR_CONFIGURATION_LOCKED;
    Get().searched = true;
    FoundTool tool = OpenTool(path, "attach");
    if (tool.configure == nullptr) return ROCATTACH_SDK_STATUS_ERROR_NOT_AVAILABLE;
    AddTools({tool});
  }
  Repropagate();
  return ROCATTACH_SDK_STATUS_SUCCESS;
}

rocattach_sdk_status AttachClients() {
  std::lock_guard lock(Get().mutex);
  bool any = false;
  for (Client* client : Get().clients) {
    if (client->attach.tool_attach == nullptr || !client->initialized) continue;
    any = true;
    std::vector<rocattach_sdk_context_id> contexts;
    for (const Context* context : AllContexts()) {
      if (context->client == client->id.handle) contexts.push_back(context->id);
    }
    Log("tool.attach name=%s contexts=%zu", NameOf(*client), contexts.size());
    client->attach.tool_attach(nullptr, contexts.data(), contexts.size(),
                               client->attach.tool_data);
  }
  return any ? ROCATTACH_SDK_STATUS_SUCCESS
             : ROCATTACH_SDK_STATUS_ERROR_NOT_IMPLEMENTED;
}

rocattach_sdk_status DetachClients() {
  std::lock_guard lock(Get().mutex);
  bool any = false;
  for (Client* client : Get().clients) {
    if (client->attach.tool_detach == nullptr || !client->initialized) continue;
    any = true;
    StopContextsOfClient(client->id.handle);
    DrainDispatches();
    FiniStatus() = -1;
    Log("tool.detach name=%s", NameOf(*client));
    client->attach.tool_detach(client->attach.tool_data);
    FiniStatus() = 0;
    StopContextsOfClient(client->id.handle);
  }
  return any ? ROCATTACH_SDK_STATUS_SUCCESS
             : ROCATTACH_SDK_STATUS_ERROR_NOT_IMPLEMENTED;
}

void InvokeInterceptCallbacks(int32_t table, uint64_t lib_version, uint64_t instance,
                              void** tables, uint64_t table_count) {
  std::vector<InterceptRequest> requests;
  {
    std::lock_guard lock(Get().mutex);
    requests = Get().intercepts;
  }
  for (const InterceptRequest& request : requests) {
    if ((request.tables & table) == 0) continue;
    request.callback(table, lib_version, instance, tables, table_count, request.data);
  }
}

}  // namespace simrocm::sdk

using namespace simrocm::sdk;

SIMROCM_EXPORT rocattach_sdk_status rocprofiler_at_intercept_table_registration(
    rocattach_sdk_intercept_library_cb callback, int tables, void* data) {
  if (InitStatus() > 0) return ROCATTACH_SDK_STATUS_ERROR_CONFIGURATION_LOCKED;
  std::lock_guard lock(Get().mutex);
  Get().intercepts.push_back({callback, tables, data});
  return ROCATTACH_SDK_STATUS_SUCCESS;
}

SIMROCM_EXPORT rocattach_sdk_status
rocprofiler_force_configure(rocattach_sdk_configure_fn configure) {
  if (InitStatus() == -1) return ROCATTACH_SDK_STATUS_ERROR_CONFIGURATION_LOCKED;
  const std::string fault = simrocm::GetString("SIMROCM_FORCE_CONFIGURE");
  while (fault == "hang") pause();
  if (fault == "refuse") return ROCATTACH_SDK_STATUS_ERROR_CONFIGURATION_LOCKED;
  {
    std::lock_guard lock(Get().mutex);
    for (const Client* client : Get().clients) {
      if (client->tool.configure == configure) return ROCATTACH_SDK_STATUS_SUCCESS;
    }
    // As upstream, children inherit these.
    setenv("ROCPROFILER_REGISTER_FORCE_LOAD", "1", 1);
    Dl_info info;
    if (dladdr(reinterpret_cast<void*>(&rocprofiler_force_configure), &info) != 0) {
      setenv("ROCPROFILER_REGISTER_LIBRARY", info.dli_fname, 1);
    }
    // A forced client has no attach functions.
    if (configure != nullptr) AddTools({{"force_configure", "", configure, nullptr}});
  }
  Repropagate();
  return ROCATTACH_SDK_STATUS_SUCCESS;
}

SIMROCM_EXPORT rocattach_sdk_status rocprofiler_is_initialized(int* status) {
  *status = InitStatus();
  return ROCATTACH_SDK_STATUS_SUCCESS;
}

SIMROCM_EXPORT rocattach_sdk_status rocprofiler_is_finalized(int* status) {
  *status = FiniStatus();
  return ROCATTACH_SDK_STATUS_SUCCESS;
}
