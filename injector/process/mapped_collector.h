// The shared memory of a collector that a process has mapped, and its owner; and the
// names of the collector where it has no path.
#ifndef ROCATTACH_INJECTOR_PROCESS_MAPPED_COLLECTOR_H_
#define ROCATTACH_INJECTOR_PROCESS_MAPPED_COLLECTOR_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "injector/process/maps.h"
#include "injector/process/target_memory.h"
#include "injector/stub/remote_address.h"
#include "userspace/base/process.h"

// The collector's DT_SONAME, by which the dynamic loader finds it in a process that has
// loaded it, however it was opened. The memfd with its contents has the same name.
#define ROCATTACH_COLLECTOR_NAME "librocattach-collector.so"

// The name of that memfd in /proc/PID/maps, without " (deleted)".
#define ROCATTACH_COLLECTOR_MEMFD "/memfd:" ROCATTACH_COLLECTOR_NAME

namespace rocattach {

struct MappedCollector {
  RemoteAddress memory;
  uint64_t bytes = 0;
  pid_t owner = 0;  // the process's ID in its own namespace
  // Path of its library as the process has mapped it; if it was sent, a memfd's name.
  std::string library;
  // True if it records only while an attacher has had rocprofiler-sdk attach it.
  bool by_attacher = false;
  // True in a forked child that has the memory of the process that it was forked from.
  bool inherited = false;
  // True if it is inherited and the runtime was open at the fork. The child cannot use
  // what it has inherited of the runtime, and hsa_init does not open it anew.
  bool runtime_was_open = false;
};

// The process's own memory if it has some, else the inherited memory; empty if it has
// mapped neither. Memory of another version counts as its own. `inner_pid` is the
// process's ID in its own namespace.
std::optional<MappedCollector> FindMappedCollector(const Maps& maps,
                                                   const TargetMemory& memory,
                                                   const ProcessId& process,
                                                   pid_t inner_pid);

// True for a part of a collector's code, this service's or another's.
bool IsCollectorLibrary(const Mapping& mapping);

// Text for users: why a child with an inherited open runtime is not attached to.
std::string ExplainInheritedRuntime(const MappedCollector& collector);

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_PROCESS_MAPPED_COLLECTOR_H_
