// The HSA runtime as the SDK uses it: the functions that were in the tables before the
// SDK put its own there.
#ifndef ROCATTACH_TESTS_SIMROCM_SDK_HSA_H_
#define ROCATTACH_TESTS_SIMROCM_SDK_HSA_H_

#include <hsa/hsa_api_trace.h>
#include <hsa/hsa_ven_amd_loader.h>

namespace simrocm::sdk {

// Valid once HsaIsLoaded().
const CoreApiTable& Core();
const AmdExtTable& AmdExt();
const hsa_ven_amd_loader_1_03_pfn_t& Loader();
bool HsaIsLoaded();

// Call when "hsa" has registered or is propagated again: keeps a copy of the tables and
// stores the SDK's functions in them. If the attach library's table is set, queues and
// executables are known to that library.
void ProcessHsaTable(HsaApiTable* table, uint64_t lib_version, uint64_t instance);

// Sets the attach library's table.
void SetAttachTable(const void* table);

// Each installs the functions of one part into the tables.
void InstallCodeObjects(HsaApiTable* table);
void InstallQueues(HsaApiTable* table);
void InstallMemoryCopies(HsaApiTable* table);
void InstallMemoryAllocations(HsaApiTable* table);
void InstallApiTracing(HsaApiTable* table);

// Adds code objects, also for executables that were loaded before the tool.
void AddExecutable(hsa_executable_t executable);

}  // namespace simrocm::sdk

#endif  // ROCATTACH_TESTS_SIMROCM_SDK_HSA_H_
