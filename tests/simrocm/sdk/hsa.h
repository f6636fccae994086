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

// "hsa" has registered, or is handed over again: keeps a copy of the tables and puts
// the SDK's functions in. `attached` tells that queues and executables are known to the
// attach library.
void ProcessHsaTable(HsaApiTable* table, uint64_t lib_version, uint64_t instance);

// The attach library's table has come.
void SetAttachTable(const void* table);

// The pieces, each installing its functions into the tables.
void InstallCodeObjects(HsaApiTable* table);
void InstallQueues(HsaApiTable* table);
void InstallMemoryCopies(HsaApiTable* table);
void InstallMemoryAllocations(HsaApiTable* table);
void InstallApiTracing(HsaApiTable* table);

// Code objects that were loaded before the tool came.
void AddExecutable(hsa_executable_t executable);

}  // namespace simrocm::sdk

#endif  // ROCATTACH_TESTS_SIMROCM_SDK_HSA_H_
