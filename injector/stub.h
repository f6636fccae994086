// The self-restoring stub: the code that the held thread runs, and its parameters.
#ifndef ROCATTACH_INJECTOR_STUB_H_
#define ROCATTACH_INJECTOR_STUB_H_

#include <sys/socket.h>
#include <sys/un.h>

#include <array>
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

// How the stub gets the collector's file.
enum class StubKind {
  kByPath,        // it opens config.collector_path
  kByDescriptor,  // it is sent one; collector_path is the name of the loaded library
};

// Where a stub waits for the file, random for each attach.
struct StubSocket {
  static constexpr size_t kBytes = 16;
  // Of the abstract address, hexadecimal. Every process of the network namespace can
  // see it.
  std::array<uint8_t, kBytes> name = {};
  // What the message must consist of. Only the service and the target know it.
  std::array<uint8_t, kBytes> key = {};

  // UNAVAILABLE on a machine that is just starting.
  static absl::StatusOr<StubSocket> Random();
  sockaddr_un Address(socklen_t* bytes) const;
};

// Which handlers of signals end the system call to which the thread goes back: if one
// is to run when the stub is done, the call returns EINTR instead of beginning again. As
// the kernel decides for a call that a handler interrupts.
enum class EndingHandlers {
  kNone,            // or it goes back to no call
  kWithoutRestart,  // those without SA_RESTART
  kAll,
};

struct StubSpec {
  StubKind kind = StubKind::kByPath;
  RemoteAddress return_ip;  // where the thread is stopped and continues
  // Unless they are kNone, return_ip is at a system call's instruction of two bytes.
  EndingHandlers ending_handlers = EndingHandlers::kNone;
  LoaderFunctions functions;
  LoaderLocks locks;          // not known: dlopen is called without checking them
  uint32_t xstate_bytes = 0;  // of XstateBytes()
  rocattach_collector_config config = {};
  StubSocket socket;  // of the kind kByDescriptor
};

// Number of bytes that BuildStub returns; constant.
size_t StubBytes(StubKind kind = StubKind::kByPath);

// For a stub that is sent a file: the places, from its first byte, behind the calls
// that make its socket and give it the name.
size_t StubSocketMade();
size_t StubSocketBound();
// The most that it reports about a failed load.
size_t StubErrorBytes();

// The stub ready to be written to any 16-byte aligned address; its first byte is its
// entry. INVALID_ARGUMENT if the spec has a null address, no path, or an unterminated
// path. The stub ends with a nonzero mark, by which a later attach sees that the space
// is taken.
absl::StatusOr<std::string> BuildStub(const StubSpec& spec);

// The return address of a stub, if `room` holds exactly the code of a stub of that kind
// with parameters as BuildStub writes them; null otherwise.
RemoteAddress ReturnAddressOf(absl::string_view room, StubKind kind);

// What is in `room`, if it begins with a stub of either kind.
struct FoundStub {
  size_t bytes = 0;        // 0: no stub
  uint64_t window_id = 0;  // in its configuration
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

#endif  // ROCATTACH_INJECTOR_STUB_H_
