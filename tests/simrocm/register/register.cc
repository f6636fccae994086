// librocprofiler-register.so.0, simulated: registration and propagation of API tables.
#include "tests/simrocm/register/register.h"

#include "tests/simrocm/call_log.h"
#include "tests/simrocm/environment.h"
#include "tests/simrocm/register/sdk_library.h"

#define SIMROCM_EXPORT extern "C" __attribute__((visibility("default")))

namespace simrocm {
namespace {

const char* StatusText(int32_t status) {
  switch (status) {
    case ROCATTACH_REGISTER_SUCCESS:
      return "Success";
    case ROCATTACH_REGISTER_NO_TOOLS:
      return "No tool was found";
    case ROCATTACH_REGISTER_DEADLOCK:
      return "Called from within a registration";
    case ROCATTACH_REGISTER_BAD_API_TABLE_LENGTH:
      return "The number of API tables is not valid";
    case ROCATTACH_REGISTER_UNSUPPORTED_API:
      return "The library is not a supported one";
    case ROCATTACH_REGISTER_INVALID_API_ADDRESS:
      return "The import function is not in the expected library (secure mode)";
    case ROCATTACH_REGISTER_ROCPROFILER_ERROR:
      return "rocprofiler returned an error";
    case ROCATTACH_REGISTER_EXCESS_API_INSTANCES:
      return "The library registered too often";
    case ROCATTACH_REGISTER_INVALID_ARGUMENT:
      return "An argument is not valid";
    case ROCATTACH_REGISTER_ATTACHMENT_NOT_AVAILABLE:
      return "The attachment library was never loaded";
    default:
      return "rocprofiler_register_unknown_error";
  }
}

// The SDK, if a tool needs it or it is in use already.
const SdkLibrary* ScanForTools() {
  if (KnownSdk() != nullptr) return KnownSdk();
  if (!ToolIsVisible()) return nullptr;
  const SdkLibrary* sdk = FindSdk();
  if (sdk == nullptr) {
    Fatal("a tool is visible, but rocprofiler_set_api_table was not found: no %s",
          GetString("ROCPROFILER_REGISTER_LIBRARY").empty()
              ? "librocprofiler-sdk.so"
              : GetString("ROCPROFILER_REGISTER_LIBRARY").c_str());
  }
  return sdk;
}

rocattach_register_status Propagate(bool all) {
  const SdkLibrary* sdk = ScanForTools();
  if (sdk == nullptr) return ROCATTACH_REGISTER_NO_TOOLS;
  for (size_t i = 0; i < TheRegistry().All().size(); ++i) {
    Registration* entry = TheRegistry().All()[i];
    if (entry->propagated && !all) continue;
    if (sdk->set_api_table(entry->name.c_str(), entry->lib_version, entry->instance,
                           entry->tables.data(), entry->tables.size()) != 0) {
      return ROCATTACH_REGISTER_ROCPROFILER_ERROR;
    }
    entry->propagated = true;
  }
  return ROCATTACH_REGISTER_SUCCESS;
}

rocattach_register_status Register(const char* name,
                                   rocattach_register_import_fn import_func,
                                   uint32_t lib_version, void** tables,
                                   uint64_t table_count, rocattach_register_id* id) {
  if (table_count < 1) return ROCATTACH_REGISTER_BAD_API_TABLE_LENGTH;
  if (!GetBool("ROCPROFILER_REGISTER_ENABLED", true))
    return ROCATTACH_REGISTER_NO_TOOLS;
  CheckedLock lock(RegistrationMutex());
  if (!lock.held()) return ROCATTACH_REGISTER_DEADLOCK;
  unsigned index = 0;
  const KnownLibrary* library = FindKnownLibrary(name, &index);
  if (library == nullptr) return ROCATTACH_REGISTER_UNSUPPORTED_API;
  if (import_func != nullptr && GetBool("ROCPROFILER_REGISTER_SECURE", false) &&
      !ImportFunctionIsGenuine(*library, import_func)) {
    return ROCATTACH_REGISTER_INVALID_API_ADDRESS;
  }
  Registration* added = nullptr;
  rocattach_register_status status =
      TheRegistry().Add(index, name, lib_version, tables, table_count, id, &added);
  if (status != ROCATTACH_REGISTER_SUCCESS) return status;
  PrepareAttachment(*added);
  return Propagate(/*all=*/false);
}

int32_t Invoke(bool all) {
  CheckedLock lock(RegistrationMutex());
  if (!lock.held()) return ROCATTACH_REGISTER_DEADLOCK;
  rocattach_register_status status = Propagate(all);
  // Upstream's loop simply finds nothing to do.
  return status == ROCATTACH_REGISTER_NO_TOOLS ? ROCATTACH_REGISTER_SUCCESS : status;
}

}  // namespace

CheckedMutex& RegistrationMutex() {
  static auto* mutex = new CheckedMutex;
  return *mutex;
}

Registry& TheRegistry() {
  static auto* registry = new Registry;
  return *registry;
}

}  // namespace simrocm

SIMROCM_EXPORT int32_t rocprofiler_register_library_api_table(
    const char* name, rocattach_register_import_fn import_func, uint32_t lib_version,
    void** api_tables, uint64_t api_table_length, rocattach_register_id* id) {
  rocattach_register_status status = simrocm::Register(
      name, import_func, lib_version, api_tables, api_table_length, id);
  simrocm::Log("register.library_api_table name=%s version=%u tables=%llu status=%d",
               name, lib_version, static_cast<unsigned long long>(api_table_length),
               status);
  return status;
}

SIMROCM_EXPORT const char* rocprofiler_register_error_string(int32_t status) {
  return simrocm::StatusText(status);
}

SIMROCM_EXPORT int32_t rocprofiler_register_iterate_registration_info(
    rocattach_register_info_cb callback, void* data) {
  for (const simrocm::Registration* entry : simrocm::TheRegistry().All()) {
    rocattach_register_info info{sizeof(info), entry->name.c_str(), entry->lib_version,
                                 entry->tables.size()};
    if (callback(&info, data) != 0) break;
  }
  return ROCATTACH_REGISTER_SUCCESS;
}

SIMROCM_EXPORT int32_t rocprofiler_register_invoke_nonpropagated_registrations(void) {
  int32_t status = simrocm::Invoke(/*all=*/false);
  simrocm::Log("register.invoke_nonpropagated status=%d", status);
  return status;
}

SIMROCM_EXPORT int32_t rocprofiler_register_invoke_all_registrations(void) {
  int32_t status = simrocm::Invoke(/*all=*/true);
  simrocm::Log("register.invoke_all status=%d", status);
  return status;
}
