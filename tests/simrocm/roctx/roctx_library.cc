// libroctx64.so.4, simulated: markers and ranges that only tools see, through the
// tables that the library gives to rocprofiler-register with its first call.
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#include "tests/simrocm/library_tables.h"
#include "userspace/collector/sdk/register_abi.h"

#define SIMROCM_EXPORT extern "C" __attribute__((visibility("default")))

extern "C" int32_t rocprofiler_register_library_api_table(
    const char* name, rocattach_register_import_fn import_func, uint32_t lib_version,
    void** api_tables, uint64_t api_table_length, rocattach_register_id* id);

SIMROCM_EXPORT uint32_t rocprofiler_register_import_roctx(void) {
  return 40100;
}

// The functions as they are without a tool.
namespace simrocm::own {
namespace {

int& Depth() {
  static thread_local int depth = 0;
  return depth;
}

void roctxMarkA(const char*) {}
// Returns the level of the range that begins or ends, from 0; negative: no range.
int roctxRangePushA(const char*) {
  return Depth()++;
}
int roctxRangePop() {
  return Depth() > 0 ? --Depth() : -1;
}
uint64_t roctxRangeStartA(const char*) {
  static std::atomic<uint64_t> last{0};
  return ++last;
}
void roctxRangeStop(uint64_t) {}
int roctxGetThreadId(uint64_t* thread) {
  *thread = static_cast<uint64_t>(syscall(SYS_gettid));
  return 0;
}
int roctxProfilerPause(uint64_t) {
  return 0;
}
int roctxProfilerResume(uint64_t) {
  return 0;
}
int roctxNameOsThread(const char*) {
  return 0;
}
int roctxNameHsaAgent(const char*, const void*) {
  return 0;
}
int roctxNameHipDevice(const char*, int) {
  return 0;
}
int roctxNameHipStream(const char*, const void*) {
  return 0;
}

}  // namespace
}  // namespace simrocm::own

namespace {

struct Tables {
  simrocm::MarkerCoreTable core;
  simrocm::MarkerControlTable control;
  simrocm::MarkerNameTable names;
};

Tables* TheTables() {
  static Tables* const filled = [] {
    auto* all = new Tables;
    all->core.size = sizeof(all->core);
    all->control.size = sizeof(all->control);
    all->names.size = sizeof(all->names);
#define SIMROCM_FILL(result, name, number, parameters, arguments) \
  table.name##_fn = &simrocm::own::name;
    {
      auto& table = all->core;
      SIMROCM_MARKER_CORE_API(SIMROCM_FILL)
    }
    {
      auto& table = all->control;
      SIMROCM_MARKER_CONTROL_API(SIMROCM_FILL)
    }
    {
      auto& table = all->names;
      SIMROCM_MARKER_NAME_API(SIMROCM_FILL)
    }
    void* tables[] = {&all->core, &all->control, &all->names};
    rocattach_register_id id{};
    rocprofiler_register_library_api_table("roctx", &rocprofiler_register_import_roctx,
                                           40100, tables, 3, &id);
    return all;
  }();
  return filled;
}

}  // namespace

#define SIMROCM_CORE(result, name, number, parameters, arguments) \
  SIMROCM_EXPORT result name parameters {                         \
    return TheTables()->core.name##_fn arguments;                 \
  }
SIMROCM_MARKER_CORE_API(SIMROCM_CORE)
#define SIMROCM_CONTROL(result, name, number, parameters, arguments) \
  SIMROCM_EXPORT result name parameters {                            \
    return TheTables()->control.name##_fn arguments;                 \
  }
SIMROCM_MARKER_CONTROL_API(SIMROCM_CONTROL)
#define SIMROCM_NAME(result, name, number, parameters, arguments) \
  SIMROCM_EXPORT result name parameters {                         \
    return TheTables()->names.name##_fn arguments;                \
  }
SIMROCM_MARKER_NAME_API(SIMROCM_NAME)
