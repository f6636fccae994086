// librocprofiler-sdk.so.1, simulated: the functions that rocprofiler-register calls,
// and those without state.
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>

#include "tests/simrocm/call_log.h"
#include "tests/simrocm/sdk/clients.h"
#include "tests/simrocm/sdk/hsa.h"
#include "tests/simrocm/sdk/library_trace.h"
#include "tests/simrocm/sdk/state.h"
#include "tests/simrocm/sdk/version.h"

using namespace simrocm::sdk;

namespace {

// Upstream's library sets both variables when it is loaded; children inherit them.
__attribute__((constructor)) void OnLoad() {
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&OnLoad), &info) != 0) {
    setenv("ROCPROFILER_REGISTER_LIBRARY", info.dli_fname, 0);
  }
  setenv("HSA_TOOLS_ROCPROFILER_V1_TOOLS", "0", 0);
  simrocm::Log("sdk.loaded");
}

}  // namespace

SIMROCM_EXPORT int rocprofiler_set_api_table(const char* name, uint64_t lib_version,
                                             uint64_t lib_instance, void** tables,
                                             uint64_t table_count) {
  simrocm::Log("sdk.set_api_table name=%s version=%llu instance=%llu", name,
               static_cast<unsigned long long>(lib_version),
               static_cast<unsigned long long>(lib_instance));
  if (FiniStatus() != 0) return 0;
  InitializeClients();
  if (strcmp(name, ROCATTACH_REGISTER_NAME_ATTACH) == 0) {
    SetAttachTable(tables[0]);
  } else if (strcmp(name, ROCATTACH_REGISTER_NAME_HSA) == 0 && table_count == 1) {
    ProcessHsaTable(static_cast<HsaApiTable*>(tables[0]), lib_version, lib_instance);
  } else {
    InstallLibraryTracing(name, tables, table_count);
  }
  return 0;
}

SIMROCM_EXPORT int rocprofiler_load_attachment_tool(const char* path) {
  simrocm::Log("sdk.load_attachment_tool path=%s", path);
  return LoadAttachmentTool(path);
}

SIMROCM_EXPORT int rocprofiler_attach(void) {
  simrocm::Log("sdk.attach");
  return AttachClients();
}

SIMROCM_EXPORT int rocprofiler_detach(void) {
  simrocm::Log("sdk.detach");
  return DetachClients();
}

SIMROCM_EXPORT rocattach_sdk_status rocprofiler_get_version(uint32_t* major,
                                                            uint32_t* minor,
                                                            uint32_t* patch) {
  if (major != nullptr) *major = TheVersion().major;
  if (minor != nullptr) *minor = TheVersion().minor;
  if (patch != nullptr) *patch = TheVersion().patch;
  return ROCATTACH_SDK_STATUS_SUCCESS;
}

SIMROCM_EXPORT rocattach_sdk_status
rocprofiler_get_timestamp(rocattach_sdk_timestamp* now) {
  *now = Now();
  return ROCATTACH_SDK_STATUS_SUCCESS;
}

SIMROCM_EXPORT const char* rocprofiler_get_status_name(rocattach_sdk_status status) {
  switch (status) {
#define SIMROCM_STATUS(name, value) \
  case value:                       \
    return "ROCPROFILER_STATUS_" #name;
    ROCATTACH_SDK_FOR_EACH_STATUS(SIMROCM_STATUS)
#undef SIMROCM_STATUS
    default:
      return nullptr;
  }
}

SIMROCM_EXPORT const char* rocprofiler_get_status_string(rocattach_sdk_status status) {
  return rocprofiler_get_status_name(status);
}
