// The shared memory of a collector that a process has mapped, and whose it is.
#ifndef ROCATTACH_INJECTOR_MAPPED_COLLECTOR_H_
#define ROCATTACH_INJECTOR_MAPPED_COLLECTOR_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "injector/maps.h"
#include "injector/remote_address.h"
#include "injector/target_memory.h"
#include "userspace/base/process.h"

namespace rocattach {

struct MappedCollector {
  RemoteAddress memory;
  uint64_t bytes = 0;
  pid_t owner = 0;  // as it calls itself, in its own namespace
  // The path of its library as the process has it; of one that was sent, as of a memfd.
  std::string library;
  // It records only while an attacher has had rocprofiler-sdk attach it.
  bool by_attacher = false;
  // A forked child has the memory of the process that it was forked from.
  bool inherited = false;
  // Inherited: the runtime was open at the fork. What a child has inherited of it
  // cannot be used, and hsa_init does not open it anew.
  bool runtime_was_open = false;
};

// The process's own memory if it has some, else what it has inherited; nothing if it
// has mapped neither. Memory of another version counts as its own. `inner_pid`: its ID
// in its own namespace.
std::optional<MappedCollector> FindMappedCollector(const Maps& maps,
                                                   const TargetMemory& memory,
                                                   const ProcessId& process,
                                                   pid_t inner_pid);

// Whether it is a part of a collector's code, of this service's or another's.
bool IsCollectorLibrary(const Mapping& mapping);

// For users: why such a child is not attached to.
std::string ExplainInheritedRuntime(const MappedCollector& collector);

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_MAPPED_COLLECTOR_H_
