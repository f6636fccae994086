// librocprofiler-register.so.0, simulated: attaching tools to a running process.
#include <dlfcn.h>

#include <cstdlib>
#include <string>

#include "tests/simrocm/attach/attach_table.h"
#include "tests/simrocm/call_log.h"
#include "tests/simrocm/environment.h"
#include "tests/simrocm/register/register.h"
#include "tests/simrocm/register/sdk_library.h"

#define SIMROCM_EXPORT extern "C" __attribute__((visibility("default")))

// register.cc
SIMROCM_EXPORT int32_t rocprofiler_register_invoke_all_registrations(void);

namespace simrocm {
namespace {

constexpr char kToolAttached[] = "ROCPROFILER_REGISTER_TOOL_ATTACHED";

struct AttachState {
  CheckedMutex mutex;
  std::string tool_path;  // from the first successful attach
};

AttachState& State() {
  static auto* state = new AttachState;
  return *state;
}

// Lets the attach library register its own table from within a registration.
int32_t RegisterFunctor(const char* name, rocattach_register_import_fn,
                        uint32_t lib_version, void** tables, uint64_t table_count,
                        rocattach_register_id* id) {
  unsigned index = 0;
  if (FindKnownLibrary(name, &index) == nullptr) {
    return ROCATTACH_REGISTER_UNSUPPORTED_API;
  }
  return TheRegistry().Add(index, name, lib_version, tables, table_count, id, nullptr);
}

void* AttachLibrary() {
  static void* handle = [] {
    void* opened = OpenBeside("librocprofiler-sdk-attach.so", RTLD_GLOBAL | RTLD_LAZY);
    if (opened != nullptr) return opened;
    return OpenBeside("librocprofiler-sdk-attach.so.1", RTLD_GLOBAL | RTLD_LAZY);
  }();
  return handle;
}

bool AttachLibraryIsRegistered() {
  CheckedLock lock(RegistrationMutex());
  return TheRegistry().Has(ROCATTACH_REGISTER_NAME_ATTACH);
}

// Steps of a first attach once the arguments are accepted.
rocattach_register_status LoadTool(const char* tool_path) {
  const SdkLibrary* sdk = nullptr;
  {
    CheckedLock lock(RegistrationMutex());
    if (!lock.held()) return ROCATTACH_REGISTER_DEADLOCK;
    sdk = FindSdk();
  }
  if (sdk == nullptr || sdk->load_attachment_tool == nullptr) {
    return ROCATTACH_REGISTER_NO_TOOLS;
  }
  setenv(kToolAttached, "1", 1);
  int result = sdk->load_attachment_tool(tool_path);
  unsetenv(kToolAttached);
  return result == 0 ? ROCATTACH_REGISTER_SUCCESS
                     : ROCATTACH_REGISTER_ROCPROFILER_ERROR;
}

// Attaches as releases before September 2026 do (SIMROCM_OLD_ATTACH): the program's
// environment names the tool from then on, and a failure to load it ends the program.
rocattach_register_status OldAttach(const char* environment_buffer,
                                    const char* tool_path) {
  if (tool_path == nullptr) Fatal("rocprofiler_register_attach without a tool");
  if (!AttachLibraryIsRegistered()) Fatal("an empty registration is used");
  setenv(kToolAttached, "1", 1);
  setenv("ROCP_TOOL_LIBRARIES", tool_path, 1);
  EnvironmentChange environment(ParseEnvironmentBuffer(environment_buffer));
  rocprofiler_register_invoke_all_registrations();
  const SdkLibrary* sdk = KnownSdk();
  if (sdk == nullptr || sdk->attach == nullptr) return ROCATTACH_REGISTER_NO_TOOLS;
  return sdk->attach() == 0 ? ROCATTACH_REGISTER_SUCCESS
                            : ROCATTACH_REGISTER_ROCPROFILER_ERROR;
}

rocattach_register_status Attach(const char* environment_buffer,
                                 const char* tool_path) {
  if (GetBool("SIMROCM_OLD_ATTACH", false)) {
    return OldAttach(environment_buffer, tool_path);
  }
  if (tool_path == nullptr) return ROCATTACH_REGISTER_INVALID_ARGUMENT;
  CheckedLock lock(State().mutex);
  if (!lock.held()) return ROCATTACH_REGISTER_DEADLOCK;
  if (!AttachLibraryIsRegistered()) return ROCATTACH_REGISTER_ATTACHMENT_NOT_AVAILABLE;
  std::string& known = State().tool_path;
  // Strings are compared, not files.
  if (!known.empty() && known != tool_path) return ROCATTACH_REGISTER_INVALID_ARGUMENT;
  EnvironmentChange environment(ParseEnvironmentBuffer(environment_buffer));
  if (known.empty()) {
    rocattach_register_status status = LoadTool(tool_path);
    if (status != ROCATTACH_REGISTER_SUCCESS) {
      environment.Restore();
      return status;
    }
  }
  const SdkLibrary* sdk = KnownSdk();
  if (sdk->attach == nullptr || sdk->attach() != 0) {
    environment.Restore();
    return sdk->attach == nullptr ? ROCATTACH_REGISTER_NO_TOOLS
                                  : ROCATTACH_REGISTER_ROCPROFILER_ERROR;
  }
  known = tool_path;
  return ROCATTACH_REGISTER_SUCCESS;
}

rocattach_register_status Detach() {
  CheckedLock lock(State().mutex);
  if (!lock.held()) return ROCATTACH_REGISTER_DEADLOCK;
  if (!AttachLibraryIsRegistered()) return ROCATTACH_REGISTER_ATTACHMENT_NOT_AVAILABLE;
  const SdkLibrary* sdk = KnownSdk();
  if (sdk == nullptr || sdk->detach == nullptr) return ROCATTACH_REGISTER_NO_TOOLS;
  return sdk->detach() == 0 ? ROCATTACH_REGISTER_SUCCESS
                            : ROCATTACH_REGISTER_ROCPROFILER_ERROR;
}

}  // namespace

void PrepareAttachment(const Registration& registration) {
  if (!GetBool("ROCP_TOOL_ATTACH", false)) return;
  void* library = AttachLibrary();
  if (library == nullptr) {
    Log("register.attach_library found=0");
    return;
  }
  auto initialize = reinterpret_cast<simrocm_attach_initialize_fn>(
      dlsym(library, SIMROCM_ATTACH_INITIALIZE));
  auto set_api_table = reinterpret_cast<simrocm_attach_set_api_table_fn>(
      dlsym(library, SIMROCM_ATTACH_SET_API_TABLE));
  if (initialize == nullptr || set_api_table == nullptr) return;
  if (!TheRegistry().Has(ROCATTACH_REGISTER_NAME_ATTACH)) initialize(&RegisterFunctor);
  if (registration.name == ROCATTACH_REGISTER_NAME_HSA) {
    set_api_table(registration.name.c_str(), registration.lib_version,
                  registration.instance, const_cast<void**>(registration.tables.data()),
                  registration.tables.size(), &RegisterFunctor);
  }
}

}  // namespace simrocm

SIMROCM_EXPORT int32_t rocprofiler_register_attach(const char* environment_buffer,
                                                   const char* tool_lib_path) {
  simrocm::Log("register.attach tool=%s",
               tool_lib_path != nullptr ? tool_lib_path : "(null)");
  int32_t status = simrocm::Attach(environment_buffer, tool_lib_path);
  simrocm::Log("register.attach_done status=%d", status);
  return status;
}

SIMROCM_EXPORT int32_t rocprofiler_register_detach(void) {
  simrocm::Log("register.detach");
  int32_t status = simrocm::Detach();
  simrocm::Log("register.detach_done status=%d", status);
  return status;
}
