// The self-restoring stub: the code that the held thread runs, and its parameters.
#ifndef ROCATTACH_INJECTOR_STUB_H_
#define ROCATTACH_INJECTOR_STUB_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "injector/loader_lock.h"
#include "injector/remote_address.h"
#include "injector/symbol_lookup.h"
#include "userspace/abi/shared_memory.h"

namespace rocattach {

struct StubPlan {
  RemoteAddress return_ip;  // where the thread stands and goes on
  LoaderFunctions functions;
  LoaderLocks locks;          // not known: dlopen is called without a look at them
  uint32_t xstate_bytes = 0;  // as XstateBytes() says
  // collector_path is the file to dlopen.
  rocattach_collector_config config = {};
};

// Bytes that BuildStub returns, always the same number.
size_t StubBytes();

// The stub ready to be written to any 16-byte aligned address; its first byte is its
// entry. INVALID_ARGUMENT if the plan has a null address, no path, or a path without an
// end. Ends with a mark that is not zero, by which a later attach sees the room taken.
absl::StatusOr<std::string> BuildStub(const StubPlan& plan);

// The address that a stub goes back to, if `room` is the code of this very stub with
// its parameters, as BuildStub makes them; null if it is something else.
RemoteAddress ReturnAddressOf(absl::string_view room);

// The window_id in the configuration of such a stub, 0 if it is something else.
uint64_t WindowOf(absl::string_view room);

// Size of the XSAVE area with all features that the kernel has enabled, header
// included (CPUID leaf 0xD; the same on every processor of a machine). 0 if the
// processor or the kernel has no XSAVE.
uint32_t XstateBytes();

// Bytes that the stub writes below the thread's stack pointer. Everything else is on a
// stack that it maps for itself.
uint64_t StubFrameBytes();

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_STUB_H_
