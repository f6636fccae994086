#include "injector/process/mapped_collector.h"

#include "absl/strings/str_cat.h"
#include "userspace/abi/shared_memory.h"
#include "userspace/base/clock.h"

namespace rocattach {
namespace {

constexpr char kMemoryName[] = "/memfd:" ROCATTACH_SHM_NAME;

bool RuntimeWasOpen(const rocattach_control& control, const TargetMemory& memory) {
  uint32_t state = ROCATTACH_STATE_NONE;
  if (control.state_address == 0 ||
      !memory.Read(RemoteAddress(control.state_address), &state, sizeof(state)).ok()) {
    return false;
  }
  // A late attach begins with a runtime that is open.
  return state == ROCATTACH_STATE_ARMED || (state == ROCATTACH_STATE_LOADED &&
                                            control.entry == ROCATTACH_ENTRY_PATH_LATE);
}

void Examine(const TargetMemory& memory, const ProcessId& process, pid_t inner_pid,
             MappedCollector* collector) {
  rocattach_control control;
  if (!memory.Read(collector->memory, &control, sizeof(control)).ok() ||
      control.magic != ROCATTACH_SHM_MAGIC ||
      control.version != ROCATTACH_SHM_VERSION) {
    return;
  }
  collector->owner = control.pid;
  collector->by_attacher = control.by_attacher != 0;
  // The number of a window is the time when it was opened. A child in a PID namespace
  // of its own may have the same ID there as its parent has in another one.
  collector->inherited = control.pid != inner_pid ||
                         control.window_id / ClockTickNs() < process.start_ticks;
  if (collector->inherited) {
    collector->runtime_was_open = RuntimeWasOpen(control, memory);
  }
}

}  // namespace

bool IsCollectorLibrary(const Mapping& mapping) {
  return mapping.executable && (mapping.basename() == ROCATTACH_COLLECTOR_NAME ||
                                mapping.path == ROCATTACH_COLLECTOR_MEMFD);
}

std::optional<MappedCollector> FindMappedCollector(const Maps& maps,
                                                   const TargetMemory& memory,
                                                   const ProcessId& process,
                                                   pid_t inner_pid) {
  std::optional<MappedCollector> found;
  const auto& mappings = maps.mappings();
  for (auto first = mappings.begin(); first != mappings.end(); ++first) {
    if (first->path != kMemoryName || first->offset != 0) continue;
    MappedCollector collector;
    collector.memory = first->start;
    RemoteAddress end = first->end;
    for (auto next = first + 1; next != mappings.end() && next->start == end &&
                                next->SameFile(*first) && next->offset != 0;
         ++next) {
      end = next->end;
    }
    collector.bytes = end - first->start;
    Examine(memory, process, inner_pid, &collector);
    if (!found.has_value() || !collector.inherited) found = collector;
    if (!collector.inherited) break;
  }
  if (!found.has_value()) return found;
  for (const Mapping& mapping : mappings) {
    if (!IsCollectorLibrary(mapping)) continue;
    found->library = DecodeMapsPath(mapping.path);
    break;
  }
  return found;
}

std::string ExplainInheritedRuntime(const MappedCollector& collector) {
  return absl::StrCat("the process was forked from process ", collector.owner,
                      " (as that calls itself) while its HSA runtime was open");
}

}  // namespace rocattach
