// Gives a target the collector's file without a path that it could see.
#ifndef ROCATTACH_INJECTOR_DESCRIPTOR_SENDER_H_
#define ROCATTACH_INJECTOR_DESCRIPTOR_SENDER_H_

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "injector/failure.h"
#include "injector/remote_address.h"
#include "injector/target_memory.h"
#include "injector/tracee.h"
#include "userspace/base/unique_fd.h"

namespace rocattach {

// A thread that has been redirected to a stub of the kind kByDescriptor, and is still
// stopped.
struct DescriptorReceiver {
  pid_t pid = 0;
  pid_t tid = 0;
  RemoteAddress stub;
  RemoteAddress stack_pointer;  // of the thread before the stub
  const TargetMemory* memory = nullptr;
  Tracee* tracee = nullptr;
};

// Lets the thread run until the stub has made its pair of sockets, sends `descriptor`
// through it, and leaves the thread stopped there. If this process ends at any point,
// or if this fails, the thread runs on: it finds nothing in its socket, closes it, and
// loads nothing. *socket: the service's end, where the stub reports a failed load.
//
// `shares_cpu`: as for Tracee::WaitForStop. kResourceLimit or kCollectorMissing if the
// process may have no such sockets; kStopTimeout if the thread did not get there in
// time.
StepResult SendDescriptor(const DescriptorReceiver& receiver, int descriptor,
                          uint64_t deadline_ns, bool shares_cpu, UniqueFd* socket);

// What the stub has reported to `socket`: the text of dlerror; empty if nothing.
std::string ReadLoadError(int socket);

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_DESCRIPTOR_SENDER_H_
