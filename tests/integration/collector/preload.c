/* Stands in for the injector: preloaded into a target, it loads the collector where the
 * attach window would, at the entry of the first hsa_init. Test-only.
 *
 *   COLLECTOR_TEST_LIBRARY    path of librocattach-collector.so
 *   COLLECTOR_TEST_RECORDING  0: armed but idle (default 1)
 *   COLLECTOR_TEST_PLAN       recording_flags, hexadecimal (default: dispatches and copies)
 *   COLLECTOR_TEST_BACKEND    enum rocattach_backend (default 0)
 *   COLLECTOR_TEST_EVERY      load in every hsa_init, like windows that open again
 *   COLLECTOR_TEST_LATE       load when collector_test_load is called, not in hsa_init
 *   COLLECTOR_TEST_KINDS      record_kinds, hexadecimal
 *   COLLECTOR_TEST_ENTRY      tools: use HSA_TOOLS_LIB, as without a live table
 *   COLLECTOR_TEST_RINGS, _SLOTS, _INFLIGHT, _WAIT_MSEC   sizes, and a wait
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <hsa/hsa.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "userspace/abi/shared_memory.h"

static uint32_t number(const char* name, uint32_t otherwise, int base) {
  const char* text = getenv(name);
  return text == NULL ? otherwise : (uint32_t)strtoul(text, NULL, base);
}

/* The runtime's own hsa_init; it may have been opened by dlopen(RTLD_LOCAL). */
static void* find_init(void) {
  void* init = dlsym(RTLD_NEXT, "hsa_init");
  void* runtime =
      init == NULL ? dlopen("libhsa-runtime64.so.1", RTLD_LAZY | RTLD_NOLOAD) : NULL;
  return runtime == NULL ? init : dlsym(runtime, "hsa_init");
}

static void load(void) {
  const char* path = getenv("COLLECTOR_TEST_LIBRARY");
  if (path == NULL || path[0] == '\0' || strlen(path) >= 256) return;
  struct rocattach_collector_config config;
  memset(&config, 0, sizeof(config));
  config.size = sizeof(config);
  config.version = ROCATTACH_SHM_VERSION;
  config.recording_flags =
      number("COLLECTOR_TEST_PLAN",
             ROCATTACH_RECORDING_DISPATCHES | ROCATTACH_RECORDING_COPIES, 16);
  config.recording = number("COLLECTOR_TEST_RECORDING", 1, 10);
  config.ring_count = number("COLLECTOR_TEST_RINGS", 16, 10);
  config.ring_slots = number("COLLECTOR_TEST_SLOTS", 1u << 15, 10);
  config.inflight_count = number("COLLECTOR_TEST_INFLIGHT", 1u << 14, 10);
  config.dictionary_bytes = 4u << 20;
  config.map_wait_msec = number("COLLECTOR_TEST_WAIT_MSEC", 2000, 10);
  config.window_id = 4711;
  config.backend = number("COLLECTOR_TEST_BACKEND", 0, 10);
  config.record_kinds = number("COLLECTOR_TEST_KINDS", 0, 16);
  const char* entry = getenv("COLLECTOR_TEST_ENTRY");
  if (entry == NULL || strcmp(entry, "tools") != 0) {
    config.window_address = (uint64_t)(uintptr_t)find_init();
  }
  strcpy(config.collector_path, path);
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "preload: %s\n", dlerror());
    abort();
  }
  int (*start)(const struct rocattach_collector_config*);
  *(void**)&start = dlsym(library, ROCATTACH_COLLECTOR_START);
  int error = start == NULL ? ENOENT : start(&config);
  if (error != 0) {
    fprintf(stderr, "preload: start: %s\n", strerror(error));
    abort();
  }
}

__attribute__((constructor)) static void keep_out_of_children(void) {
  unsetenv("LD_PRELOAD");
}

/* Called by a program that loads the collector later, like an attach while it runs. */
void collector_test_load(void) {
  load();
}

/* Only the first call of the process loads the collector, as with the probe. */
hsa_status_t hsa_init(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  if (getenv("COLLECTOR_TEST_EVERY") != NULL) {
    load();
  } else if (getenv("COLLECTOR_TEST_LATE") == NULL) {
    pthread_once(&once, load);
  }
  hsa_status_t (*real)(void);
  *(void**)&real = find_init();
  return real == NULL ? HSA_STATUS_ERROR : real();
}
