// Finds the API tables that the exported functions of a mapped HSA runtime jump
// through, and the place of each function in them.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_HSA_LIVE_TABLE_H_
#define ROCATTACH_USERSPACE_COLLECTOR_HSA_LIVE_TABLE_H_

#include "userspace/collector/hsa/api_tables.h"
#include "userspace/collector/hsa/elf_object.h"

namespace rocattach::collector {

// The tables are static data of the runtime, and valid as soon as its library is
// loaded. No function returns them, but the code of every exported one refers to them.
//
// No single function is trusted: each is decoded, and nearly all of a table must refer
// to the same variable. In the core table, whose order is known, each must refer to its
// own slot there. In the AMD extension table each function's code says which slot is
// its own. A function that cannot be proven is left out: it is never called through the
// table and its slot never replaced.
struct LiveTables {
  ElfObject runtime;
  ApiTableRoot root;  // created here; the tables it points to are the runtime's
  AmdSlots slots;
  // Properties of intercept queues, inferred from functions of the same release. ROCr
  // up to 5.7 asserts when a wrapped hardware queue overflows twice.
  bool intercept_overflow_asserts;
  // ROCr since 7.1 may pass batches; 7.2.0 and 7.2.1 overflow a buffer with them.
  bool intercept_batches;
  // Functions that the runtime exports and whose slots are not proven: bit i is
  // function i of UnprovenName().
  uint32_t unproven;
};

// `window` is an address inside the runtime: a process may have several runtimes.
// Returns nullptr if the tables were found, else the reason why not. Changes nothing.
const char* FindLiveTables(const void* window, LiveTables* tables);

// The same for tables that the runtime, or a profiler, passes: they must be the live
// ones.
const char* ProveTables(const ApiTableRoot* passed, LiveTables* tables);

// The name of function `index` of LiveTables::unproven; nullptr if there is none.
const char* UnprovenName(uint32_t index);

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_HSA_LIVE_TABLE_H_
