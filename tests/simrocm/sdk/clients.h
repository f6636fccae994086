// The tools that use the SDK: finding, configuring, attaching and finalizing them.
#ifndef ROCATTACH_TESTS_SIMROCM_SDK_CLIENTS_H_
#define ROCATTACH_TESTS_SIMROCM_SDK_CLIENTS_H_

#include <cstdint>

#include "userspace/collector/sdk/abi.h"

namespace simrocm::sdk {

// Finds and initialises all tools, once; later calls do nothing. Aborts the process, as
// upstream does, if a library of ROCP_TOOL_LIBRARIES cannot be opened.
void InitializeClients();

// Opens a tool and initialises it in addition to the existing ones.
rocattach_sdk_status LoadAttachmentTool(const char* path);

// Call tool_attach or tool_detach of every client that has it.
rocattach_sdk_status AttachClients();
rocattach_sdk_status DetachClients();

// Calls the tools that requested tables of this kind.
void InvokeInterceptCallbacks(int32_t table, uint64_t lib_version, uint64_t instance,
                              void** tables, uint64_t table_count);

}  // namespace simrocm::sdk

#endif  // ROCATTACH_TESTS_SIMROCM_SDK_CLIENTS_H_
