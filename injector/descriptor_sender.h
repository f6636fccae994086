// Sends a target the collector's file, where the target sees no path to it.
#ifndef ROCATTACH_INJECTOR_DESCRIPTOR_SENDER_H_
#define ROCATTACH_INJECTOR_DESCRIPTOR_SENDER_H_

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "injector/failure.h"
#include "injector/stub/remote_address.h"
#include "injector/stub/stub.h"
#include "injector/tracing/tracee.h"
#include "userspace/base/unique_fd.h"

namespace rocattach {

// A thread that has been redirected to a stub of the kind kByDescriptor, and is still
// stopped.
struct DescriptorReceiver {
  pid_t tid = 0;
  RemoteAddress stub;
  StubSocket socket;  // as in the stub
  Tracee* tracee = nullptr;
};

// Lets the thread run until the stub's socket is bound, sends `descriptor` there, and
// leaves the thread stopped. If this process ends at any point, or if this fails, the
// thread runs on: it finds nothing in its socket, closes it, and loads nothing.
// *report: a file to which the stub writes why a load has failed (ReadLoadError).
//
// No descriptor is taken from the target: closing such a descriptor may block for as
// long as the target's user wants.
//
// `shares_cpu`: as for Tracee::WaitForStop. kResourceLimit or kCollectorMissing if the
// process may not have such a socket; kStopTimeout if the thread did not bind it in
// time.
StepResult SendDescriptor(const DescriptorReceiver& receiver, int descriptor,
                          uint64_t deadline_ns, bool shares_cpu, UniqueFd* report);

// The text of dlerror that the stub has written to `report`; empty if there is none.
std::string ReadLoadError(int report);

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_DESCRIPTOR_SENDER_H_
