#include "userspace/collector/hsa/live_table.h"

#include "userspace/abi/atomics.h"
#include "userspace/collector/hsa/table_jump.h"

namespace rocattach::collector {
namespace {

struct Anchor {
  const char* name;
  uint32_t slot;
};

// hsa_init is not among them: newer runtimes do something else first there.
constexpr Anchor kCoreAnchors[] = {
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

// Slots before 16, from where on layouts differ.
constexpr AmdSlots kAnySlots;
constexpr Anchor kAmdAnchors[] = {
    {"hsa_amd_profiling_set_profiler_enabled",
     kAnySlots.profiling_set_profiler_enabled},
    {"hsa_amd_profiling_async_copy_enable", kAnySlots.profiling_async_copy_enable},
    {"hsa_amd_profiling_get_async_copy_time", kAnySlots.profiling_get_async_copy_time},
    {"hsa_amd_profiling_convert_tick_to_system_domain",
     kAnySlots.profiling_convert_tick_to_system_domain},
    {"hsa_amd_memory_pool_get_info", kAnySlots.memory_pool_get_info},
    {"hsa_amd_agent_iterate_memory_pools", kAnySlots.agent_iterate_memory_pools},
    {"hsa_amd_memory_pool_allocate", kAnySlots.memory_pool_allocate},
    {"hsa_amd_memory_pool_free", kAnySlots.memory_pool_free},
    {"hsa_amd_memory_async_copy", kAnySlots.memory_async_copy},
};

// Some functions may have probes on them, but not most of them.
constexpr uint32_t kLeastCore = 12;
constexpr uint8_t kBreakpoint = 0xcc;  // int3

class Vote {
 public:
  explicit Vote(const ElfObject& runtime) : runtime_(runtime) {}

  void Ask(const Anchor& anchor) {
    const void* function = runtime_.Function(anchor.name);
    const size_t bytes = function != nullptr ? runtime_.CodeFrom(function) : 0;
    // A probe or a breakpoint, such as the one that a late attach begins at: the first
    // instruction cannot be read.
    if (bytes != 0 && *static_cast<const uint8_t*>(function) == kBreakpoint) return;
    ++asked_;
    TableJump jump;
    if (bytes == 0 || !DecodeTableJump(static_cast<const uint8_t*>(function), bytes,
                                       reinterpret_cast<uint64_t>(function), &jump)) {
      return;
    }
    const auto expected =
        static_cast<int32_t>(sizeof(ApiTableVersion) + anchor.slot * sizeof(void*));
    if (variable_ == 0) variable_ = jump.variable;
    if (jump.offset == expected && jump.variable == variable_) {
      ++agreed_;
    } else {
      ++disagreed_;
    }
  }

  uint32_t agreed() const { return agreed_; }
  // The table on which all agree; nullptr if they do not.
  ApiTable* Table() const {
    if (disagreed_ != 0 || agreed_ * 4 < asked_ * 3 || agreed_ == 0) return nullptr;
    const auto* variable = reinterpret_cast<ApiTable* const*>(variable_);
    if (variable_ % sizeof(void*) != 0 ||
        !runtime_.Contains(variable, sizeof(void*), PF_R)) {
      return nullptr;
    }
    ApiTable* table = LoadAcquire(variable);
    // Static data of the runtime, which we may write.
    const bool inside = runtime_.Contains(table, sizeof(ApiTableVersion), PF_R | PF_W);
    if (!inside || reinterpret_cast<uintptr_t>(table) % sizeof(void*) != 0) {
      return nullptr;
    }
    const uint32_t bytes = table->version.minor_id;
    return runtime_.Contains(table, bytes, PF_R | PF_W) ? table : nullptr;
  }

 private:
  const ElfObject& runtime_;
  uint64_t variable_ = 0;
  uint32_t asked_ = 0, agreed_ = 0, disagreed_ = 0;
};

// Checks the slots after 16, once the layout is known.
bool ConfirmSlots(const ElfObject& runtime, const AmdSlots& slots) {
  const Anchor anchors[] = {
      {"hsa_amd_memory_async_copy", slots.memory_async_copy},
      {"hsa_amd_agents_allow_access", slots.agents_allow_access},
      {"hsa_amd_pointer_info", slots.pointer_info},
      {"hsa_amd_memory_async_copy_rect", slots.memory_async_copy_rect},
  };
  Vote vote(runtime);
  for (const Anchor& anchor : anchors) vote.Ask(anchor);
  return vote.Table() != nullptr;
}

}  // namespace

const char* FindLiveTables(const void* window, LiveTables* tables) {
  if (window == nullptr) return "the window's address is not known";
  const ElfObject& runtime = tables->runtime;
  if (!ElfObject::Find(window, &tables->runtime)) {
    return "the loader does not list the runtime that the window is in";
  }
  Vote core(runtime), amd(runtime);
  for (const Anchor& anchor : kCoreAnchors) core.Ask(anchor);
  for (const Anchor& anchor : kAmdAnchors) amd.Ask(anchor);
  ApiTableRoot root = {};
  root.version.minor_id = sizeof(root);
  root.core = core.agreed() < kLeastCore ? nullptr : core.Table();
  root.amd_ext = amd.Table();
  if (root.core == nullptr)
    return "the runtime's functions do not agree on a core table";
  if (root.amd_ext == nullptr) {
    return "the runtime's functions do not agree on a table of AMD extensions";
  }
  const char* why = CheckTables(&root, &tables->slots);
  if (why != nullptr) return why;
  if (!ConfirmSlots(runtime, tables->slots)) {
    return "the layout of the table of AMD extensions does not match its size";
  }
  tables->root = root;
  return nullptr;
}

}  // namespace rocattach::collector
