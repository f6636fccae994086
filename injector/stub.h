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
  RemoteAddress return_ip;  // where the thread is stopped and continues
  LoaderFunctions functions;
  LoaderLocks locks;          // not known: dlopen is called without checking them
  uint32_t xstate_bytes = 0;  // of XstateBytes()
  // collector_path is the file to dlopen.
  rocattach_collector_config config = {};
};

// Number of bytes that BuildStub returns; constant.
size_t StubBytes();

// The stub ready to be written to any 16-byte aligned address; its first byte is its
// entry. INVALID_ARGUMENT if the plan has a null address, no path, or an unterminated
// path. The stub ends with a nonzero mark, by which a later attach sees that the space
// is taken.
absl::StatusOr<std::string> BuildStub(const StubPlan& plan);

// The return address of a stub, if `room` holds exactly this stub's code with
// parameters as BuildStub writes them; null otherwise.
RemoteAddress ReturnAddressOf(absl::string_view room);

// The window_id in the configuration of such a stub, 0 otherwise.
uint64_t WindowOf(absl::string_view room);

// Size of the XSAVE area with all features that the kernel has enabled, header
// included (CPUID leaf 0xD; the same on every processor of a machine). 0 if the
// processor or the kernel has no XSAVE.
uint32_t XstateBytes();

// Bytes that the stub writes below the thread's stack pointer. Everything else is on a
// stack that the stub maps.
uint64_t StubFrameBytes();

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_STUB_H_
