// Tracing of HSA calls: a wrapper around every function of the tables.
#include <cstring>

#include "tests/simrocm/call_log.h"
#include "tests/simrocm/sdk/api_call.h"
#include "tests/simrocm/sdk/hsa.h"
#include "tests/simrocm/sdk/hsa_api_list.h"
#include "tests/simrocm/sdk/tracing.h"

namespace simrocm::sdk {
void InstallApiTracing(HsaApiTable* table) {
  Log("sdk.hsa step=api_wrappers");
  if (AnyContextTraces(ROCATTACH_SDK_BUFFER_HSA_CORE_API,
                       ROCATTACH_SDK_CALLBACK_HSA_CORE_API)) {
#define SIMROCM_INSTALL(name, id)                                                    \
  Wrapper<&CoreApiTable::name##_fn, ROCATTACH_SDK_BUFFER_HSA_CORE_API, id>::Install( \
      table->core_);
    SIMROCM_CORE_API(SIMROCM_INSTALL)
#undef SIMROCM_INSTALL
  }
  if (AnyContextTraces(ROCATTACH_SDK_BUFFER_HSA_AMD_EXT_API,
                       ROCATTACH_SDK_CALLBACK_HSA_AMD_EXT_API)) {
#define SIMROCM_INSTALL(name, id)                                                      \
  Wrapper<&AmdExtTable::name##_fn, ROCATTACH_SDK_BUFFER_HSA_AMD_EXT_API, id>::Install( \
      table->amd_ext_);
    SIMROCM_AMD_EXT_API(SIMROCM_INSTALL)
#undef SIMROCM_INSTALL
  }
}

const char* HsaOperationName(int32_t kind, int32_t operation) {
#define SIMROCM_NAME(name, id) \
  if (operation == (id)) return #name;
  if (kind == ROCATTACH_SDK_BUFFER_HSA_CORE_API) {
    SIMROCM_CORE_API(SIMROCM_NAME)
  } else if (kind == ROCATTACH_SDK_BUFFER_HSA_AMD_EXT_API) {
    SIMROCM_AMD_EXT_API(SIMROCM_NAME)
  }
#undef SIMROCM_NAME
  return nullptr;
}

}  // namespace simrocm::sdk
