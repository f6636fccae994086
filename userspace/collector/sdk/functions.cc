#include "userspace/collector/sdk/functions.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "userspace/collector/common/environment.h"
#include "userspace/collector/hsa/elf_object.h"

// Up to glibc 2.33 these are in a separate library, which we do not link: there they
// are found only if the program has loaded it. A process with an SDK always has.
extern "C" {
__attribute__((weak)) int dladdr(const void* address, Dl_info* info) noexcept;
__attribute__((weak)) void* dlopen(const char* file, int mode) noexcept;
__attribute__((weak)) void* dlsym(void* handle, const char* name) noexcept;
}

namespace rocattach::collector {
namespace {

// Optional functions: only some plans need them.
constexpr const char* kOptional[] = {
    "rocprofiler_get_status_name",
    "rocprofiler_get_status_string",
    "rocprofiler_get_timestamp",
    "rocprofiler_get_version",
    "rocprofiler_force_configure",
    "rocprofiler_is_initialized",
    "rocprofiler_is_finalized",
    "rocprofiler_context_is_active",
    "rocprofiler_context_is_valid",
    "rocprofiler_destroy_buffer",
    "rocprofiler_create_callback_thread",
    "rocprofiler_assign_callback_thread",
    "rocprofiler_at_internal_thread_create",
    "rocprofiler_query_buffer_tracing_kind_name",
    "rocprofiler_query_buffer_tracing_kind_operation_name",
    "rocprofiler_query_callback_tracing_kind_operation_name",
    "rocprofiler_iterate_callback_tracing_kind_operation_args",
    "rocprofiler_configure_external_correlation_id_request_service",
    "rocprofiler_query_record_dimension_position",
    "rocprofiler_create_counter",
    "rocprofiler_load_counter_definition",
    "rocprofiler_configure_buffer_dispatch_counting_service",
    "rocprofiler_configure_device_counting_service",
    "rocprofiler_sample_device_counting_service",
};

bool IsOptional(const char* symbol) {
  for (const char* name : kOptional) {
    if (strcmp(name, symbol) == 0) return true;
  }
  return false;
}

bool HaveLoader() {
  return &dladdr != nullptr && &dlopen != nullptr && &dlsym != nullptr;
}

}  // namespace

const char* LoadSdkFunctions(const void* caller, rocattach_sdk_functions* functions) {
  if (!HaveLoader()) return "dlsym";
  // The library remains loaded, since it is running, so the handle is not closed.
  void* handle = nullptr;
  Dl_info info;
  if (dladdr(caller, &info) != 0 && info.dli_fname != nullptr) {
    handle = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  }
  const char* missing = nullptr;
#define ROCATTACH_LOAD(field, symbol, type)                                        \
  functions->field =                                                               \
      reinterpret_cast<type>(handle != nullptr ? dlsym(handle, symbol) : nullptr); \
  if (functions->field == nullptr) {                                               \
    functions->field = reinterpret_cast<type>(dlsym(RTLD_DEFAULT, symbol));        \
  }                                                                                \
  if (functions->field == nullptr && missing == nullptr && !IsOptional(symbol)) {  \
    missing = symbol;                                                              \
  }
  ROCATTACH_SDK_FOR_EACH_FUNCTION(ROCATTACH_LOAD)
#undef ROCATTACH_LOAD
  return missing;
}

const char* LibraryOf(const void* address) {
  Dl_info info;
  return HaveLoader() && dladdr(address, &info) != 0 ? info.dli_fname : nullptr;
}

void* FindRegisterFunction(const char* name) {
  if (!HaveLoader()) return nullptr;
  void* function = dlsym(RTLD_DEFAULT, name);
  if (function != nullptr) return function;
  // A runtime that was opened with RTLD_LOCAL has loaded its own.
  void* handle = dlopen("librocprofiler-register.so.0", RTLD_LAZY | RTLD_NOLOAD);
  return handle != nullptr ? dlsym(handle, name) : nullptr;
}

const void* FindSdkFunction(const char* name) {
  struct Search {
    const char* name;
    const void* found;
  } search = {name, nullptr};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        const ElfObject object(*info);
        // The SDK is the library with the function that rocprofiler-register calls.
        if (object.Function("rocprofiler_set_api_table").address == nullptr) return 0;
        auto* wanted = static_cast<Search*>(data);
        wanted->found = object.Function(wanted->name).address;
        return 1;
      },
      &search);
  return search.found;
}

bool SdkHasItsTools() {
  const auto is_initialized = reinterpret_cast<rocattach_sdk_is_state_fn>(
      const_cast<void*>(FindSdkFunction("rocprofiler_is_initialized")));
  // -1 while it is being initialised.
  int status = 0;
  return is_initialized != nullptr &&
         is_initialized(&status) == ROCATTACH_SDK_STATUS_SUCCESS && status != 0;
}

bool IsRegisterOff() {
  const char* value = FindVariable(environ, "ROCPROFILER_REGISTER_ENABLED=");
  if (value == nullptr) return false;
  constexpr const char* kOff[] = {"0", "n", "no", "f", "false", "off"};
  for (const char* off : kOff) {
    if (strcasecmp(value, off) == 0) return true;
  }
  return false;
}

}  // namespace rocattach::collector
