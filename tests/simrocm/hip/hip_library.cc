// libsimrocm-hip.so: makes HIP 5.2 register its functions as HIP 6 and later do.
//
// It is preloaded before the real runtime. A call goes through a table of pointers to
// the real functions, which is registered with rocprofiler-register: "hip_compiler"
// with the first code object, before main(), and "hip" with the first call of the
// runtime, which is before hsa_init. Calls that a program finds with dlsym in the
// runtime's own handle do not come here, nor do calls inside the runtime.
#include <dlfcn.h>

#include "tests/simrocm/call_log.h"
#include "tests/simrocm/library_tables.h"
#include "userspace/collector/sdk/register_abi.h"

#define SIMROCM_EXPORT extern "C" __attribute__((visibility("default")))

extern "C" int32_t rocprofiler_register_library_api_table(
    const char* name, rocattach_register_import_fn import_func, uint32_t lib_version,
    void** api_tables, uint64_t api_table_length, rocattach_register_id* id);

// Secure mode checks which file these functions are in.
SIMROCM_EXPORT uint32_t rocprofiler_register_import_hip(void) {
  return 60000;
}
SIMROCM_EXPORT uint32_t rocprofiler_register_import_hip_compiler(void) {
  return 60000;
}

namespace {

using simrocm::Dim3;
using simrocm::Stream;

// The function of the real runtime, even if that was opened with RTLD_LOCAL.
void* Real(const char* name) {
  void* function = dlsym(RTLD_NEXT, name);
  if (function == nullptr) {
    void* runtime = dlopen("libamdhip64.so.5", RTLD_LAZY | RTLD_NOLOAD);
    if (runtime != nullptr) function = dlsym(runtime, name);
  }
  if (function == nullptr) simrocm::Fatal("HIP has no %s", name);
  return function;
}

template <typename Table>
Table* Register(const char* name, rocattach_register_import_fn import, Table* table) {
  void* tables[] = {table};
  rocattach_register_id id{};
  rocprofiler_register_library_api_table(name, import, import(), tables, 1, &id);
  return table;
}

#define SIMROCM_FILL(result, name, number, parameters, arguments) \
  table->name##_fn = reinterpret_cast<result(*) parameters>(Real(#name));  // NOLINT

simrocm::HipRuntimeTable* RuntimeTable() {
  static simrocm::HipRuntimeTable* const filled = [] {
    auto* table = new simrocm::HipRuntimeTable;
    table->size = sizeof(*table);
    SIMROCM_HIP_RUNTIME_API(SIMROCM_FILL)
    return Register("hip", &rocprofiler_register_import_hip, table);
  }();
  return filled;
}

simrocm::HipCompilerTable* CompilerTable() {
  static simrocm::HipCompilerTable* const filled = [] {
    auto* table = new simrocm::HipCompilerTable;
    table->size = sizeof(*table);
    SIMROCM_HIP_COMPILER_API(SIMROCM_FILL)
    return Register("hip_compiler", &rocprofiler_register_import_hip_compiler, table);
  }();
  return filled;
}

}  // namespace

#define SIMROCM_RUNTIME(result, name, number, parameters, arguments) \
  SIMROCM_EXPORT result name parameters {                            \
    return RuntimeTable()->name##_fn arguments;                      \
  }
SIMROCM_HIP_RUNTIME_API(SIMROCM_RUNTIME)

#define SIMROCM_COMPILER(result, name, number, parameters, arguments) \
  SIMROCM_EXPORT result name parameters {                             \
    return CompilerTable()->name##_fn arguments;                      \
  }
SIMROCM_HIP_COMPILER_API(SIMROCM_COMPILER)
