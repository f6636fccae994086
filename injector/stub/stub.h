// The self-restoring stub: the code that the held thread runs, and its parameters.
#ifndef ROCATTACH_INJECTOR_STUB_STUB_H_
#define ROCATTACH_INJECTOR_STUB_STUB_H_

#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "injector/elf/symbol_lookup.h"
#include "injector/process/loader_lock.h"
#include "injector/stub/remote_address.h"
#include "userspace/abi/shared_memory.h"

namespace rocattach {

// The way in which the stub gets the collector's file.
enum class StubKind {
  kByPath,        // it opens config.collector_path
  kByDescriptor,  // it is sent a descriptor; collector_path names the loaded library
};

// The socket at which a stub waits for the file, random for each attach.
struct StubSocket {
  static constexpr size_t kBytes = 16;
  // Name in the abstract address, hexadecimal. Every process of the network namespace
  // can see it.
  std::array<uint8_t, kBytes> name = {};
  // Required contents of the message. Only the service and the target know them.
  std::array<uint8_t, kBytes> key = {};

  // UNAVAILABLE on a machine that is just starting.
  static absl::StatusOr<StubSocket> Random();
  sockaddr_un Address(socklen_t* bytes) const;
};

// The signal handlers that end the system call to which the thread returns: if one of
// them is to run when the stub is done, the call returns EINTR instead of beginning
// again. The kernel decides in the same way for a call that a handler interrupts.
enum class EndingHandlers {
  kNone,            // or the thread returns to no call
  kWithoutRestart,  // those without SA_RESTART
  kAll,
};

struct StubSpec {
  StubKind kind = StubKind::kByPath;
  RemoteAddress return_ip;  // where the thread is stopped and continues
  // Unless this is kNone, return_ip is at a system call instruction of two bytes.
  EndingHandlers ending_handlers = EndingHandlers::kNone;
  LoaderFunctions functions;
  LoaderLocks locks;          // not known: dlopen is called without checking them
  uint32_t xstate_bytes = 0;  // from XstateBytes()
  rocattach_collector_config config = {};
  StubSocket socket;  // for the kind kByDescriptor
};

// Number of bytes that BuildStub returns; constant.
size_t StubBytes(StubKind kind = StubKind::kByPath);

// For a stub that is sent a file: the offsets from its first byte to the places after
// the calls that make its socket and bind it to its name.
size_t StubSocketMade();
size_t StubSocketBound();
// Maximum size of its report of a failed load, in bytes.
size_t StubErrorBytes();

// The stub ready to be written to any 16-byte aligned address; its first byte is its
// entry. INVALID_ARGUMENT if the spec has a null address, no path, or an unterminated
// path. The stub ends with a nonzero mark, by which a later attach sees that the space
// is taken.
absl::StatusOr<std::string> BuildStub(const StubSpec& spec);

// The return address of a stub, if `room` holds exactly the code of a stub of that kind
// with parameters as BuildStub writes them; null otherwise.
RemoteAddress ReturnAddressOf(absl::string_view room, StubKind kind);

// The stub at the beginning of `room`, of either kind.
struct FoundStub {
  size_t bytes = 0;        // 0: no stub
  uint64_t window_id = 0;  // from its configuration
};
FoundStub FindStub(absl::string_view room);

// Size of the XSAVE area with all features that the kernel has enabled, header
// included (CPUID leaf 0xD; the same on every processor of a machine). 0 if the
// processor or the kernel has no XSAVE.
uint32_t XstateBytes();

// Bytes that the stub writes below the thread's stack pointer. Everything else is on a
// stack that the stub maps.
uint64_t StubFrameBytes();

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_STUB_STUB_H_
