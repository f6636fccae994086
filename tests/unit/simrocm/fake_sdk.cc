// A library that rocprofiler-register takes for the SDK. It logs the calls of its
// functions; FAKE_SDK controls its behaviour, as a list of words:
//   error            set_api_table fails
//   reenter          set_api_table registers and invokes from within
//   slow             set_api_table takes a while
//   load-fails, attach-fails, detach-fails
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <mutex>
#include <string>

#include "userspace/collector/sdk/register_abi.h"

namespace {

bool Is(const char* word) {
  const char* behaviour = getenv("FAKE_SDK");
  return behaviour != nullptr && strstr(behaviour, word) != nullptr;
}

std::mutex mutex;
std::string calls;

void RecordCall(const std::string& call) {
  std::lock_guard lock(mutex);
  calls += call + " ";
}

int32_t Reenter() {
  auto register_table = reinterpret_cast<rocattach_register_library_api_table_fn>(
      dlsym(RTLD_DEFAULT, "rocprofiler_register_library_api_table"));
  void* tables[] = {&calls};
  rocattach_register_id id{};
  return register_table("hip", nullptr, 1, tables, 1, &id);
}

}  // namespace

extern "C" {

// All calls so far, each followed by a space.
const char* fake_sdk_calls() {
  return calls.c_str();
}

int rocprofiler_set_api_table(const char* name, uint64_t version, uint64_t instance,
                              void**, uint64_t count) {
  RecordCall(std::string(name) + "/" + std::to_string(version) + "/" +
             std::to_string(instance) + "/" + std::to_string(count));
  if (Is("slow")) usleep(100000);
  if (Is("reenter")) {
    RecordCall("reentered=" + std::to_string(Reenter()));
    auto invoke = reinterpret_cast<rocattach_register_invoke_fn>(
        dlsym(RTLD_DEFAULT, "rocprofiler_register_invoke_all_registrations"));
    RecordCall("invoked=" + std::to_string(invoke()));
  }
  return Is("error") ? 1 : 0;
}

#ifndef FAKE_SDK_WITHOUT_ATTACH
int rocprofiler_load_attachment_tool(const char* path) {
  const char* marker = getenv("ROCPROFILER_REGISTER_TOOL_ATTACHED");
  const char* value = getenv("FAKE_VARIABLE");
  RecordCall(std::string("load:") + path + ":" +
             (marker != nullptr ? marker : "unset") + ":" +
             (value != nullptr ? value : "unset"));
  return Is("load-fails") ? 1 : 0;
}

int rocprofiler_attach() {
  RecordCall("attach");
  return Is("attach-fails") ? 17 : 0;
}

int rocprofiler_detach() {
  RecordCall("detach");
  return Is("detach-fails") ? 1 : 0;
}
#endif
}
