// librccl.so.1, simulated: collective calls that do nothing, and that only tools see,
// through the table that the library gives to rocprofiler-register with its first call.
#include "tests/simrocm/library_tables.h"
#include "userspace/collector/sdk/register_abi.h"

#define SIMROCM_EXPORT extern "C" __attribute__((visibility("default")))

extern "C" int32_t rocprofiler_register_library_api_table(
    const char* name, rocattach_register_import_fn import_func, uint32_t lib_version,
    void** api_tables, uint64_t api_table_length, rocattach_register_id* id);

SIMROCM_EXPORT uint32_t rocprofiler_register_import_rccl(void) {
  return 22106;
}

// The functions as they are without a tool.
namespace simrocm::own {
namespace {

int ncclAllGather(const void*, void*, size_t, int, void*, void*) {
  return 0;
}
int ncclAllReduce(const void*, void*, size_t, int, int, void*, void*) {
  return 0;
}

}  // namespace
}  // namespace simrocm::own

namespace {

simrocm::RcclTable* TheTable() {
  static simrocm::RcclTable* const filled = [] {
    auto* table = new simrocm::RcclTable;
    table->size = sizeof(*table);
#define SIMROCM_FILL(result, name, number, parameters, arguments) \
  table->name##_fn = &simrocm::own::name;
    SIMROCM_RCCL_API(SIMROCM_FILL)
    void* tables[] = {table};
    rocattach_register_id id{};
    rocprofiler_register_library_api_table("rccl", &rocprofiler_register_import_rccl,
                                           22106, tables, 1, &id);
    return table;
  }();
  return filled;
}

}  // namespace

#define SIMROCM_FUNCTION(result, name, number, parameters, arguments) \
  SIMROCM_EXPORT result name parameters {                             \
    return TheTable()->name##_fn arguments;                           \
  }
SIMROCM_RCCL_API(SIMROCM_FUNCTION)
