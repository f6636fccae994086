#include "userspace/collector/hsa/live_table.h"

#include "userspace/abi/atomics.h"
#include "userspace/collector/hsa/table_jump.h"

namespace rocattach::collector {
namespace {

struct CoreFunction {
  const char* name;
  uint32_t slot;
};

// hsa_init is not among them: newer runtimes do other work in it first.
constexpr CoreFunction kCoreFunctions[] = {
    {"hsa_shut_down", kCoreShutDown},
    {"hsa_system_get_info", kCoreSystemGetInfo},
    {"hsa_iterate_agents", kCoreIterateAgents},
    {"hsa_agent_get_info", kCoreAgentGetInfo},
    {"hsa_queue_create", kCoreQueueCreate},
    {"hsa_queue_destroy", kCoreQueueDestroy},
    {"hsa_queue_store_write_index_relaxed", kCoreQueueStoreWriteIndexRelaxed},
    {"hsa_queue_store_write_index_screlease", kCoreQueueStoreWriteIndexScrelease},
    {"hsa_queue_cas_write_index_scacq_screl", kCoreQueueCasWriteIndexScacqScrel},
    {"hsa_queue_cas_write_index_scacquire", kCoreQueueCasWriteIndexScacquire},
    {"hsa_queue_cas_write_index_relaxed", kCoreQueueCasWriteIndexRelaxed},
    {"hsa_queue_cas_write_index_screlease", kCoreQueueCasWriteIndexScrelease},
    {"hsa_queue_add_write_index_scacq_screl", kCoreQueueAddWriteIndexScacqScrel},
    {"hsa_queue_add_write_index_scacquire", kCoreQueueAddWriteIndexScacquire},
    {"hsa_queue_add_write_index_relaxed", kCoreQueueAddWriteIndexRelaxed},
    {"hsa_queue_add_write_index_screlease", kCoreQueueAddWriteIndexScrelease},
    {"hsa_memory_allocate", kCoreMemoryAllocate},
    {"hsa_memory_free", kCoreMemoryFree},
    {"hsa_memory_copy", kCoreMemoryCopy},
    {"hsa_signal_destroy", kCoreSignalDestroy},
    {"hsa_signal_load_relaxed", kCoreSignalLoadRelaxed},
    {"hsa_signal_load_scacquire", kCoreSignalLoadScacquire},
    {"hsa_signal_wait_relaxed", kCoreSignalWaitRelaxed},
    {"hsa_signal_wait_scacquire", kCoreSignalWaitScacquire},
    {"hsa_signal_store_relaxed", kCoreSignalStoreRelaxed},
    {"hsa_signal_store_screlease", kCoreSignalStoreScrelease},
    {"hsa_executable_destroy", kCoreExecutableDestroy},
    {"hsa_executable_freeze", kCoreExecutableFreeze},
    {"hsa_executable_symbol_get_info", kCoreExecutableSymbolGetInfo},
    {"hsa_system_get_major_extension_table", kCoreSystemGetMajorExtensionTable},
    {"hsa_signal_silent_store_relaxed", kCoreSignalSilentStoreRelaxed},
    {"hsa_signal_silent_store_screlease", kCoreSignalSilentStoreScrelease},
    {"hsa_executable_iterate_agent_symbols", kCoreExecutableIterateAgentSymbols},
};

struct AmdFunction {
  const char* name;
  uint32_t AmdSlots::*slot;
};

constexpr AmdFunction kAmdFunctions[] = {
    {"hsa_amd_profiling_set_profiler_enabled",
     &AmdSlots::profiling_set_profiler_enabled},
    {"hsa_amd_profiling_async_copy_enable", &AmdSlots::profiling_async_copy_enable},
    {"hsa_amd_profiling_get_async_copy_time", &AmdSlots::profiling_get_async_copy_time},
    {"hsa_amd_profiling_convert_tick_to_system_domain",
     &AmdSlots::profiling_convert_tick_to_system_domain},
    {"hsa_amd_async_function", &AmdSlots::async_function},
    {"hsa_amd_memory_pool_get_info", &AmdSlots::memory_pool_get_info},
    {"hsa_amd_agent_iterate_memory_pools", &AmdSlots::agent_iterate_memory_pools},
    {"hsa_amd_memory_pool_allocate", &AmdSlots::memory_pool_allocate},
    {"hsa_amd_memory_pool_free", &AmdSlots::memory_pool_free},
    {"hsa_amd_memory_async_copy", &AmdSlots::memory_async_copy},
    {"hsa_amd_memory_async_copy_on_engine", &AmdSlots::memory_async_copy_on_engine},
    {"hsa_amd_agents_allow_access", &AmdSlots::agents_allow_access},
    {"hsa_amd_pointer_info", &AmdSlots::pointer_info},
    {"hsa_amd_memory_async_copy_rect", &AmdSlots::memory_async_copy_rect},
    {"hsa_amd_memory_async_batch_copy", &AmdSlots::memory_async_batch_copy},
    {"hsa_amd_queue_get_info", &AmdSlots::queue_get_info},
    {"hsa_amd_queue_create", &AmdSlots::queue_create},
};
constexpr uint32_t kAmdFunctionCount = sizeof(kAmdFunctions) / sizeof(kAmdFunctions[0]);

// Some functions may have probes on them, but not most of them.
constexpr uint32_t kLeastCore = 12, kLeastAmd = 8;
constexpr uint8_t kBreakpoint = 0xcc;  // int3
// Number of functions whose variables are tried before the search is given up.
constexpr uint32_t kNominations = 4;

// The jumps of one exported function.
TableJumps JumpsOf(const ElfObject::Code& code) {
  return TableJumps(static_cast<const uint8_t*>(code.address), code.bytes,
                    reinterpret_cast<uint64_t>(code.address));
}

// False if there is no such function, or a breakpoint on it, such as the one that a
// late attach begins at: its first instruction cannot be read.
bool Readable(const ElfObject::Code& code) {
  return code.bytes != 0 && *static_cast<const uint8_t*>(code.address) != kBreakpoint;
}

// True if the function refers to `variable`; then `offset` is that of its entry.
bool OffsetIn(const ElfObject::Code& code, uint64_t variable, int32_t* offset) {
  TableJumps jumps = JumpsOf(code);
  for (TableJump jump; jumps.Next(&jump);) {
    if (jump.variable != variable) continue;
    *offset = jump.offset;
    return true;
  }
  return false;
}

int32_t OffsetOf(uint32_t slot) {
  return static_cast<int32_t>(sizeof(ApiTableVersion) + slot * sizeof(void*));
}

// The slot at this offset of the table; kNoSlot if there is none.
uint32_t SlotAt(const ApiTable& table, int32_t offset) {
  if (offset < OffsetOf(0) || offset % static_cast<int32_t>(sizeof(void*)) != 0 ||
      static_cast<uint32_t>(offset) + sizeof(void*) > table.version.minor_id) {
    return kNoSlot;
  }
  return (static_cast<uint32_t>(offset) - OffsetOf(0)) / sizeof(void*);
}

// The table that the variable points to, which must be static data of the runtime that
// we may write; nullptr if it is not.
ApiTable* TableIn(const ElfObject& runtime, uint64_t address) {
  const auto* variable = reinterpret_cast<ApiTable* const*>(address);
  if (address % sizeof(void*) != 0 ||
      !runtime.Contains(variable, sizeof(void*), PF_R)) {
    return nullptr;
  }
  ApiTable* table = LoadAcquire(variable);
  const bool inside = runtime.Contains(table, sizeof(ApiTableVersion), PF_R | PF_W);
  if (!inside || reinterpret_cast<uintptr_t>(table) % sizeof(void*) != 0) {
    return nullptr;
  }
  const uint32_t bytes = table->version.minor_id;
  if (bytes > kMostTableBytes) return nullptr;
  return runtime.Contains(table, bytes, PF_R | PF_W) ? table : nullptr;
}

// The votes of a list's readable functions on one variable.
struct Vote {
  uint32_t asked = 0, agreed = 0, disagreed = 0;

  bool Carried(uint32_t least) const {
    return disagreed == 0 && agreed >= least && agreed * 4 >= asked * 3;
  }
};

bool CoreVote(const ElfObject& runtime, uint64_t variable) {
  Vote vote;
  for (const CoreFunction& function : kCoreFunctions) {
    const ElfObject::Code code = runtime.Function(function.name);
    if (code.address != nullptr && !Readable(code)) continue;
    ++vote.asked;
    int32_t offset;
    if (code.address == nullptr || !OffsetIn(code, variable, &offset)) continue;
    ++(offset == OffsetOf(function.slot) ? vote.agreed : vote.disagreed);
  }
  return vote.Carried(kLeastCore);
}

// Here each function says which slot is its own; no two may say the same.
bool AmdVote(const ElfObject& runtime, uint64_t variable, const ApiTable& table) {
  Vote vote;
  uint32_t slots[kAmdFunctionCount];
  for (const AmdFunction& function : kAmdFunctions) {
    const ElfObject::Code code = runtime.Function(function.name);
    if (!Readable(code)) continue;
    ++vote.asked;
    int32_t offset;
    if (!OffsetIn(code, variable, &offset)) continue;
    const uint32_t slot = SlotAt(table, offset);
    bool known = slot == kNoSlot;
    for (uint32_t i = 0; i < vote.agreed; ++i) known = known || slots[i] == slot;
    if (known) {
      ++vote.disagreed;
    } else {
      slots[vote.agreed++] = slot;
    }
  }
  return vote.Carried(kLeastAmd);
}

// Tries the variables that the first functions of a list refer to.
template <typename Functions, typename Agree>
ApiTable* FindTable(const ElfObject& runtime, const Functions& functions, Agree agree,
                    uint64_t* variable) {
  uint32_t nominated = 0;
  for (const auto& function : functions) {
    const ElfObject::Code code = runtime.Function(function.name);
    if (!Readable(code)) continue;
    TableJumps jumps = JumpsOf(code);
    for (TableJump jump; jumps.Next(&jump);) {
      ApiTable* table = TableIn(runtime, jump.variable);
      if (table == nullptr || !agree(jump.variable, *table)) continue;
      *variable = jump.variable;
      return table;
    }
    if (++nominated == kNominations) break;
  }
  return nullptr;
}

// True if a slot contains a function: the runtime's own, a tool's or ours.
bool IsCode(const ElfObject& runtime, const ApiTable& table, uint32_t slot) {
  const void* function = LoadAcquire(&table.slots[slot]);
  if (runtime.Contains(function, 1, PF_X)) return true;
  ElfObject other;
  return function != nullptr && ElfObject::Find(function, &other) &&
         other.Contains(function, 1, PF_X);
}

class SlotReader {
 public:
  SlotReader(const ElfObject& runtime, uint64_t variable, const ApiTable& table)
      : runtime_(runtime), variable_(variable), table_(table) {}

  uint32_t Read(const char* name) const {
    const ElfObject::Code code = runtime_.Function(name);
    int32_t offset;
    if (!Readable(code) || !OffsetIn(code, variable_, &offset)) return kNoSlot;
    const uint32_t slot = SlotAt(table_, offset);
    return slot != kNoSlot && IsCode(runtime_, table_, slot) ? slot : kNoSlot;
  }

  // Two functions for tools have no exported stub. In every release they are between
  // these two, which have one.
  void ReadIntercept(AmdSlots* slots) const {
    const uint32_t before = Read("hsa_amd_register_system_event_handler");
    const uint32_t after = Read("hsa_amd_queue_set_priority");
    if (before == kNoSlot || after != before + 3) return;
    if (!IsCode(runtime_, table_, before + 1) || !IsCode(runtime_, table_, before + 2))
      return;
    slots->queue_intercept_create = before + 1;
    slots->queue_intercept_register = before + 2;
  }

 private:
  const ElfObject& runtime_;
  uint64_t variable_;
  const ApiTable& table_;
};

bool Exports(const ElfObject& runtime, const char* name) {
  return runtime.Function(name).address != nullptr;
}

const char* FindTables(LiveTables* tables) {
  const ElfObject& runtime = tables->runtime;
  ApiTableRoot root = {};
  root.version.minor_id = sizeof(root);
  uint64_t variable;
  root.core = FindTable(
      runtime, kCoreFunctions,
      [&](uint64_t v, const ApiTable&) { return CoreVote(runtime, v); }, &variable);
  if (root.core == nullptr)
    return "the runtime's functions do not agree on a core table";
  root.amd_ext = FindTable(
      runtime, kAmdFunctions,
      [&](uint64_t v, const ApiTable& t) { return AmdVote(runtime, v, t); }, &variable);
  if (root.amd_ext == nullptr) {
    return "the runtime's functions do not agree on a table of AMD extensions";
  }
  if (const char* why = CheckTables(&root)) return why;
  tables->root = root;
  tables->slots = AmdSlots();
  tables->unproven = 0;
  const SlotReader reader(runtime, variable, *root.amd_ext);
  for (uint32_t i = 0; i < kAmdFunctionCount; ++i) {
    const AmdFunction& function = kAmdFunctions[i];
    tables->slots.*function.slot = reader.Read(function.name);
    if (tables->slots.*function.slot == kNoSlot && Exports(runtime, function.name)) {
      tables->unproven |= 1u << i;
    }
  }
  reader.ReadIntercept(&tables->slots);
  tables->intercept_overflow_asserts =
      !Exports(runtime, "hsa_amd_vmem_address_reserve");
  tables->intercept_batches = Exports(runtime, "hsa_amd_ais_file_write");
  return nullptr;
}

}  // namespace

const char* FindLiveTables(const void* window, LiveTables* tables) {
  if (window == nullptr) return "the window's address is not known";
  if (!ElfObject::Find(window, &tables->runtime)) {
    return "the loader does not list the runtime that the window is in";
  }
  return FindTables(tables);
}

const char* ProveTables(const ApiTableRoot* passed, LiveTables* tables) {
  if (const char* why = CheckTables(passed)) return why;
  if (!ElfObject::Find(passed->core, &tables->runtime)) {
    return "the API tables that were passed are in no library";
  }
  if (const char* why = FindTables(tables)) return why;
  if (tables->root.core != passed->core || tables->root.amd_ext != passed->amd_ext) {
    return "the API tables that were passed are not those that the runtime uses";
  }
  return nullptr;
}

const char* UnprovenName(uint32_t index) {
  return index < kAmdFunctionCount ? kAmdFunctions[index].name : nullptr;
}

}  // namespace rocattach::collector
