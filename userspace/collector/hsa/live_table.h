// Finds the API tables that the exported functions of a mapped HSA runtime jump
// through.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_HSA_LIVE_TABLE_H_
#define ROCATTACH_USERSPACE_COLLECTOR_HSA_LIVE_TABLE_H_

#include "userspace/collector/hsa/api_tables.h"
#include "userspace/collector/hsa/elf_object.h"

namespace rocattach::collector {

// The tables are static data of the runtime, and valid as soon as its library is
// loaded. No function returns them, but the code of every exported one refers to them.
//
// No single function is trusted. Each of some twenty is decoded and votes: its entry
// must be at the offset given by the table's layout, and all must refer to the same
// variable. If one disagrees, or too few can be decoded, there is no result.
struct LiveTables {
  ElfObject runtime;
  ApiTableRoot root;  // created here; the tables it points to are the runtime's
  AmdSlots slots;
};

// `window` is an address inside the runtime: a process may have several. nullptr if the
// tables were found, else why not. Changes nothing.
const char* FindLiveTables(const void* window, LiveTables* tables);

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_HSA_LIVE_TABLE_H_
