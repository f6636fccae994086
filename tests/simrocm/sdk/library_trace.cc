#include "tests/simrocm/sdk/library_trace.h"

#include <cstring>

#include "tests/simrocm/call_log.h"
#include "tests/simrocm/library_tables.h"
#include "tests/simrocm/sdk/api_call.h"
#include "tests/simrocm/sdk/stream_trace.h"

namespace simrocm::sdk {
namespace {

// The numbers of these kinds are the same in both enumerations.
constexpr int32_t kHipRuntime = ROCATTACH_SDK_CALLBACK_HIP_RUNTIME_API;
constexpr int32_t kHipCompiler = ROCATTACH_SDK_CALLBACK_HIP_COMPILER_API;
constexpr int32_t kMarkerCore = ROCATTACH_SDK_CALLBACK_MARKER_CORE_API;
constexpr int32_t kMarkerControl = ROCATTACH_SDK_CALLBACK_MARKER_CONTROL_API;
constexpr int32_t kMarkerName = ROCATTACH_SDK_CALLBACK_MARKER_NAME_API;
constexpr int32_t kRccl = ROCATTACH_SDK_CALLBACK_RCCL_API;
static_assert(kHipRuntime == int32_t{ROCATTACH_SDK_BUFFER_HIP_RUNTIME_API} &&
              kMarkerName == int32_t{ROCATTACH_SDK_BUFFER_MARKER_NAME_API} &&
              kRccl == int32_t{ROCATTACH_SDK_BUFFER_RCCL_API});

#define SIMROCM_INSTALL(result, name, number, parameters, arguments) \
  Wrapper<&Table::name##_fn, kKind, number>::Install(table);

void Install(HipRuntimeTable* table) {
  using Table = HipRuntimeTable;
  InstallStreamTracing(table);
  constexpr int32_t kKind = kHipRuntime;
  if (AnyContextTraces(kKind, kKind)) {
    SIMROCM_HIP_RUNTIME_API(SIMROCM_INSTALL)
  }
}

void Install(HipCompilerTable* table) {
  using Table = HipCompilerTable;
  constexpr int32_t kKind = kHipCompiler;
  if (AnyContextTraces(kKind, kKind)) {
    SIMROCM_HIP_COMPILER_API(SIMROCM_INSTALL)
  }
}

void Install(MarkerCoreTable* table) {
  using Table = MarkerCoreTable;
  constexpr int32_t kKind = kMarkerCore;
  if (AnyContextTraces(kKind, kKind)) {
    SIMROCM_MARKER_CORE_API(SIMROCM_INSTALL)
  }
}

void Install(MarkerControlTable* table) {
  using Table = MarkerControlTable;
  constexpr int32_t kKind = kMarkerControl;
  if (AnyContextTraces(kKind, kKind)) {
    SIMROCM_MARKER_CONTROL_API(SIMROCM_INSTALL)
  }
}

void Install(MarkerNameTable* table) {
  using Table = MarkerNameTable;
  constexpr int32_t kKind = kMarkerName;
  if (AnyContextTraces(kKind, kKind)) {
    SIMROCM_MARKER_NAME_API(SIMROCM_INSTALL)
  }
}

void Install(RcclTable* table) {
  using Table = RcclTable;
  constexpr int32_t kKind = kRccl;
  if (AnyContextTraces(kKind, kKind)) {
    SIMROCM_RCCL_API(SIMROCM_INSTALL)
  }
}

}  // namespace

bool InstallLibraryTracing(const char* name, void** tables, uint64_t count) {
  if (strcmp(name, "hip") == 0 && count == 1) {
    Install(static_cast<HipRuntimeTable*>(tables[0]));
  } else if (strcmp(name, "hip_compiler") == 0 && count == 1) {
    Install(static_cast<HipCompilerTable*>(tables[0]));
  } else if (strcmp(name, "rccl") == 0 && count == 1) {
    Install(static_cast<RcclTable*>(tables[0]));
  } else if (strcmp(name, "roctx") == 0 && count == 3) {
    Install(static_cast<MarkerCoreTable*>(tables[0]));
    Install(static_cast<MarkerControlTable*>(tables[1]));
    Install(static_cast<MarkerNameTable*>(tables[2]));
  } else {
    return false;
  }
  Log("sdk.wrap_library name=%s", name);
  return true;
}

const char* LibraryOperationName(int32_t kind, int32_t operation) {
#define SIMROCM_NAME(result, name, number, parameters, arguments) \
  if (operation == (number)) return #name;
  switch (kind) {
    case kHipRuntime:
      SIMROCM_HIP_RUNTIME_API(SIMROCM_NAME)
      break;
    case kHipCompiler:
      SIMROCM_HIP_COMPILER_API(SIMROCM_NAME)
      break;
    case kMarkerCore:
      SIMROCM_MARKER_CORE_API(SIMROCM_NAME)
      break;
    case kMarkerControl:
      SIMROCM_MARKER_CONTROL_API(SIMROCM_NAME)
      break;
    case kMarkerName:
      SIMROCM_MARKER_NAME_API(SIMROCM_NAME)
      break;
    case kRccl:
      SIMROCM_RCCL_API(SIMROCM_NAME)
      break;
    default:
      break;
  }
  return nullptr;
}

}  // namespace simrocm::sdk
