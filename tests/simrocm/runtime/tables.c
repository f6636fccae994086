// The tables of the simulated runtime, the functions exported through them, and
// access to the real one, a copy of which is beside this library (rename_entry.py).
// ENTRIES is the file that lists the slots of the AMD extension table.
//
// No HSA header is included, because the functions are defined with another type.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/simrocm/runtime/runtime.h"
#include "tests/simrocm/sdk/hsa_api_list.h"

#define EXPORT __attribute__((visibility("default")))
#define HIDDEN __attribute__((visibility("hidden")))

enum {
#define ENTRY(name) kSlot_##name,
#include ENTRIES
#undef ENTRY
  kAmdEntries,
  kCoreEntries = 125,
};

typedef struct {
  uint32_t major, minor, step, reserved;
  runtime_function* entries[kCoreEntries];
} core_table_t;
typedef struct {
  uint32_t major, minor, step, reserved;
  runtime_function* entries[kAmdEntries];
} amd_table_t;

// The variables are not static: the compiler must not know that they always point to the
// same tables.
static core_table_t core_table = {.major = 2, .minor = sizeof(core_table_t)};
static amd_table_t amd_table = {.major = 2, .minor = sizeof(amd_table_t)};
HIDDEN core_table_t* core = &core_table;
HIDDEN amd_table_t* amd = &amd_table;

static runtime_function* real_core[kCoreEntries];
static runtime_function* real_amd[kAmdEntries];

// --- Exported functions ---

#define EXPORTED(name, ...) \
  EXPORT long name(void);   \
  EXPORT long name(void) {  \
    return __VA_ARGS__();   \
  }
// Initially the tables contain functions that call the real runtime.
#define CORE(name, slot)              \
  EXPORTED(name, core->entries[slot]) \
  static long forward_##name(void) {  \
    return real_core[slot]();         \
  }
SIMROCM_CORE_API(CORE)

#define ENTRY(name)                                    \
  EXPORTED(hsa_amd_##name, amd->entries[kSlot_##name]) \
  static long forward_amd_##name(void) {               \
    return real_amd[kSlot_##name]();                   \
  }
#include ENTRIES
#undef ENTRY

// Names from HSA 1.0 for functions that have more precise names now.
#define OLD(name, slot) EXPORTED(name, core->entries[slot])
OLD(hsa_queue_load_read_index_acquire, 11)
OLD(hsa_queue_load_write_index_acquire, 13)
OLD(hsa_queue_store_write_index_release, 16)
OLD(hsa_queue_cas_write_index_acq_rel, 17)
OLD(hsa_queue_cas_write_index_acquire, 18)
OLD(hsa_queue_cas_write_index_release, 20)
OLD(hsa_queue_add_write_index_acq_rel, 21)
OLD(hsa_queue_add_write_index_acquire, 22)
OLD(hsa_queue_add_write_index_release, 24)
OLD(hsa_queue_store_read_index_release, 26)
OLD(hsa_signal_load_acquire, 40)
OLD(hsa_signal_store_release, 42)
OLD(hsa_signal_wait_acquire, 44)

// Functions of other tables.
// clang-format off
#define OTHERS(X) \
  X(hsa_ext_image_clear, 0) \
  X(hsa_ext_image_copy, 1) \
  X(hsa_ext_image_create, 2) \
  X(hsa_ext_image_create_with_layout, 3) \
  X(hsa_ext_image_data_get_info, 4) \
  X(hsa_ext_image_data_get_info_with_layout, 5) \
  X(hsa_ext_image_destroy, 6) \
  X(hsa_ext_image_export, 7) \
  X(hsa_ext_image_get_capability, 8) \
  X(hsa_ext_image_get_capability_with_layout, 9) \
  X(hsa_ext_image_import, 10) \
  X(hsa_ext_sampler_create, 11) \
  X(hsa_ext_sampler_destroy, 12) \
  X(hsa_ext_program_add_module, 13) \
  X(hsa_ext_program_create, 14) \
  X(hsa_ext_program_destroy, 15) \
  X(hsa_ext_program_finalize, 16) \
  X(hsa_ext_program_get_info, 17) \
  X(hsa_ext_program_iterate_modules, 18)
// clang-format on
enum { kOthers = 19 };
static runtime_function* real_others[kOthers];
#define OTHER(name, index) EXPORTED(name, real_others[index])
OTHERS(OTHER)

// --- The real runtime ---

static long absent(void) {
  return 0x1000;  // HSA_STATUS_ERROR
}

static struct link_map* real;

// Instead of dlsym: two functions have other names than the library's hash table knows.
static runtime_function* find(const char* name) {
  const ElfW(Sym)* symbol = NULL;
  const char* names = NULL;
  for (const ElfW(Dyn)* d = real->l_ld; d->d_tag != DT_NULL; d++) {
    if (d->d_tag == DT_SYMTAB) symbol = (const ElfW(Sym)*)d->d_un.d_ptr;
    if (d->d_tag == DT_STRTAB) names = (const char*)d->d_un.d_ptr;
  }
  // The names follow the symbols.
  for (; (const char*)(symbol + 1) <= names; symbol++) {
    if (symbol->st_value != 0 && strcmp(names + symbol->st_name, name) == 0) {
      return (runtime_function*)(uintptr_t)(real->l_addr + symbol->st_value);
    }
  }
  return NULL;
}

runtime_function* real_function(const char* name) {
  if (strcmp(name, "hsa_init") == 0) name = "xsa_init";
  if (strcmp(name, "hsa_shut_down") == 0) name = "xsa_shut_down";
  runtime_function* function = find(name);
  return function != NULL ? function : absent;
}

static const struct {
  const char* name;
  runtime_function** entry;
} entries[] = {
#define NAMED(name, slot) {#name, &core_table.entries[slot]},
    SIMROCM_CORE_API(NAMED)
#define ENTRY(name) {"hsa_amd_" #name, &amd_table.entries[kSlot_##name]},
#include ENTRIES
#undef ENTRY
};

void set_entry(const char* name, runtime_function* function) {
  for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
    if (strcmp(entries[i].name, name) == 0) *entries[i].entry = function;
  }
}

__attribute__((constructor)) static void load_real_runtime(void) {
  char path[PATH_MAX + 64];
  Dl_info self;
  if (dladdr(&core_table, &self) == 0) abort();
  snprintf(path, sizeof(path), "%s", self.dli_fname);
  strcpy(strrchr(path, '/') + 1, "../libsimrocm-real-runtime.so");
  real = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (real == NULL) {
    fprintf(stderr, "simrocm runtime: %s\n", dlerror());
    abort();
  }
#define LOAD_CORE(name, slot) real_core[slot] = real_function(#name);
  SIMROCM_CORE_API(LOAD_CORE)
#define ENTRY(name) real_amd[kSlot_##name] = real_function("hsa_amd_" #name);
#include ENTRIES
#undef ENTRY
#define LOAD_OTHER(name, index) real_others[index] = real_function(#name);
  OTHERS(LOAD_OTHER)
  find_functions();
  reset_tables();
}

void reset_tables(void) {
#define RESET_CORE(name, slot) core_table.entries[slot] = forward_##name;
  SIMROCM_CORE_API(RESET_CORE)
#define ENTRY(name) amd_table.entries[kSlot_##name] = forward_amd_##name;
#include ENTRIES
#undef ENTRY
  set_newer_functions();
}

__attribute__((visibility("default"))) void simrocm_runtime_restore_tables(void) {
  reset_tables();
}
