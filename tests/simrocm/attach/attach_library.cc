// librocprofiler-sdk-attach.so.1, simulated: is loaded in a process that was started
// with ROCP_TOOL_ATTACH=1, provides the thread that an attacher looks for, and tracks
// queues and code objects, so that a tool that is attached later does not miss them.
#include <pthread.h>
#include <signal.h>

#include <condition_variable>
#include <list>
#include <mutex>
#include <thread>

#include "tests/simrocm/amd_ext_order.h"
#include "tests/simrocm/attach/attach_table.h"
#include "tests/simrocm/call_log.h"
#include "tests/simrocm/queue_proxies.h"

#define SIMROCM_EXPORT extern "C" __attribute__((visibility("default")))

namespace simrocm {
namespace {

struct Executables {
  std::mutex mutex;
  std::list<hsa_executable_t> frozen;
  decltype(hsa_executable_freeze)* freeze = nullptr;
  decltype(hsa_executable_destroy)* destroy = nullptr;
};

Executables& Known() {
  static auto* known = new Executables;
  return *known;
}

hsa_status_t Freeze(hsa_executable_t executable, const char* options) {
  // Set before the table that leads here is handed out.
  hsa_status_t status = Known().freeze(executable, options);  // NOLINT
  if (status == HSA_STATUS_SUCCESS) {
    std::lock_guard lock(Known().mutex);
    Known().frozen.push_back(executable);
  }
  return status;
}

hsa_status_t Destroy(hsa_executable_t executable) {
  {
    std::lock_guard lock(Known().mutex);
    Known().frozen.remove_if(
        [&](hsa_executable_t other) { return other.handle == executable.handle; });
  }
  return Known().destroy(executable);
}

void IterateExecutables(void (*callback)(hsa_executable_t, void*), void* data) {
  std::list<hsa_executable_t> frozen;
  {
    std::lock_guard lock(Known().mutex);
    frozen = Known().frozen;
  }
  for (hsa_executable_t executable : frozen) callback(executable, data);
}

// The attacher stops this thread and makes it call rocprofiler_register_attach: it
// holds no lock of the application, and no signal handler runs on it.
void StartListener() {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([] {
    pthread_setname_np(pthread_self(), "rocp-bg-attach");
    // As upstream: waits for a condition variable that is never signalled.
    std::mutex mutex;
    std::condition_variable never;
    std::unique_lock lock(mutex);
    for (;;) never.wait(lock);
  }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

simrocm_attach_table attach_table = {sizeof(attach_table), &SetWriteInterceptor,
                                     &SetQueueDestroyed, &IterateExecutables};

}  // namespace
}  // namespace simrocm

SIMROCM_EXPORT int rocprofiler_attach_initialize(
    rocattach_register_library_api_table_fn register_functor) {
  simrocm::StartListener();
  void* table = &simrocm::attach_table;
  rocattach_register_id id{};
  int status =
      register_functor(ROCATTACH_REGISTER_NAME_ATTACH, nullptr, 10000, &table, 1, &id);
  simrocm::Log("attach.initialize status=%d", status);
  return status;
}

SIMROCM_EXPORT int rocprofiler_attach_set_api_table(
    const char* name, uint64_t, uint64_t, void** tables, uint64_t,
    rocattach_register_library_api_table_fn) {
  const simrocm::AmdExtOrder order(static_cast<HsaApiTable*>(tables[0]));
  HsaApiTable* const table = order.table();
  simrocm::InstallQueueProxies(table->core_, table->amd_ext_);
  simrocm::Executables& known = simrocm::Known();
  if (table->core_->hsa_executable_freeze_fn != &simrocm::Freeze) {
    known.freeze = table->core_->hsa_executable_freeze_fn;
    known.destroy = table->core_->hsa_executable_destroy_fn;
    table->core_->hsa_executable_freeze_fn = &simrocm::Freeze;
    table->core_->hsa_executable_destroy_fn = &simrocm::Destroy;
  }
  simrocm::Log("attach.set_api_table name=%s", name);
  return 0;
}
