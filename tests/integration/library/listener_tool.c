// A third-party tool library, for processes that were started with ROCP_TOOL_ATTACH=1.
// It writes the steps that are called, one word per line, to ROCPROF_TEST_LOG, and does
// what ROCPROF_TEST_DO says:
//   WORD:hang     waits in the step WORD (constructor, configure, init, attach, detach)
//                 until the file ROCPROF_TEST_RELEASE is there
//   WORD:crash    writes to a null pointer
//   WORD:slow     takes 100 ms
//   WORD:exit     ends the process with status 0
//   WORD:fail     initialisation fails
//   float:all     changes vector registers at each step
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "userspace/collector/sdk/abi_tool.h"

#define EXPORT __attribute__((visibility("default")))

static int wants(const char* step, const char* what) {
  const char* behavior = getenv("ROCPROF_TEST_DO");
  char text[64];
  snprintf(text, sizeof(text), "%s:%s", step, what);
  return behavior != NULL && strcmp(behavior, text) == 0;
}

static void put(const char* step) {
  // The process no longer has this variable after the detach.
  static char path[4096];
  const char* now = getenv("ROCPROF_TEST_LOG");
  if (now != NULL) snprintf(path, sizeof(path), "%s", now);
  FILE* file = path[0] != '\0' ? fopen(path, "a") : NULL;
  if (file == NULL) return;
  const char* mark = getenv("ROCPROF_TEST_MARK");
  fprintf(file, "%s%s\n", step, mark != NULL ? mark : "");
  fclose(file);
}

// A fault is delivered even if its signal is blocked, unlike a signal that is raised.
static int* volatile nowhere;

static void at(const char* step) {
  put(step);
  if (wants(step, "hang")) {
    const char* release = getenv("ROCPROF_TEST_RELEASE");
    while (release == NULL || access(release, F_OK) != 0) usleep(1000);
  }
  if (wants(step, "crash")) *nowhere = 1;
  if (wants(step, "slow")) usleep(100000);
  if (wants(step, "exit")) _exit(0);
  // Changes that a call must not leave behind.
  if (wants("float", "all")) {
    __asm__ volatile(
        "pcmpeqd %%xmm0, %%xmm0\n\tpcmpeqd %%xmm7, %%xmm7\n\tpcmpeqd %%xmm15, "
        "%%xmm15" ::
            : "xmm0", "xmm7", "xmm15");
  }
}

__attribute__((constructor)) static void load(void) {
  at("constructor");
}

static int initialize(rocattach_sdk_client_finalize_fn finalize, void* data) {
  (void)finalize, (void)data;
  at("init");
  return wants("init", "fail");
}

static void finish(void* data) {
  (void)data;
  at("fini");
}

static int attach(rocattach_sdk_client_detach_fn leave,
                  rocattach_sdk_context_id* contexts, uint64_t count, void* data) {
  (void)leave, (void)contexts, (void)count, (void)data;
  at("attach");
  return 0;
}

static void detach(void* data) {
  (void)data;
  at("detach");
}

EXPORT struct rocattach_sdk_configure_result* rocprofiler_configure(
    uint32_t version, const char* runtime, uint32_t priority,
    struct rocattach_sdk_client_id* client) {
  (void)version, (void)runtime, (void)priority;
  static struct rocattach_sdk_configure_result result = {sizeof(result), initialize,
                                                         finish, NULL};
  client->name = "listener_tool";
  at("configure");
  return &result;
}

EXPORT struct rocattach_sdk_configure_attach_result* rocprofiler_configure_attach(
    uint32_t version, const char* runtime, uint32_t priority,
    struct rocattach_sdk_client_id* client) {
  (void)version, (void)runtime, (void)priority, (void)client;
  static struct rocattach_sdk_configure_attach_result result = {sizeof(result), attach,
                                                                detach, NULL};
  at("configure_attach");
  return &result;
}
