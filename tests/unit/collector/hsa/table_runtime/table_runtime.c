// The part of an HSA runtime that the collector reads: two API tables and the exported
// functions that jump through them. Built in one variant for each order of the AMD
// extension table (CMakeLists.txt), with ENTRIES as the file that lists it.
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))
#define HIDDEN __attribute__((visibility("hidden")))

typedef int Function(void);
typedef struct {
  uint32_t major, minor, step, reserved;
  Function* entries[123 + 2];
} CoreTable;

// ENTRIES has one line for each slot: ENTRY(name); HIDDEN_ENTRY(name), which has no
// exported function; or FOREIGN_ENTRY(name), whose function does not use the table.
enum {
#define ENTRY(name) kSlot_##name,
#define HIDDEN_ENTRY(name) kSlot_##name,
#define FOREIGN_ENTRY(name) kSlot_##name,
#include ENTRIES
#undef ENTRY
#undef HIDDEN_ENTRY
#undef FOREIGN_ENTRY
  kAmdEntries
};
typedef struct {
  uint32_t major, minor, step, reserved;
  Function* entries[kAmdEntries];
} AmdTable;

static int Nothing(void) {
  return 0;
}

// Not static: the compiler must not know that they always point to the same tables.
static CoreTable core_table;
static AmdTable amd_table;
HIDDEN CoreTable* core = &core_table;
HIDDEN AmdTable* amd = &amd_table;

#ifdef TRACEPOINTS
HIDDEN void (*volatile tracepoint)(const char* name);
#define TRACE(name) \
  if (tracepoint != NULL) tracepoint(#name);
#else
#define TRACE(name)
#endif

#define STUB(table, name, slot)                \
  EXPORT int name(void);                       \
  EXPORT int name(void) {                      \
    TRACE(name) return table->entries[slot](); \
  }

EXPORT int hsa_init(void);
EXPORT int hsa_init(void) {
  return 0;
}
STUB(core, hsa_shut_down, 1)
STUB(core, hsa_system_get_info, 2)
STUB(core, hsa_iterate_agents, 5)
STUB(core, hsa_agent_get_info, 6)
STUB(core, hsa_queue_create, 7)
STUB(core, hsa_queue_destroy, 9)
STUB(core, hsa_queue_store_write_index_relaxed, 15)
STUB(core, hsa_queue_store_write_index_screlease, 16)
STUB(core, hsa_queue_cas_write_index_scacq_screl, 17)
STUB(core, hsa_queue_cas_write_index_scacquire, 18)
STUB(core, hsa_queue_cas_write_index_relaxed, 19)
STUB(core, hsa_queue_cas_write_index_screlease, 20)
STUB(core, hsa_queue_add_write_index_scacq_screl, 21)
STUB(core, hsa_queue_add_write_index_scacquire, 22)
STUB(core, hsa_queue_add_write_index_relaxed, 23)
STUB(core, hsa_queue_add_write_index_screlease, 24)
STUB(core, hsa_memory_allocate, 33)
STUB(core, hsa_memory_free, 34)
STUB(core, hsa_memory_copy, 35)
STUB(core, hsa_signal_destroy, 38)
STUB(core, hsa_signal_load_relaxed, 39)
STUB(core, hsa_signal_load_scacquire, 40)
STUB(core, hsa_signal_store_relaxed, 41)
STUB(core, hsa_signal_store_screlease, 42)
STUB(core, hsa_signal_wait_relaxed, 43)
STUB(core, hsa_signal_wait_scacquire, 44)
STUB(core, hsa_executable_destroy, 84)
STUB(core, hsa_executable_freeze, 86)
STUB(core, hsa_executable_symbol_get_info, 93)
STUB(core, hsa_system_get_major_extension_table, 98)
STUB(core, hsa_signal_silent_store_relaxed, 102)
STUB(core, hsa_signal_silent_store_screlease, 103)
STUB(core, hsa_executable_iterate_agent_symbols, 123)

// One function that differs from what the collector expects.
#ifdef OVERLAP
#define SLOT(name) \
  (kSlot_##name == kSlot_pointer_info ? kSlot_memory_pool_free : kSlot_##name)
#else
#define SLOT(name) kSlot_##name
#endif

#define ENTRY(name) STUB(amd, hsa_amd_##name, SLOT(name))
#define HIDDEN_ENTRY(name)
#define FOREIGN_ENTRY(name)         \
  EXPORT int hsa_amd_##name(void);  \
  EXPORT int hsa_amd_##name(void) { \
    return 1;                       \
  }
#include ENTRIES
#undef ENTRY
#undef HIDDEN_ENTRY
#undef FOREIGN_ENTRY

static void Fill(uint32_t* version, size_t bytes, Function** entries, size_t count) {
  version[0] = 2;
  version[1] = (uint32_t)bytes;
  for (size_t i = 0; i < count; ++i) entries[i] = &Nothing;
}

__attribute__((constructor)) static void Constructor(void) {
  Fill(&core_table.major, sizeof(core_table), core_table.entries, 125);
  Fill(&amd_table.major, sizeof(amd_table), amd_table.entries, kAmdEntries);
#ifdef FOREIGN_TABLE
  amd = calloc(1, sizeof(amd_table));
  *amd = amd_table;
#endif
#ifdef NO_SIZE
  amd_table.minor = 0xffffff00u;
#endif
#ifdef NO_ENTRY
  amd_table.entries[kSlot_pointer_info] = NULL;
#endif
}

// For the tests.
typedef struct {
  uint32_t major, minor, step, reserved;
  CoreTable* core;
  AmdTable* amd;
} RootTable;

EXPORT void tables_root(RootTable* root);
EXPORT void tables_root(RootTable* root) {
  root->major = 3;
  root->minor = sizeof(*root);
  root->step = root->reserved = 0;
  root->core = core;
  root->amd = amd;
}

typedef struct {
  const char* name;
  uint32_t slot;
} Slot;
#define ENTRY(name) {#name, kSlot_##name},
#define HIDDEN_ENTRY(name) {#name, kSlot_##name},
#define FOREIGN_ENTRY(name) {#name, kSlot_##name},
EXPORT const Slot tables_slots[] = {
#include ENTRIES
    {NULL, 0}};
EXPORT Function* const tables_function = &Nothing;
